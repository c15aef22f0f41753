"""Rows of a wire inside one process, turned by one thread or by two, for perf/run."""

import json
import os
import pathlib
import re
import shutil
import statistics
import sys
import tempfile

import callgrind
import links
from between_rows import late_ones, over_bare
from micro_rows import results
from near_or_far import rows_by_state
from rows import LARGE, LARGE_FRAME, SMALL, SMALL_FRAME, Failure, Row, command

# What Linux's rxe takes for the same on one core of two virtual CPUs, in ns of CPU time for both ends together.
RXE_CPU_NS = {
    'write': {64: 2273, 4096: 2799, 65536: 28532},
    'read': {64: 2220, 4096: 2706, 65536: 26633},
    'send': {64: 2261, 4096: 2731, 65536: 28169},
}

# Counts of instructions: operation, size, its frame, the function that counts, and those below it that do not.
STORES = 'uroce::copy::copy_', 'uroce_store_ascending'
INSTRUCTIONS = {
    'instr.send64': ('send', SMALL, SMALL_FRAME, 'measured_operations', ()),
    'instr.write4k': ('write', LARGE, LARGE_FRAME, 'measured_far_end', STORES + ('uroce::wire::icrc_of', 'uroce::perf::crc_of')),
}
# Of which everything is counted; that of one message at a time has bare frames, each acknowledged, for a floor.
OF_ALL = {
    'instr.send64.alone': ('--op', 'send', '--size', SMALL, '--outstanding', 1, '--batch', 1),
    'instr.read64': ('--op', 'read', '--size', SMALL),
}
# Of one process, that poll at once.
POLLING_THREADS = 1, 4, 64, 256
# Of each end, used in random order; and what a million takes.
QUEUE_PAIRS = 1, 100, 10_000, 100_000
BATCHES = {16: '', 1: '.alone'}
# One after the other: the ibv_qp, what it leads to, the number of a packet in a table, what that leads to.
DEPENDENT_LINES = 4
MILLION_BYTES = 12 << 30
# Of two CPUs: messages of a size; small ones of so many queue pairs; one after the other.
GOODPUTS = ('write', 65536), ('write', 1 << 20), ('read', 65536)
RATES = ('write', 1), ('send', 1), ('write', 64)
ROUND_TRIPS = 'send', 'write', 'read'
# Between two rare messages: 50 in the 5 ms in which 64 would make long ones give way.
RARE_US = 100
# Of what one CPU does or two do together the median of so many runs counts.
RUNS = 3
# Those of each end whose difference shows what one more takes.
IDLE_PAIRS = 10_000, 50_000  # of which memory that comes by huge pages is but a part
USED_PAIRS = 1000, 4000
IDLE_DEPTH = 1024
# That instructions are counted of.
OPERATIONS = 4096


class Wire:
    """Programs that have both ends."""

    ADDRESSES = list(links.ADDRESSES.values())

    def __init__(self, build, duration):
        self.build = build
        self.duration = duration

    def cpu_time(self):
        """CPU time of an operation, both ends together, beside what the kernel's own RoCEv2 takes."""
        cold = {}
        for size in SMALL, LARGE, 65536:
            for suffix, region in ('', 512), ('.hot', 4):
                # In turns: what the machine does meanwhile happens to all of them.
                rounds = [{operation: self.one_thread(operation, size, '--region-mb', region) for operation in RXE_CPU_NS}
                          for _ in range(RUNS)]
                for operation, floors in RXE_CPU_NS.items():
                    value = statistics.median(figures[operation] for figures in rounds)
                    yield Row(f'cpu_ns.{operation}.{size}{suffix}', value, 'ns', floors[size], 'rxe', 'lower')
                    if suffix == '':
                        cold[operation, size] = value
                        if operation != 'write':
                            over_write = statistics.median(figures[operation] / figures['write'] for figures in rounds)
                            yield Row(f'cpu_ns.{operation}.{size}.over_write', over_write, 'x')
        bare = medians([self.program('bare_port'), '--port', 'net_ring0', '--peer-port', 'net_ring1', '--bytes',
                        f'{SMALL_FRAME},{LARGE_FRAME}', '--seconds', self.duration])
        yield from self.beside_placed(cold, bare)
        yield self.alone(bare)

    @staticmethod
    def beside_placed(cold, bare):
        """WRITEs beside what copying, CRC and placing of the same packets take without a protocol, on one thread."""
        packet = 1e9 / bare[f'placed.{LARGE_FRAME}.frames_per_second']
        for size, packets in (LARGE, 1), (65536, 16):
            yield Row(f'cpu_ns.write.{size}.beside_placed', cold['write', size], 'ns', packets * packet, 'placed', 'lower')

    def alone(self, bare):
        """A SEND and its ACK when no other message is under way: what one way of a round trip takes without waiting for another
        CPU, beside half a round trip of frames without a protocol."""
        value = statistics.median(self.one_thread('send', SMALL, '--region-mb', 4, '--outstanding', 1, '--batch', 1)
                                  for _ in range(RUNS))
        floor = bare[f'acknowledged.{SMALL_FRAME}.round_trip_p50_us'] * 1000 / 2
        return Row('cpu_ns.send.64.alone', value, 'ns', floor, 'acknowledged', 'lower')

    def one_thread(self, operation, size, *options):
        said = self.run('net_ring', [self.program('one_thread'), '--op', operation, '--size', size, '--seconds', self.duration,
                                     *options])
        return json.loads(said)['cpu_ns_per_operation']

    def two_threads(self):
        """What two CPUs do, one at each end, beside the bare port between the same two."""
        if len(os.sched_getaffinity(0)) < 2:
            return print('perf/run: two_threads: SKIPPED, there is one CPU', file=sys.stderr)
        yield from rows_by_state('ring', self.bare_two, self.round_of_two, self.rows_of_two)

    def bare_two(self):
        return json.loads(command([self.program('bare_port'), '--port', 'net_ring0', '--peer-port', 'net_ring1', '--two-threads',
                                   '--bytes', f'{SMALL_FRAME},{LARGE_FRAME}', '--seconds', self.duration / 4]))

    def round_of_two(self):
        """Each once: {name: value}."""
        figures = {}
        for operation, size in GOODPUTS:
            outstanding = max(1, (4 << 20) // size)
            figures[f'gbps.{operation}.{size}'] = self.of_two('--op', operation, '--size', size, '--batch', 1, '--outstanding',
                                                              outstanding)['gigabits_per_second']
        for operation, pairs in RATES:
            figures[f'rate.{operation}.{pairs}'] = self.of_two('--op', operation, '--size', SMALL, '--queue-pairs', pairs, '--outstanding',
                                                               max(256, 16 * pairs))['messages_per_second']
        for operation in ROUND_TRIPS:
            figures |= {f'{operation}.{name}': value for name, value in self.of_two('--ping', '--op', operation, '--size', SMALL).items()}
        return figures

    @staticmethod
    def rows_of_two(figures):
        placed = figures[f'placed.{LARGE_FRAME}.gigabits_per_second']
        for operation, size in GOODPUTS:
            yield Row(f'gbps.ring.{operation}.{size}', figures[f'gbps.{operation}.{size}'], 'Gbit/s', placed, 'placed')
        yield Row('gbps.ring.read.65536.over_write', figures['gbps.read.65536'] / figures['gbps.write.65536'], 'x')
        copied = figures[f'copied.{SMALL_FRAME}.frames_per_second'] / 1e6
        for operation, pairs in RATES:
            yield Row(f'mmsgs.ring.{operation}64.qp{pairs}', figures[f'rate.{operation}.{pairs}'] / 1e6, 'M/s', copied, 'copied')
        yield Row(f'ring.bare.{SMALL_FRAME}.round_trip', figures[f'bare.{SMALL_FRAME}.round_trip_p50_us'], 'us')
        for operation in ROUND_TRIPS:
            yield over_bare('ring', operation, figures[f'{operation}.round_trip_p50_us'], figures)
        yield late_ones('ring', figures['send.round_trip_p99_us'] / figures['send.round_trip_p50_us'], figures)

    def polling_threads(self):
        """Threads that READ and poll, each on a queue pair of its own, beside one such thread. What more of them than CPUs lose
        is the scheduler's work, not the time that one spins while another one that holds the poller does not run."""
        rounds = [{count: self.of_threads(count) for count in POLLING_THREADS} for _ in range(RUNS)]
        for count in POLLING_THREADS:
            rate = statistics.median(figures[count]['messages_per_second'] for figures in rounds)
            one = statistics.median(figures[1]['messages_per_second'] for figures in rounds)
            yield Row(f'threads.{count}.read64.rate', rate / 1e6, 'M/s', *((one / 1e6, '1 thread') if count > 1 else ()))
            yield Row(f'threads.{count}.read64.longest', statistics.median(figures[count]['longest_ms'] for figures in rounds), 'ms')

    def of_threads(self, count):
        return json.loads(self.run('net_ring', [self.program('polling_threads'), '--seconds', max(1, self.duration), '--threads', count]))

    def of_two(self, *options):
        return json.loads(self.run('net_ring', [self.program('two_threads'), '--seconds', self.duration, *options]))

    def handoff(self):
        """WRITEs between queue pairs of devices with two pollers, turned by one thread: all packets come to the poller that has the
        queue pair; to the other one, which hands them over; and to that one until the queue pair has followed them."""
        ways = {'right': (False, 'true'), 'wrong': (True, 'false'), 'followed': (True, 'true')}
        for size in SMALL, LARGE:
            rounds = [{way: self.of_two_pollers(size, *how) for way, how in ways.items()} for _ in range(RUNS)]
            median = {way: statistics.median(figures[way] for figures in rounds) for way in ways}
            for way, value in median.items():
                yield Row(f'handoff.cpu_ns.write.{size}.{way}', value, 'ns', *((median['right'], 'right') if way != 'right' else ()), better='lower')
            yield Row(f'handoff.cost.{size}', median['wrong'] - median['right'], 'ns')

    def of_two_pollers(self, size, crossed, follow):
        said = command(self.command('net_ring', [self.program('one_thread'), '--op', 'write', '--size', size, '--region-mb', 4, '--seconds', self.duration,
                                                 *(['--crossed'] if crossed else [])],
                                    ['--poller-per-device', 2, '--poller-follow-packets', follow]))
        return json.loads(said)['cpu_ns_per_operation']

    def mixed_sizes(self):
        """WRITEs of 64 B beside one queue pair of 1 MiB: of 100 queue pairs, one at a time of each, and a rare one. Both ends on one
        thread, so that they share its CPU, and each end on one."""
        ways = {'cpu': ['--one-thread']}
        if len(os.sched_getaffinity(0)) > 1:
            ways['two_cpus'] = []
        for way, options in ways.items():
            runs = [self.mixed(*options) for _ in range(RUNS)]
            for size in 'long', 'short':
                yield Row(f'fairness.{way}.{size}.of_alone', kept(runs, size), 'x')
        for way, options in ways.items():
            runs = [self.mixed(*options, '--short-queue-pairs', 1, '--rare-us', RARE_US) for _ in range(RUNS)]
            yield Row(f'fairness.rare.{way}.long.of_alone', kept(runs, 'long'), 'x')
            for quantile in 'p50', 'p99':
                beside, alone = (statistics.median(figures[f'rare_{state}_{quantile}_us'] for figures in runs) for state in ('beside', 'alone'))
                yield Row(f'fairness.rare.{way}.short.{quantile}_us', beside, 'us', alone, 'alone', 'lower')

    def mixed(self, *options):
        return json.loads(self.run('net_ring', [self.program('mixed_sizes'), '--seconds', self.duration, *options]))

    def peers(self):
        """1,000 queue pairs in random order on a path each, which are 4 addresses of one end and 251 of the other, beside as many on one
        path. A port has 255 addresses at most, for verbs have eight bits for a GID's index."""
        ends = ','.join(f'"10.1.0.{i}/16"' for i in range(1, 5)), ','.join(f'"10.1.1.{i}/16"' for i in range(1, 252))
        text = ''.join(f'[[device]]\nname = "uroce{end}"\nport = "loopback{end}"\naddresses = [{addresses}]\n'
                       for end, addresses in enumerate(ends))
        with tempfile.NamedTemporaryFile('w', suffix='.toml') as configuration:
            configuration.write(text)
            configuration.flush()
            run = [self.build / 'apps/uroce', 'run', '--config', configuration.name, '--', self.program('one_thread'), '--op', 'write',
                   '--size', SMALL, '--region-mb', 64, '--queue-pairs', 1000, '--random-order', '--seconds', max(1, self.duration)]
            for batch, suffix in (16, ''), (1, '.alone'):
                options = ['--batch', batch, '--outstanding', 64 * batch]
                rounds = [[json.loads(command([*run, *options, *paths]))['cpu_ns_per_operation'] for paths in ([], ['--all-addresses'])]
                          for _ in range(RUNS)]
                one, many = (statistics.median(figures) for figures in zip(*rounds))
                yield Row(f'peers.1000{suffix}.cpu_ns.write.64', many, 'ns', one, '1 path', 'lower')
                yield Row(f'peers.rate_ratio.1000{suffix}', one / many, 'x')

    def scale(self):
        """WRITEs of 64 B on queue pairs in random order, so that none is in a cache when there are many, beside one queue pair: posted by
        16, and one by one (`.alone`). `.visit_ns`: what each such post takes more, beside waits for memory that no program is spared (four
        dependent reads, dependent_lines_bench). What a queue pair takes of memory, with queues of 64 and of 4 work requests."""
        rounds = [{(pairs, batch): self.of_pairs(pairs, batch) for batch in BATCHES for pairs in QUEUE_PAIRS} for _ in range(RUNS)]
        one = {batch: statistics.median(figures[1, batch]['cpu_ns_per_operation'] for figures in rounds) for batch in BATCHES}
        wait = {megabytes: value for (_, megabytes), (value, *_) in
                results(self.build / 'perf/micro/dependent_lines_bench', self.duration).items()}

        def of(pairs, batch, nanoseconds, wait_in):
            suffix = BATCHES[batch]
            yield Row(f'scale.{pairs}{suffix}.cpu_ns.write.64', nanoseconds, 'ns', one[batch], '1 queue pair', 'lower')
            yield Row(f'qp_rate_ratio.{pairs}{suffix}', one[batch] / nanoseconds, 'x')
            if wait_in:
                yield Row(f'scale.{pairs}{suffix}.visit_ns', batch * (nanoseconds - one[batch]), 'ns', DEPENDENT_LINES * wait[wait_in], 'lines', 'lower')
        for batch, suffix in BATCHES.items():
            yield Row(f'scale.1{suffix}.cpu_ns.write.64', one[batch], 'ns')
            for pairs in QUEUE_PAIRS[1:]:
                many = statistics.median(figures[pairs, batch]['cpu_ns_per_operation'] for figures in rounds)
                yield from of(pairs, batch, many, '64' if pairs >= 10_000 else None)
        if memory_bytes() < MILLION_BYTES:
            print('perf/run: scale.1000000: SKIPPED, it wants 12 GB of memory', file=sys.stderr)
        else:
            for batch in BATCHES:
                million = self.of_pairs(1_000_000, batch, '--depth', batch)
                yield from of(1_000_000, batch, million['cpu_ns_per_operation'], '1024')
            yield Row('scale.1000000.made_per_s', 2e6 / million['made_in_seconds'], '/s')
        for pairs, batch in (100_000, 16), (100_000, 1):
            figures = rounds[0][pairs, batch]
            yield Row(f'scale.{pairs}.depth{4 * batch}.bytes', figures['bytes_per_queue_pair'], 'B')
            yield Row(f'scale.{pairs}.depth{4 * batch}.made_per_s', 2 * pairs / figures['made_in_seconds'], '/s')

    def scale_memory(self):
        """What one queue pair more takes of memory, by two numbers of them. `idle`: connected, without queues. `idle_queues`: what a send
        queue of 1,024 work requests adds, of which no page is there, and a receive queue of one. `used`: the send queue has been used from
        end to end."""
        idle, with_queues = (self.more_bytes(IDLE_PAIRS, 'made_bytes', '--make-only', *options) / 2 for options in (('--no-queues',), ()))
        used = self.more_bytes(USED_PAIRS, 'used_bytes')
        yield Row('scale.idle_bytes', idle, 'B')
        yield Row('scale.idle_queues_bytes', with_queues - idle, 'B')
        # Those of one end post, and the others are in use.
        yield Row('scale.used_bytes', used - with_queues, 'B')

    def more_bytes(self, numbers, figure, *options):
        """What a queue pair of each end more takes: of so many and so many more."""
        fewer, more = (json.loads(self.run('loopback', [self.program('one_thread'), '--op', 'write', '--size', SMALL, '--region-mb', 1,
                                                        '--queue-pairs', pairs, '--depth', IDLE_DEPTH, '--batch', 16, '--outstanding', 64,
                                                        '--operations', IDLE_DEPTH * pairs, *options]))[figure] for pairs in numbers)
        return (more - fewer) / (numbers[1] - numbers[0])

    def of_pairs(self, pairs, batch, *more):
        return json.loads(self.run('loopback', [self.program('one_thread'), '--op', 'write', '--size', SMALL, '--seconds', max(1, self.duration),
                                                '--region-mb', 64, '--queue-pairs', pairs, '--batch', batch, '--outstanding', 64 * batch,
                                                '--random-order', *more]))

    def instructions(self):
        """Instructions of an operation, which are the same in each run. Callgrind knows no AVX-512
        and no VPCLMULQDQ, and neither does what runs on it: the count is that of a CPU with AVX2."""
        if not shutil.which('valgrind'):
            return print('perf/run: instructions: SKIPPED, valgrind is not installed', file=sys.stderr)
        loopback = self.command('loopback', [], callgrind.SYSTEM_CLOCK)
        for name, (operation, size, frame, counted, left_out) in INSTRUCTIONS.items():
            ours = counted_instructions(loopback, counted, left_out, *self.counting('--op', operation, '--size', size))
            placed = counted_instructions([], counted, left_out, self.program('bare_frames'), '--bytes', frame,
                                          '--frames', OPERATIONS)
            yield Row(name, ours, '', placed, 'placed', 'lower')
        alone = counted_instructions([], 'measured_operations', (), self.program('bare_frames'), '--bytes', SMALL_FRAME, '--frames', OPERATIONS,
                                     '--alone')
        for name, options in OF_ALL.items():
            ours = counted_instructions(loopback, 'measured_operations', (), *self.counting(*options))
            yield Row(name, ours, '', *((alone, 'acknowledged', 'lower') if name.endswith('.alone') else ()))

    def own_instructions(self, name):
        """Function -> its own instructions for one operation of that row."""
        if name in INSTRUCTIONS:
            operation, size, _, counted, _ = INSTRUCTIONS[name]
            options = '--op', operation, '--size', size
        else:
            counted, options = 'measured_operations', OF_ALL[name]
        own, _ = callgrind.read_profile(callgrind_file(self.command('loopback', [], callgrind.SYSTEM_CLOCK), counted, *self.counting(*options)))
        return {function: count / OPERATIONS for function, count in own.items()}

    def counting(self, *options):
        """The program that instructions are counted of."""
        return self.program('one_thread_counted'), '--region-mb', 16, '--operations', OPERATIONS, *options

    def program(self, name):
        return self.build / 'perf/end_to_end' / name

    def command(self, port, program, configuration=()):
        ends = [word for end in (0, 1) for word in ('--port', f'{port}{end}', '--ip', self.ADDRESSES[end])]
        return [self.build / 'apps/uroce', 'run', *configuration, *ends, '--', *program]

    def run(self, port, program):
        return command(self.command(port, program))


def kept(runs, size):
    """Of the rate that messages of the size have alone."""
    return statistics.median(figures[f'{size}_beside'] / figures[f'{size}_alone'] for figures in runs)


def memory_bytes():
    """That this machine has left."""
    lines = pathlib.Path('/proc/meminfo').read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith('MemAvailable:'))


def medians(program):
    """Of all that the runs of it say."""
    runs = [json.loads(command(program)) for _ in range(RUNS)]
    return {name: statistics.median(run[name] for run in runs) for name in runs[0]}


def counted_instructions(around, counted, left_out, program, *options):
    """Of a function that does OPERATIONS of something in `program`, for one of them."""
    with tempfile.TemporaryDirectory() as folder:
        out = count_into(pathlib.Path(folder), around, counted, program, *options)
        listing = command(['callgrind_annotate', '--inclusive=yes', '--threshold=100', out])
    return instructions_of(listing, counted, left_out) / OPERATIONS


def callgrind_file(around, counted, program, *options):
    with tempfile.TemporaryDirectory() as folder:
        return count_into(pathlib.Path(folder), around, counted, program, *options).read_text()


def count_into(folder, around, counted, program, *options):
    out = folder / 'callgrind.out'
    command([*around, 'valgrind', '-q', '--tool=callgrind', f'--callgrind-out-file={out}', '--collect-atstart=no',
             f'--toggle-collect={counted}', program, *options])
    return out


def instructions_of(listing, counted, left_out):
    """Of a function and all that it called, without what functions whose names begin so took."""
    figures = [(line.split(':', 1)[1], int(line.split()[0].replace(',', ''))) for line in listing.splitlines()
               if re.match(r'^ *[\d,]+ \(', line) and ':' in line]

    def sum_of(*beginnings):
        return sum(count for function, count in figures if function.startswith(beginnings))

    for beginnings in (counted,), left_out:
        if beginnings and not sum_of(*beginnings):
            raise Failure(f'no instructions were counted in {" or ".join(beginnings)}')
    return sum_of(counted) - sum_of(*left_out)
