"""Rows that set `uroce perf` as an instrument beside Debian's perftest on the same device, for perf/run.

Medians of nine pairs of runs, of which each tool begins every second one. `.apart_percent` is how far the median of the pairs' ratios is
from 1; `.spread_percent` is the width of their middle half. Messages and receives are placed and posted as perftest does (`--slots`,
`--receive-list`); `.single` posts receives one by one. WRITE round trips have no goal: `uroce perf` polls for the peer's WRITE, while
ib_write_lat only looks at its memory. instrument.rate.RATE.missed_percent is how far `--rate` was missed.
"""

import functools
import json
import pathlib
import shutil
import tempfile

import links
from pairs import Pairs, measure_pairs
from rows import Failure, Row, command

PAIRS = 9
SMALL, LARGE = 64, 65536
PAGE = 4096
# As `uroce perf` posts: 128 outstanding, by lists of 16 of which the last is signalled, and 256 receives. By time, of which
# perftest leaves out the beginning: of a number of messages it would measure memory that is touched for the first time, too.
LIST = 16
LIKE_PERF = ['-m', '4096', '-t', '128', '-l', str(LIST), '-Q', str(LIST), '-D', '1', '--report_gbits']
RECEIVES = ['-r', '256']
# Bandwidths: operation, size, and how many receives a call posts.
BANDWIDTHS = ('write', SMALL, None), ('write', LARGE, None), ('send', SMALL, LIST), ('send', SMALL, 1), ('send', LARGE, LIST)
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
        for operation, size, receives in BANDWIDTHS:
            name = f'{operation}.{size}{".single" if receives == 1 else ""}.gbps'
            yield from self.beside(name, 'Gbit/s', lambda: self.bandwidth(operation, size, receives),
                                   lambda: self.bandwidth_of_perftest(operation, size, receives))
        for operation in LATENCY:
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
        """`.apart_percent` has the goal; `.spread_percent` is between which bounds the middle half of the ratios lies."""
        pairs = Pairs(measure_pairs(PAIRS, ours, theirs))
        yield Row(f'instrument.{name}', pairs.ours, unit, pairs.theirs, 'perftest')
        yield Row(f'instrument.{name}.apart_percent', 100 * abs(pairs.ratio - 1), '%')
        yield Row(f'instrument.{name}.spread_percent', 100 * pairs.spread, '%')

    @staticmethod
    def places(size, receives):
        """Of messages in perftest's memory: those above half a page share one, smaller ones lie side by side as far as a list goes, and
        receives that are posted one by one as far as a page goes."""
        if size > PAGE // 2:
            return 1
        return PAGE // size if receives == 1 else LIST

    def bandwidth(self, operation, size, receives):
        lists = ['--receive-list', receives] if receives else []
        told = self.ends.perf_between_processes(self.new_link, ['--op', operation, '--size', size, '--measure', 'bandwidth', '--duration', '1',
                                                                '--quiet', '--slots', self.places(size, receives), *lists])
        return told[f'{operation}.{size}.gigabits_per_second']

    def bandwidth_of_perftest(self, operation, size, receives):
        lists = [*RECEIVES, '--recv_post_list', receives] if receives else []
        return float(self.ends.perftest(self.new_link, TOOLS[operation], size, [*LIKE_PERF, *lists])[GBITS])

    def round_trip(self, operation):
        told = self.ends.perf_between_processes(self.new_link, ['--op', operation, '--size', SMALL, '--measure', 'latency', '--iterations', '20000', '--quiet', '--slots', '1'])
        return told[f'{operation}.{SMALL}.ping_interval_p50_us']
