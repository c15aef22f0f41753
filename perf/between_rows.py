"""Rows of two ends with a port between them, beside the bare port, for perf/run."""

import json
import pathlib
import shutil
import statistics
import sys
import tempfile

import links
from near_or_far import rows_by_state
from rows import LARGE, LARGE_FRAME, SMALL, SMALL_FRAME, Failure, Row, command

# Debian's perftest, unmodified. Its figures stand beside the bare port's and those of `uroce perf` with the same operation
# and size.
PERFTEST = (
    ('ib_write_bw', 65536, ['-n', '5000', '--report_gbits']),
    ('ib_send_lat', SMALL, ['-n', '10000']),
    ('ib_read_lat', SMALL, ['-n', '10000']),
    ('ib_write_lat', SMALL, ['-n', '10000']),
)
# How many of its latencies make a round trip.
LATENCIES = {'ib_send_lat': 2, 'ib_read_lat': 1, 'ib_write_lat': 2}
GOODPUT, TYPICAL, MEAN = 3, 4, 5  # columns of its tables


def over_port(name, figures):
    """Rows that set figures of `uroce perf` beside those of the bare port."""
    for kind in 'bare', 'copied', 'placed':
        yield Row(f'{name}.{kind}.{LARGE_FRAME}.goodput', figures[f'{kind}.{LARGE_FRAME}.gigabits_per_second'], 'Gbit/s')
        yield Row(f'{name}.{kind}.{SMALL_FRAME}.rate', figures[f'{kind}.{SMALL_FRAME}.frames_per_second'] / 1e6, 'M/s')
    for kind in 'bare', 'placed', 'acknowledged':
        yield Row(f'{name}.{kind}.{SMALL_FRAME}.round_trip', figures[f'{kind}.{SMALL_FRAME}.round_trip_p50_us'], 'us')
    for size in LARGE, 65536, 1 << 20:
        yield Row(f'{name}.write.{size}.goodput', figures[f'write.{size}.gigabits_per_second'], 'Gbit/s',
                  figures[f'copied.{LARGE_FRAME}.gigabits_per_second'], 'copied')
    for operation in 'write', 'read', 'send':
        yield Row(f'{name}.{operation}.{SMALL}.rate', figures[f'{operation}.{SMALL}.messages_per_second'] / 1e6, 'M/s',
                  figures[f'copied.{SMALL_FRAME}.frames_per_second'] / 1e6, 'copied')
    for operation in 'write', 'read', 'send':
        yield Row(f'{name}.{operation}.{SMALL}.round_trip', figures[f'{operation}.{SMALL}.round_trip_p50_us'], 'us',
                  figures[f'bare.{SMALL_FRAME}.round_trip_p50_us'], 'bare', 'lower')


def between_two(link, figures):
    """What two processes reach of what the bare port carries between them. The floor of the goodput carries what we do:
    it copies, has a CRC and places, but has no protocol."""
    carried = figures[f'bare.{LARGE_FRAME}.gigabits_per_second']
    for size in 65536, 1 << 20:
        yield Row(f'{link}_ratio.write.{size}', figures[f'write.{size}.gigabits_per_second'] / carried, 'x bare',
                  figures[f'placed.{LARGE_FRAME}.gigabits_per_second'] / carried, 'placed')
    yield Row(f'{link}_ratio.write.{1 << 20}.over_65536', figures[f'write.{1 << 20}.gigabits_per_second'] / figures['write.65536.gigabits_per_second'], 'x')
    for operation in 'write', 'read', 'send':
        yield over_bare(link, operation, figures[f'{operation}.{SMALL}.round_trip_p50_us'], figures)
    yield late_ones(link, figures[f'send.{SMALL}.round_trip_p99_us'] / figures[f'send.{SMALL}.round_trip_p50_us'], figures)


def of_perftest(name, tool, size, figures):
    """Beside the bare port, and beside `uroce perf`."""
    operation = tool.split('_')[1]
    if tool in LATENCIES:
        row, unit, better = f'{name}.{tool}.{size}.round_trip', 'us', 'lower'
        floors = {'bare': f'bare.{SMALL_FRAME}.round_trip_p50_us', 'uroce perf': f'{operation}.{size}.round_trip_p50_us'}
    else:
        row, unit, better = f'{name}.{tool}.{size}.goodput', 'Gbit/s', 'higher'
        floors = {'copied': f'copied.{LARGE_FRAME}.gigabits_per_second', 'uroce perf': f'{operation}.{size}.gigabits_per_second'}
    for floor_name, floor in floors.items():
        suffix = '' if floor_name != 'uroce perf' else '.beside_perf'
        yield Row(row + suffix, figures[tool], unit, figures[floor], floor_name, better)


def passive_target(name, figures):
    """ib_write_lat watches its memory and makes no call until the peer's WRITE is there: the mean, in which the turns of our
    background thread show, beside that of ib_send_lat, which polls."""
    yield Row(f'{name}.ib_write_lat.{SMALL}.mean', figures['ib_write_lat.mean'], 'us', figures['ib_send_lat.mean'], 'ib_send_lat', 'lower')


def late_ones(link, p99_over_p50, bare):
    """How late the late ones of SEND's round trips are, beside those of the bare port: whatever takes a CPU away for a
    moment, does so with both."""
    name = f'bare.{SMALL_FRAME}.round_trip'
    return Row(f'rtt_p99_over_p50.{link}.send64', p99_over_p50, 'x', bare[f'{name}_p99_us'] / bare[f'{name}_p50_us'], 'bare', 'lower')


def over_bare(link, operation, round_trip, bare):
    """What a round trip takes more than the bare one. Of SENDs and WRITEs the floor has frames that are copied, have a CRC
    and are placed, and an acknowledgement behind each, but no protocol."""
    floor = bare[f'bare.{SMALL_FRAME}.round_trip_p50_us']
    name = f'rtt_over_bare_us.{link}.{operation}64'
    if operation == 'read':
        return Row(name, round_trip - floor, 'us')
    return Row(name, round_trip - floor, 'us', bare[f'acknowledged.{SMALL_FRAME}.round_trip_p50_us'] - floor, 'acknowledged',
               'lower')


class EndToEnd:
    def __init__(self, build, duration):
        self.uroce = build / 'apps/uroce'
        self.bare = build / 'perf/end_to_end/bare_port'
        self.connects = build / 'perf/end_to_end/connects'
        self.duration = duration
        self.bare_options = ['--bytes', f'{SMALL_FRAME},{LARGE_FRAME}', '--seconds', duration]
        self.perf_options = ['--size', f'{SMALL},{LARGE},65536,1M', '--duration', duration, '--quiet']

    def in_process(self, name, ports, addresses):
        bare = json.loads(command([self.bare, '--port', ports[0], '--peer-port', ports[1], *self.bare_options]))
        with tempfile.TemporaryDirectory() as folder:
            out = pathlib.Path(folder) / 'perf.json'
            options = []
            for port, address in zip(ports, addresses):
                options += ['--port', port, '--ip', address]
            command([self.uroce, 'perf', *options, *self.perf_options, '--json', out])
            figures = json.loads(out.read_text())
            services = {}
            for service, *more in (['uc', '--op', 'write,send'], ['ud', '--op', 'send'], ['rc', '--op', 'add,swap']):
                command([self.uroce, 'perf', *options, '--service', service, *more, '--size', f'{SMALL},{LARGE}',
                         *self.perf_options[2:], '--json', out])
                services[service] = json.loads(out.read_text())
        yield from over_port(name, {**bare, **figures})
        yield from self.other_services(name, bare, services)

    @staticmethod
    def other_services(name, bare, services):
        """UC, UD and atomics beside the same floors."""
        for service, operation in ('uc', 'write'), ('uc', 'send'), ('ud', 'send'):
            figures = services[service]
            yield Row(f'{name}.{service}.{operation}.{LARGE}.goodput', figures[f'{operation}.{LARGE}.gigabits_per_second'],
                      'Gbit/s', bare[f'copied.{LARGE_FRAME}.gigabits_per_second'], 'copied')
            yield Row(f'{name}.{service}.{operation}.{SMALL}.rate', figures[f'{operation}.{SMALL}.messages_per_second'] / 1e6,
                      'M/s', bare[f'copied.{SMALL_FRAME}.frames_per_second'] / 1e6, 'copied')
            yield Row(f'{name}.{service}.{operation}.{SMALL}.round_trip', figures[f'{operation}.{SMALL}.round_trip_p50_us'],
                      'us', bare[f'bare.{SMALL_FRAME}.round_trip_p50_us'], 'bare', 'lower')
        for operation in 'add', 'swap':
            yield Row(f'{name}.{operation}.8.rate', services['rc'][f'{operation}.8.messages_per_second'] / 1e6, 'M/s',
                      bare[f'copied.{SMALL_FRAME}.frames_per_second'] / 1e6, 'copied')

    def between_processes(self, name, new_link):
        yield from self.rows_of(name, {**self.bare_between_processes(new_link, self.bare_options), **self.round_between_processes(new_link)})

    def near_or_far(self, name, new_link):
        """The same of ports that are memory which two CPUs share."""
        yield from rows_by_state(name, lambda: self.bare_between_processes(new_link, self.bare_options),
                                 lambda: self.round_between_processes(new_link), lambda figures: self.rows_of(name, figures))

    def round_between_processes(self, new_link):
        """Of `uroce perf`, with messages in one place of memory, as the frames of the bare port: what caches lack is no matter of the
        port; and of perftest where it is installed."""
        figures = self.perf_between_processes(new_link, [*self.perf_options, '--slots', '1'])
        if all(shutil.which(tool) for tool, *_ in PERFTEST):
            for tool, size, arguments in PERFTEST:
                words = self.perftest(new_link, tool, size, arguments)
                if latencies := LATENCIES.get(tool):
                    figures[tool], figures[f'{tool}.mean'] = (latencies * float(words[column]) for column in (TYPICAL, MEAN))
                else:
                    figures[tool] = float(words[GOODPUT])
        return figures

    @staticmethod
    def rows_of(name, figures):
        yield from over_port(name, figures)
        yield from between_two(name, figures)
        if PERFTEST[0][0] not in figures:
            print(f'perf/run: {name}: perftest is not installed', file=sys.stderr)
            return
        for tool, size, _ in PERFTEST:
            yield from of_perftest(name, tool, size, figures)
        yield from passive_target(name, figures)

    def small_between_processes(self, name, new_link):
        """Rates of small messages only, for ports that do not carry a large frame."""
        bare = self.bare_between_processes(new_link, ['--bytes', SMALL_FRAME, '--seconds', self.duration])
        for kind in 'bare', 'copied':
            yield Row(f'{name}.{kind}.{SMALL_FRAME}.rate', bare[f'{kind}.{SMALL_FRAME}.frames_per_second'] / 1e6, 'M/s')
        operations = 'write', 'send'
        options = ['--op', ','.join(operations), '--size', SMALL, '--measure', 'bandwidth', '--duration', self.duration, '--quiet']
        figures = self.perf_between_processes(new_link, options)
        for operation in operations:
            yield Row(f'{name}.{operation}.{SMALL}.rate', figures[f'{operation}.{SMALL}.messages_per_second'] / 1e6, 'M/s',
                      bare[f'copied.{SMALL_FRAME}.frames_per_second'] / 1e6, 'copied')

    def beside_kernel(self, name, rounds=3):
        """WRITEs by AF_XDP, by packet sockets and by net_af_packet in turn, medians, and the bare drivers of DPDK on the same link."""
        sizes = SMALL, LARGE, 65536
        options = ['--op', 'write', '--size', ','.join(map(str, sizes)), '--measure', 'bandwidth', '--duration', self.duration, '--quiet']
        links_of = {mode: (lambda mode=mode: links.BesideKernelLink(mode)) for mode in ('xdp', 'packet')}
        bare_links, bare = {'xdp': links.XdpLink, 'packet': links.PacketLink}, {}
        links_of['net_af_packet'] = links.PacketLink
        figures = {mode: [] for mode in links_of}
        for mode, new_link in bare_links.items():
            told = self.bare_between_processes(new_link, ['--bytes', SMALL_FRAME, '--seconds', self.duration])
            bare[mode] = told[f'copied.{SMALL_FRAME}.frames_per_second'] / 1e6
            yield Row(f'{name}.bare.{mode}.{SMALL_FRAME}.rate', bare[mode], 'M/s')
        for _ in range(rounds):
            for mode, new_link in links_of.items():
                figures[mode].append(self.perf_between_processes(new_link, options))

        def median(mode, size):
            return statistics.median(each[f'write.{size}.messages_per_second'] for each in figures[mode]) / 1e6
        for mode in bare_links:
            yield Row(f'{name}.{mode}.write.{SMALL}.rate', median(mode, SMALL), 'M/s', bare[mode], 'copied')
        for size in sizes:
            for mode, over in ('xdp', 'over_packet'), ('packet', 'gso.over_packet'):
                yield Row(f'{name}.write.{size}.{over}', median(mode, size), 'M/s', median('net_af_packet', size), 'net_af_packet')

    def bare_between_processes(self, new_link, options):
        with new_link() as link:
            _, said = links.pair(link, [self.bare, *link.bare('server'), '--responder'],
                                 [self.bare, *link.bare('client'), *options], link.is_open)
            return json.loads(said)

    def perf_between_processes(self, new_link, options, complaints=None):
        """What `uroce perf` with these options tells. `complaints`: of links.pair()."""
        with new_link() as link, tempfile.TemporaryDirectory() as folder:
            out = pathlib.Path(folder) / 'perf.json'
            port = links.free_tcp_port()
            links.pair(link, [self.uroce, 'perf', *link.device('server'), '--server', '--listen', port],
                       [self.uroce, 'perf', *link.device('client'), '--connect', f'{link.host}:{port}', *options,
                        '--json', out], links.listening(port), complaints)
            return json.loads(out.read_text())

    def perftest(self, new_link, tool, size, arguments):
        """The line of its table."""
        with new_link() as link:
            port = links.free_tcp_port()
            # -F: not a word about the CPU's frequency; -x 1: the device's first address.
            program = [tool, '-F', '-x', '1', '-s', size, '-p', port, *arguments]
            _, said = links.pair(link, [self.uroce, 'run', *link.device('server'), '--', *program],
                                 [self.uroce, 'run', *link.device('client'), '--', *program, link.host],
                                 links.listening(port))
        words = next((line.split() for line in said.splitlines() if line.split()[:1] == [str(size)]), None)
        if words is None:
            raise Failure(f'{tool} said nothing of {size} bytes:\n{said}')
        return words

    def connections(self):
        """Connections of rdma_cm between two processes over memif, beside the kernel's TCP on the loopback interface.
        `.10k_open`: while 10,000 stay open."""
        seconds = max(2.0, self.duration)
        tcp = json.loads(command([self.connects.with_name('tcp_connects'), '--seconds', seconds]))['connects_per_second']
        for suffix, opened in ('', 0), ('.10k_open', 10000):
            with links.MemifLink() as link:
                address = links.ADDRESSES['server'].split('/')[0]
                _, said = links.pair(link, [self.uroce, 'run', *link.device('server'), '--', self.connects, '--server', address],
                                     [self.uroce, 'run', *link.device('client'), '--', self.connects, address,
                                      '--seconds', seconds, '--open', opened],
                                     lambda process: process.stdout.readline() == 'listening\n')
            figures = json.loads(said)
            yield Row('cm_connects_per_s' + suffix, figures['connects_per_second'], '/s', tcp, 'TCP')
            for what, name in ('cm_setup', 'set_up'), ('cm_first_byte', 'first_byte'):
                for quantile in 'p50', 'p99':
                    yield Row(f'{what}_{quantile}_ms{suffix}', figures[f'{name}_{quantile}_ms'], 'ms')
