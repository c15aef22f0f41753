"""Rows of programs that share a device of the host's service, for perf/run.

Programs are pairs of processes that are forked and told when to start (`program_pairs`). The far end polls, as an MPI rank does.

host.bare.*: the floor (`bare_channel`). Two processes copy payload into frames and out of them, without protocol and ICRC.
host.write64k.gbps, .full.gbps: 64 KiB messages between two programs, each on a CPU, without and with ICRC; likewise send and read.
host.write64.mmsgs, host.send64.rtt_us, .rtt_p99_us: messages of 64 B. rtt_over_ring_us is beside net_ring.
host.cpu_ns.OPERATION.SIZE: CPU time of both ends on one thread; suffers least from a busy machine.
host.programs.N.*: the sum of N programs, in pairs of 1 or 64 queue pairs, beside one pair.
host.start.true_ms, .ibv_devices_ms: `uroce run -- true` from start to end, median of 20, beside `true` alone.
host.idle.program.cpu_percent, .service.: of one CPU, while two connected programs sleep.
"""

import functools
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import time

import links
from between_rows import PERFTEST, EndToEnd, passive_target
from rows import LARGE, LARGE_FRAME, SMALL, SMALL_FRAME, Failure, Row, command
from wire_rows import Wire

MESSAGE = 65536
OPERATIONS = 'write', 'send', 'read'
# Of each figure, in turns with those that stand beside it; the median counts.
RUNS = 3
STARTS = 20
IDLE_SECONDS = 3
# Programs at once, two in a pair, and what each pair sends: name, unit, size, queue pairs.
PROGRAMS = 2, 4, 8, 16
SHAPES = ('write64k', 'gbps', MESSAGE, 1), ('qp64.write64k', 'gbps', MESSAGE, 64), ('qp64.write64', 'mmsgs', SMALL, 64)
UNITS = {'gbps': 'Gbit/s', 'mmsgs': 'M/s'}


class Host:
    def __init__(self, build, duration):
        self.build, self.duration = build, duration
        self.ends, self.wire = EndToEnd(build, duration), Wire(build, duration)

    def rows(self):
        if len(os.sched_getaffinity(0)) < 2:
            return print('perf/run: host: SKIPPED, there is one CPU', file=sys.stderr)
        yield from self.of_two()
        yield from self.beside_memif()
        yield from self.of_perftest()
        yield from self.cpu_time()
        yield from self.start()
        yield from self.idle()
        yield from self.of_many()

    # Two programs.

    def of_two(self):
        """Beside the channel between them alone, and beside two threads with a ring of DPDK's between them."""
        rounds = [self.round_of_two() for _ in range(RUNS)]
        median = {name: statistics.median(one[name] for one in rounds) for name in rounds[0]}
        goodput, rate, trip = (median[f'bare.{name}'] for name in ('gbps', 'mmsgs', 'rtt_us'))
        yield Row('host.bare.copied4k.gbps', goodput, 'Gbit/s')
        yield Row('host.bare.copied64.mmsgs', rate, 'M/s')
        yield Row('host.bare.copied64.rtt_us', trip, 'us')
        for icrc in '', '.full':
            for operation in OPERATIONS:
                name = f'{operation}64k{icrc}.gbps'
                yield Row(f'host.{name}', median[name], 'Gbit/s', goodput, 'bare channel')
        for operation in OPERATIONS:
            yield Row(f'host.{operation}64.mmsgs', median[f'{operation}64.mmsgs'], 'M/s', rate, 'bare channel')
        for operation in OPERATIONS:
            yield Row(f'host.{operation}64.rtt_us', median[f'{operation}64.rtt_us'], 'us', trip, 'bare channel', 'lower')
            yield Row(f'host.{operation}64.rtt_p99_us', median[f'{operation}64.rtt_p99_us'], 'us', median['bare.rtt_p99_us'],
                      'bare channel', 'lower')
        yield Row('host.ring.send64.rtt_us', median['ring.send64.rtt_us'], 'us')
        yield Row('host.send64.rtt_over_ring_us', median['send64.rtt_us'] - median['ring.send64.rtt_us'], 'us')

    def round_of_two(self):
        """Every figure once. Goodput counts payload."""
        bare = json.loads(command([self.program('bare_channel'), '--bytes', f'{SMALL_FRAME},{LARGE_FRAME}', '--seconds', self.duration]))
        ring = json.loads(self.wire.run('net_ring', [self.program('two_threads'), '--seconds', self.duration, '--ping', '--op', 'send']))
        figures = {'bare.gbps': bare[f'copied.{LARGE_FRAME}.frames_per_second'] * LARGE * 8 / 1e9,
                   'bare.mmsgs': bare[f'copied.{SMALL_FRAME}.frames_per_second'] / 1e6,
                   'bare.rtt_us': bare[f'copied.{SMALL_FRAME}.round_trip_p50_us'],
                   'bare.rtt_p99_us': bare[f'copied.{SMALL_FRAME}.round_trip_p99_us'],
                   'ring.send64.rtt_us': ring['round_trip_p50_us']}
        for icrc, suffix in ('uplink', ''), ('full', '.full'):
            with links.HostLink(self.build, icrc) as link:
                for operation in OPERATIONS:
                    figures[f'{operation}64k{suffix}.gbps'] = self.pairs(link, operation, MESSAGE)['gigabits_per_second']
                    if not suffix:
                        figures |= self.small(link, operation)
        return figures

    def small(self, link, operation):
        trip = self.pairs(link, operation, SMALL, '--ping')
        return {f'{operation}64.mmsgs': self.pairs(link, operation, SMALL)['messages_per_second'] / 1e6,
                f'{operation}64.rtt_us': trip['round_trip_p50_us'], f'{operation}64.rtt_p99_us': trip['round_trip_p99_us']}

    def pairs(self, link, operation, size, *options, queue_pairs=1, region_mb=64):
        """What pairs of programs say; of messages as much under way as `two_threads` has."""
        outstanding = ('--batch', 1, '--outstanding', 64) if size == MESSAGE else ('--outstanding', max(256, 16 * queue_pairs))
        return json.loads(command(self.of_service(link, '--op', operation, '--size', size, *outstanding, '--queue-pairs', queue_pairs,
                                                  '--seconds', self.duration, '--region-mb', region_mb, *options)))

    def of_service(self, link, *options):
        return [self.build / 'apps/uroce', 'run', *link.device('client'), '--', self.program('program_pairs'), *options]

    def beside_memif(self):
        """`uroce perf` between two processes, which computes and verifies the ICRC of each frame both ways."""
        options = ['--op', 'write', '--size', MESSAGE, '--measure', 'bandwidth', '--duration', self.duration, '--quiet']
        ways = {'host': functools.partial(links.HostLink, self.build, 'full'), 'memif': links.MemifLink}
        rounds = [{way: self.ends.perf_between_processes(new_link, options)[f'write.{MESSAGE}.gigabits_per_second']
                   for way, new_link in ways.items()} for _ in range(RUNS)]
        host, memif = (statistics.median(one[way] for one in rounds) for way in ways)
        yield Row('host.perf.write64k.full.gbps', host, 'Gbit/s', memif, 'memif')

    def of_perftest(self):
        tools = [(tool, arguments) for tool, size, arguments, latencies in PERFTEST if size == SMALL and latencies]
        if all(shutil.which(tool) for tool, _ in tools):
            new_link = functools.partial(links.HostLink, self.build)
            rounds = [{tool: self.ends.perftest(new_link, tool, SMALL, arguments) for tool, arguments in tools} for _ in range(RUNS)]
            for tool, _ in tools:
                typical = statistics.median(float(said[tool][4]) for said in rounds)
                yield Row(f'host.{tool}.{SMALL}.latency', typical, 'us')
            yield from passive_target('host', sorted(rounds, key=lambda said: float(said['ib_write_lat'][5]))[RUNS // 2])

    def cpu_time(self):
        """Of both ends of an operation, turned by one thread that has two devices of the service, beside the same over a ring of
        DPDK's: the copies without the other CPU."""
        with links.HostLink(self.build) as link:
            # Two ports are two devices only if they are not written alike.
            ends = [word for name, icrc in (('near', ''), ('far', ',icrc=uplink'))
                    for word in ('--port', f'host,socket={link.socket},device=uroce0{icrc}', '--name', name)]
            ways = {'host': [self.build / 'apps/uroce', 'run', *ends, '--'], 'net_ring': self.wire.command('net_ring', [])}
            for operation in OPERATIONS:
                for size in SMALL, MESSAGE:
                    program = [self.program('one_thread'), '--op', operation, '--size', size, '--seconds', self.duration]
                    rounds = [[json.loads(command([*way, *program]))['cpu_ns_per_operation'] for way in ways.values()]
                              for _ in range(RUNS)]
                    host, ring = (statistics.median(values) for values in zip(*rounds))
                    yield Row(f'host.cpu_ns.{operation}.{size}', host, 'ns', ring, 'net_ring', 'lower')

    # Many programs.

    def of_many(self):
        """The sum of all pairs, beside one pair; of long messages beside what is left of one pair's where as many pairs copy by their
        channels alone, for they lose to each other's time slices and caches too."""
        rounds = [dict(self.round_of_many()) for _ in range(RUNS)]
        median = {what: statistics.median(one[what] for one in rounds) for what in rounds[0]}
        for programs in PROGRAMS:
            yield Row(f'host.programs.{programs}.bare.copied4k.gbps', median['bare', programs], 'Gbit/s', median['bare', 2], 'one pair')
        for name, unit, size, *_ in SHAPES:
            one_pair = median[name, 2]
            yield Row(f'host.programs.2.{name}.{unit}', one_pair, UNITS[unit])
            for programs in PROGRAMS[1:]:
                left = min(1, median['bare', programs] / median['bare', 2]) if size == MESSAGE else 1
                yield Row(f'host.programs.{programs}.{name}.{unit}', median[name, programs], UNITS[unit], one_pair * left,
                          'one pair' if left == 1 else 'one pair, bare')

    def round_of_many(self):
        for programs in PROGRAMS:
            yield ('bare', programs), self.bare_pairs(programs // 2)
        with links.HostLink(self.build) as link:
            for name, unit, size, queue_pairs in SHAPES:
                for programs in PROGRAMS:
                    said = self.pairs(link, 'write', size, '--pairs', programs // 2, queue_pairs=queue_pairs, region_mb=16)
                    yield (name, programs), said['gigabits_per_second'] if unit == 'gbps' else said['messages_per_second'] / 1e6

    def bare_pairs(self, count):
        """Payload of frames between `count` pairs of processes at once, in Gbit/s."""
        asked = [self.program('bare_channel'), '--bytes', LARGE_FRAME, '--seconds', self.duration, '--share-cpus']
        running = [subprocess.Popen([str(word) for word in asked], stdout=subprocess.PIPE, text=True) for _ in range(count)]
        told = [process.communicate()[0] for process in running]
        if any(process.returncode != 0 for process in running):
            raise Failure('bare_channel failed')
        return sum(json.loads(one)[f'copied.{LARGE_FRAME}.frames_per_second'] for one in told) * LARGE * 8 / 1e9

    # Programs that do little.

    def start(self):
        """How long it takes from the start of a program to its end, while the service runs."""
        plain = milliseconds(['true'], os.environ)
        with links.HostLink(self.build) as link:
            run = [self.build / 'apps/uroce', 'run', '--']
            yield Row('host.start.true_ms', milliseconds([*run, 'true'], link.environment()), 'ms', plain, 'true', 'lower')
            if shutil.which('ibv_devices'):
                yield Row('host.start.ibv_devices_ms', milliseconds([*run, 'ibv_devices'], link.environment()), 'ms')

    def idle(self):
        """CPU time of two programs that are connected and sleep, and of their service."""
        with links.HostLink(self.build) as link:
            asked = self.of_service(link, '--idle', '--region-mb', 1, '--seconds', IDLE_SECONDS + 2)
            with subprocess.Popen([str(word) for word in asked], stdout=subprocess.PIPE, text=True) as pair:
                word, *programs = pair.stdout.readline().split() or ['']
                if word != 'idle':
                    raise Failure('program_pairs --idle does not come up')
                time.sleep(1)
                processes = [*map(int, programs), link.service.pid]
                before, start = [cpu_seconds(process) for process in processes], time.monotonic()
                time.sleep(IDLE_SECONDS)
                took = time.monotonic() - start
                *of_programs, of_service = (100 * (cpu_seconds(process) - was) / took for process, was in zip(processes, before))
        yield Row('host.idle.program.cpu_percent', max(of_programs), '%')
        yield Row('host.idle.service.cpu_percent', of_service, '%')

    def program(self, name):
        return self.build / 'perf/end_to_end' / name


def milliseconds(program, environment):
    """Median of STARTS runs."""
    path = shutil.which(program[0])
    quiet = [(os.POSIX_SPAWN_OPEN, 1, '/dev/null', os.O_WRONLY, 0)]
    times = []
    for _ in range(STARTS):
        start = time.perf_counter()
        child = os.posix_spawn(path, [str(word) for word in program], environment, file_actions=quiet)
        _, status = os.waitpid(child, 0)
        times.append(1000 * (time.perf_counter() - start))
        if status != 0:
            raise Failure(f'{" ".join(map(str, program))}: status {os.waitstatus_to_exitcode(status)}')
    return statistics.median(times)


def cpu_seconds(process):
    """That all threads of a process have taken, to the nanosecond; /proc/PID/stat counts hundredths of a second."""
    return sum(int(path.read_text().split()[0]) for path in pathlib.Path(f'/proc/{process}/task').glob('*/schedstat')) / 1e9
