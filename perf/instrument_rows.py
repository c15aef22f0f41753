"""Rows that set `uroce perf` as an instrument beside Debian's perftest on the same device, for perf/run."""

import functools
import json
import pathlib
import shutil
import statistics
import tempfile

import links
from rows import Failure, Row, command

ROUNDS = 5
SMALL, LARGE = 64, 65536
# One place in memory for all messages, as perftest has it.
LIKE_PERFTEST = ['--slots', 1]
# As `uroce perf` posts: 128 outstanding, by lists of 16 of which the last is signalled.
LIKE_PERF = ['-m', '4096', '-t', '128', '-l', '16', '-Q', '16', '-D', '1', '--report_gbits']
TOOLS = {'write': 'ib_write_bw', 'send': 'ib_send_bw'}
LATENCY = {'write': 'ib_write_lat', 'send': 'ib_send_lat'}
GBITS, TYPICAL_US = 3, 4  # columns of its tables
RATES = '10k', '100k'


class Instrument:
    def __init__(self, ends, build):
        self.ends, self.uroce = ends, build / 'apps/uroce'
        self.new_link = functools.partial(links.HostLink, build, 'full')

    def rows(self):
        yield from self.held()
        missing = [tool for tool in (*TOOLS.values(), *LATENCY.values()) if not shutil.which(tool)]
        if missing:
            raise Failure(f'there is no {missing[0]} (apps/install-packages test)')
        for operation in TOOLS:
            for size in SMALL, LARGE:
                yield from self.beside(f'{operation}.{size}.gbps', 'Gbit/s', lambda: self.bandwidth(operation, size),
                                       lambda: float(self.ends.perftest(self.new_link, TOOLS[operation], size, LIKE_PERF)[GBITS]))
            yield from self.beside(f'{operation}.{SMALL}.round_trip', 'us', lambda: self.round_trip(operation),
                                   lambda: 2 * float(self.ends.perftest(self.new_link, LATENCY[operation], SMALL, ['-m', '4096', '-n', '20000'])[TYPICAL_US]))

    def held(self):
        """How far a fixed rate is missed, in percent."""
        for rate in RATES:
            with tempfile.TemporaryDirectory() as folder:
                out = pathlib.Path(folder) / 'perf.json'
                command([self.uroce, 'perf', '--quiet', '--op', 'write', '--size', SMALL, '--queue-pairs', '4', '--rate', rate,
                         '--duration', '3', '--json', out])
                told = json.loads(out.read_text())
            wanted = told[f'write.{SMALL}.there.offered_per_second']
            seen = told[f'write.{SMALL}.there.messages_per_second']
            yield Row(f'instrument.rate.{rate}.missed_percent', 100 * abs(1 - seen / wanted), '%')

    def beside(self, name, unit, ours, theirs):
        pairs = [(ours(), theirs()) for _ in range(ROUNDS)]
        mine, other = (statistics.median(values) for values in zip(*pairs))
        yield Row(f'instrument.{name}', mine, unit, other, 'perftest')
        yield Row(f'instrument.{name}.apart_percent', 100 * abs(mine / other - 1), '%')

    def bandwidth(self, operation, size):
        told = self.ends.perf_between_processes(self.new_link, ['--op', operation, '--size', size, '--measure', 'bandwidth', '--duration', '1', '--quiet', *LIKE_PERFTEST])
        return told[f'{operation}.{size}.gigabits_per_second']

    def round_trip(self, operation):
        told = self.ends.perf_between_processes(self.new_link, ['--op', operation, '--size', SMALL, '--measure', 'latency', '--iterations', '20000', '--quiet'])
        return told[f'{operation}.{SMALL}.round_trip_p50_us']
