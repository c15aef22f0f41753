"""Rows of links that lose packets, for perf/run: in the simulation, and on a real one beside TCP.

loss_goodput.write64k.LOSS.ROUND_TRIP: a simulation of 25 Gbit/s with loss in both directions and 64 messages at once, beside the same link
without loss. `.gbn` is go-back-N (`recovery.selective = false`). `.100g` is a link of 100 Gbit/s, where the window of 256 packets is the bound.
loss_tail.ROUND_TRIP: the round trips of a WRITE whose last packet is lost. `.first`: the first WRITE of a queue pair; `.alone`: one packet.
loss_link.*: `uroce perf` over a relay (end_to_end/relay) with 1 % loss and 50 us delay each way, beside TCP cubic (iperf3).
"""

import json
import pathlib
import re
import shutil
import statistics
import sys
import tempfile

import links
from rows import Failure, Row, command

MESSAGE = 65536
ROUNDS = 3
LOSS, ONE_WAY_US = 1000, 50
TAIL = re.compile(r'(last packet of the first WRITE|only packet of the first WRITE|last packet of a WRITE), round trip (\d+) us, lossless (\S+) us: (\S+) us')
SHARES = re.compile(r'round trip (\d+) us: long messages: (\S+) Gbit/s beside one queue pair, (\S+) beside \d+; short ones of each: (\d+) to \d+ without them, (\d+) to (\d+) beside')
SIMULATED = re.compile(r'WRITE( by go-back-N)?, loss (\S+) %, 0 % late, round trip (\d+) us: (\S+) of (\S+) Gbit/s')
LONG_PATH = re.compile(r'WRITE on a link of (\d+) Gbit/s, loss (\S+) %, round trip (\d+) us: (\S+) of (\S+) Gbit/s')


class Loss:
    def __init__(self, build, duration):
        self.build, self.duration = build, max(1.0, duration)

    def simulated(self):
        """Virtual time: the same in each run."""
        shares = {}
        for gbn, loss, round_trip, lossy, lossless in SIMULATED.findall(self.said_by_simulation('Goodput.OfALinkThatLoses*:Goodput.ByGoBackN')):
            name = f'{float(loss):g}pct'.replace('0.1', '01')
            shares[f'{name}.{round_trip}us{".gbn" if gbn else ""}'] = float(lossy) / float(lossless)
        for name, share in sorted(shares.items()):
            yield Row(f'loss_goodput.write64k.{name}', share, 'of lossless')

        for link, loss, round_trip, goodput, of_window in LONG_PATH.findall(self.said_by_simulation('Goodput.OfALongFastPath')):
            name = f'{float(loss):g}pct'.replace('0.1', '01')
            yield Row(f'loss_goodput.write64k.{name}.{round_trip}us.{link}g', float(goodput), 'Gbit/s', float(of_window), 'window')

    def tails(self):
        """What a lost last packet makes of a burst, in round trips. Virtual time: the same in each run."""
        worst = {}
        for what, round_trip, whole, took in TAIL.findall(self.said_by_simulation('*TailLoss*')):
            kind = 'alone.' if 'only' in what else 'first.' if 'first' in what else ''
            name = f'{kind}{round_trip}us'
            worst[name] = max(worst.get(name, 0), float(took) / float(whole))
        for name, trips in worst.items():
            yield Row(f'loss_tail.{name}', trips, 'round trips')

    def fairness(self):
        """A queue pair of 1 MiB WRITEs and 100 of 64 B, one at a time, on one link of 25 Gbit/s. Virtual time."""
        for trip, alone, beside, quiet, least, most in SHARES.findall(self.said_by_simulation('Fairness.*')):
            yield Row(f'fairness.long.gbps.{trip}us', float(beside), 'Gbit/s', float(alone), 'beside one')
            yield Row(f'fairness.short.of_quiet.{trip}us', int(least) / int(quiet), 'x')
            yield Row(f'fairness.short.least_of_most.{trip}us', int(least) / int(most), 'x')

    def said_by_simulation(self, tests):
        program = self.build / 'tests/sim/sim_test'
        if not program.exists():
            print('perf/run: simulations: SKIPPED, tests are not built', file=sys.stderr)
            return ''
        return command([program, f'--gtest_filter={tests}'])

    def on_a_link(self):
        """64 KiB WRITEs, and the kernel's TCP through the same relay, alternating. Both ends are in one process, turned by one thread:
        two that poll and the relay would be three on two CPUs, and wait for each other's slices of time."""
        rounds = [(self.ours(), self.tcp()) for _ in range(ROUNDS)]
        ours = statistics.median(mine for mine, _ in rounds)
        theirs = None
        if all(tcp is not None for _, tcp in rounds):
            theirs = statistics.median(tcp for _, tcp in rounds)
        yield Row('loss_link.write64k.1pct.100us', ours, 'Gbit/s', theirs, 'TCP (cubic)')

    def link(self, kind=links.RelayedLink):
        return kind(self.build / 'perf/end_to_end/relay', LOSS, ONE_WAY_US)

    def ours(self):
        with self.link(links.JoinedRelayedLink) as link, tempfile.TemporaryDirectory() as folder:
            out = pathlib.Path(folder) / 'perf.json'
            devices = [word for role in links.ADDRESSES for word in link.device(role)]
            command(link.wrapped('server', [self.build / 'apps/uroce', 'perf', *devices, '--op', 'write', '--size', MESSAGE, '--measure', 'bandwidth',
                                            '--duration', self.duration, '--quiet', '--json', out]))
            return json.loads(out.read_text())[f'write.{MESSAGE}.gigabits_per_second']

    def tcp(self):
        """None: iperf3 is missing."""
        if shutil.which('iperf3') is None:
            return print('perf/run: loss_link: TCP: SKIPPED, iperf3 is not installed', file=sys.stderr)
        with self.link() as link:
            port = links.free_tcp_port()
            _, said = links.pair(link, ['iperf3', '--server', '--one-off', '--port', port],
                                 ['iperf3', '--client', link.kernel_address('server'), '--port', port, '--congestion', 'cubic',
                                  '--time', str(self.duration), '--json'], links.listening(port))
        told = json.loads(said)
        if 'error' in told:
            raise Failure(f'iperf3: {told["error"]}')
        return told['end']['sum_received']['bits_per_second'] / 1e9

