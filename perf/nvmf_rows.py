"""Rows of I/O over NVMe-oF, for perf/run."""

import json
import os
import pathlib
import shutil
import statistics
import sys
import tempfile

import callgrind
import links
from rows import LARGE, SMALL, Failure, Row, command
from wire_rows import RUNS

# What the kernel takes on this kind of machine for a 4 KiB random read, in us of CPU time of both ends together.
PEERS_CPU_US = {'nvme-tcp': 3.4, 'rxe': 8.5}
# What SPDK's initiator and target reach by NVMe/TCP over loopback with 8 commands of 128 KiB under way, a second.
PEERS_LARGE_IOPS = {'read128k': 48_100, 'write128k': 56_000}
PATTERNS = {
    'randread4k': ['--size', '4K'],
    'randwrite4k': ['--size', '4K', '--write', '--in-capsule'],  # as the Linux host writes it
    'randwrite4k_by_read': ['--size', '4K', '--write'],
    'randread4k_registered': ['--size', '4K', '--fast-registration'],  # as it reads
    'read128k': ['--size', '128K', '--sequential'],
    'write128k': ['--size', '128K', '--sequential', '--write'],
}
DRIVERS = 'null', 'ram', 'file'
DEEP, SHALLOW, SINGLE = 128, 8, 1
NAMESPACE_MB = 256
# Whose a function is: the first that its object or its name begins with. What the C library does is the caller's.
LAYERS = (
    ('stack', ('liburoce.so', 'libibverbs.so', 'librdmacm.so', 'librte_', 'libisal')),
    ('rdma', ('uroce::nvmf::Rdma', 'uroce::nvmf::find_data')),
    ('nvme', ('uroce::nvmf::',)),
    ('block', ('uroce::drivers::', 'liburing')),
    ('initiator', ('uroce::perf::', 'uroce::client::', 'uroce::nvmf_host::')),
)
# I/Os
COUNTED = 4096


class Nvmf:
    """An initiator and a target, in one process over net_ring or in two over memif."""

    ENDS = [word for end, address in enumerate(links.ADDRESSES.values()) for word in ('--port', f'net_ring{end}', '--ip', address)]

    # A thread that turns both ends leaves each alone for a while, which is not a matter for the background thread.
    TURNED_BY_ONE = [*ENDS, '--poller-takeover-us', 1_000_000]

    def __init__(self, build, duration):
        self.build = build
        self.duration = duration
        self.uroce = build / 'apps/uroce'
        self.program = build / 'perf/nvmf/nvmf_io'

    def of_one_process(self):
        """CPU time per I/O where one thread turns both ends; IOPS of a target that has a core, and latency, where each has
        a thread."""
        two = len(os.sched_getaffinity(0)) >= 2
        if not two:
            print('perf/run: nvmf: a thread at each end: SKIPPED, there is one CPU', file=sys.stderr)
        with File() as file:
            for driver in DRIVERS:
                for pattern in PATTERNS:
                    yield from self.cpu_time(driver, pattern, file)
                    if two:
                        yield from self.rate_and_latency(driver, pattern, file)
            if two:
                yield from self.beside_fio(file)

    def cpu_time(self, driver, pattern, file):
        value = self.run(driver, pattern, file, '--depth', DEEP, '--threads', 1, ends=self.TURNED_BY_ONE)['cpu_us']
        if (driver, pattern) != ('ram', 'randread4k'):
            yield Row(f'nvmf_cpu_us.{driver}.{pattern}', value, 'us', shown=False)
            return
        for suffix, (peer, floor) in zip(('', '.beside_rxe'), PEERS_CPU_US.items()):
            yield Row(f'nvmf_cpu_us.{pattern}{suffix}', value, 'us', floor, peer, 'lower')
        verbs = 2 * self.operation('send', SMALL) + self.operation('write', LARGE)
        yield Row(f'nvmf_cpu_us.{pattern}.beside_verbs', value, 'us', verbs, 'verbs', 'lower')

    def operation(self, operation, size):
        """us of CPU time of both ends."""
        said = command([self.uroce, 'run', *self.TURNED_BY_ONE, '--', self.build / 'perf/end_to_end/one_thread', '--op', operation,
                        '--size', size, '--region-mb', NAMESPACE_MB, '--seconds', self.duration])
        return json.loads(said)['cpu_ns_per_operation'] / 1000

    def rate_and_latency(self, driver, pattern, file):
        deep = self.run(driver, pattern, file, '--depth', DEEP, '--threads', 2)
        single = self.run(driver, pattern, file, '--depth', SINGLE, '--threads', 2)
        shown = driver == 'ram'
        yield Row(f'nvmf_iops_per_core.{driver}.{pattern}', deep['iops'] / 1e6, 'M/s', shown=shown)
        yield from latency_rows(f'{driver}.{pattern}', deep, single, shown)
        if (driver, pattern) == ('ram', 'randread4k'):
            trip = self.send_round_trip()
            yield Row(f'nvmf_lat_over_send_us.{driver}.{pattern}', single['latency_p50_us'] - trip, 'us')

    def send_round_trip(self):
        said = command([self.uroce, 'run', *self.ENDS, '--', self.build / 'perf/end_to_end/two_threads', '--ping', '--op', 'send', '--size', SMALL,
                        '--seconds', self.duration])
        return json.loads(said)['round_trip_p50_us']

    def beside_fio(self, file):
        """What two CPUs get of a file by way of the target, beside what fio gets of it with one, directly."""
        if not shutil.which('fio'):
            return print('perf/run: nvmf: fio is not installed', file=sys.stderr)
        said = command(['fio', '--name=direct', f'--filename={file}', '--ioengine=io_uring', '--direct=1', '--rw=randread', '--bs=4k',
                        f'--iodepth={DEEP}', '--registerfiles=1', '--fixedbufs=1', '--time_based', f'--runtime={max(1, self.duration)}',
                        f'--size={NAMESPACE_MB}m', '--output-format=json'])
        direct = json.loads(said)['jobs'][0]['read']['iops']
        ours = self.run('file', 'randread4k', file, '--depth', DEEP, '--threads', 2)['iops']
        yield Row('nvmf_iops.file.randread4k', ours / 1e6, 'M/s', direct / 1e6, 'fio')

    def between_processes(self):
        """The same over memif, without what depends on one process."""
        for pattern in PATTERNS:
            figures = {depth: self.over_memif('ram', pattern, depth) for depth in (DEEP, SINGLE)}
            yield Row(f'nvmf_iops_per_core.memif.ram.{pattern}', figures[DEEP]['iops'] / 1e6, 'M/s', shown=pattern == 'randread4k')
            yield from latency_rows(f'memif.ram.{pattern}', figures[DEEP], figures[SINGLE], pattern == 'randread4k')

        for pattern, peer in PEERS_LARGE_IOPS.items():
            rate = self.over_memif('ram', pattern, SHALLOW)['iops']
            yield Row(f'nvmf_iops.memif.ram.{pattern}.qd{SHALLOW}', rate / 1e3, 'k/s', peer / 1e3, 'nvme-tcp')

    def over_memif(self, driver, pattern, depth):
        with links.MemifLink() as link:
            ends = {role: [self.uroce, 'run', '--port', link.port(role), '--ip', links.ADDRESSES[role], '--', self.program,
                           '--driver', driver, '--namespace-mb', NAMESPACE_MB,
                           '--target-address', links.ADDRESSES['server'].split('/')[0]] for role in links.ADDRESSES}
            own = links.ADDRESSES['client'].split('/')[0]
            _, said = links.pair(link, [*ends['server'], '--serve'],
                                 [*ends['client'], '--connect', '--own-address', own, '--depth', depth, '--seconds', self.duration,
                                  *PATTERNS[pattern]],
                                 lambda process: process.stdout.readline() == 'listening\n')
        return json.loads(said)

    def shares(self):
        """Of the instructions of an I/O, both ends together, how many are whose; like all counts that of a CPU with AVX2."""
        if not shutil.which('valgrind'):
            return print('perf/run: nvmf_shares: SKIPPED, valgrind is not installed', file=sys.stderr)
        for driver, pattern in ('ram', 'randread4k'), ('ram', 'randwrite4k'), ('null', 'randread4k'):
            by_layer, operations = self.instructions(driver, pattern), COUNTED
            total = sum(by_layer.values())
            if not by_layer['nvme']:
                raise Failure('callgrind has counted nothing of the target')
            yield Row(f'instr.nvmf.{driver}.{pattern}', total / operations, '')
            for layer in ('nvmf_target', *(layer for layer, _ in LAYERS)):
                count = by_layer['rdma'] + by_layer['nvme'] + by_layer['block'] if layer == 'nvmf_target' else by_layer[layer]
                yield Row(f'instr.nvmf.{driver}.{pattern}.{layer}', count / operations, '', shown=False)
                yield Row(f'nvmf_share.{driver}.{pattern}.{layer}', 100 * count / total, '%', shown=layer != 'nvmf_target')

    def instructions(self, driver, pattern):
        with tempfile.TemporaryDirectory() as folder:
            out = pathlib.Path(folder) / 'callgrind.out'
            ends = [word if not word.startswith('net_ring') else word.replace('net_ring', 'loopback') for word in self.ENDS]
            # Valgrind runs one thread at a time; without fairness the one that polls keeps the others from the connection for minutes.
            command([self.uroce, 'run', *callgrind.SYSTEM_CLOCK, *ends, '--', 'valgrind', '-q', '--fair-sched=yes', '--tool=callgrind',
                     f'--callgrind-out-file={out}', '--collect-atstart=no', '--toggle-collect=*measured_io*', self.program.with_name('nvmf_io_counted'),
                     '--driver', driver, '--namespace-mb', 16, '--commands', COUNTED, *PATTERNS[pattern]])
            return callgrind.instructions_by_layer(out.read_text(), LAYERS)

    def run(self, driver, pattern, file, *options, ends=ENDS):
        path = ['--path', file] if driver == 'file' else []
        program = [self.uroce, 'run', *ends, '--', self.program, '--driver', driver, *path, '--namespace-mb', NAMESPACE_MB,
                   '--seconds', self.duration, *PATTERNS[pattern], *options]
        runs = [json.loads(command(program)) for _ in range(RUNS if driver == 'ram' else 1)]
        return {name: statistics.median(run[name] for run in runs) for name in runs[0]}


class File:
    """Full of zeroes, where temporary files are; a with-block is its life."""

    def __enter__(self):
        self.file = tempfile.NamedTemporaryFile(prefix='uroce_nvmf_')
        for _ in range(NAMESPACE_MB):
            self.file.write(bytes(1 << 20))
        self.file.flush()
        return self.file.name

    def __exit__(self, *_):
        self.file.close()


def latency_rows(name, deep, single, shown):
    for quantile in 'p50', 'p99':
        yield Row(f'nvmf_lat_us.{name}.qd{SINGLE}.{quantile}', single[f'latency_{quantile}_us'], 'us', shown=shown)
        yield Row(f'nvmf_lat_us.{name}.qd{DEEP}.{quantile}', deep[f'latency_{quantile}_us'], 'us', shown=False)
