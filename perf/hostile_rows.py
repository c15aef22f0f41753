"""Rows of a target of NVMe over Fabrics that is attacked, for perf/run: what a host of its own waits for, beside what it waits for when
nothing attacks. The attacks are those of tests/hostile, over veth pairs of the kernel; that takes root."""

import pathlib
import random
import re
import sys
import time

TESTS = pathlib.Path(__file__).resolve().parents[1] / 'tests'
for folder in (TESTS / 'hostile', TESTS / 'programs'):
    sys.path.insert(0, str(folder))

import attacks  # noqa: E402  (tests/hostile)
import network  # noqa: E402
import programs  # noqa: E402  (tests/programs)
import victims  # noqa: E402
from attacker import Attacker  # noqa: E402
from rows import Failure, Row  # noqa: E402

READS = 4000
# More than a host may wait, so that what hangs is told from what is slow.
LIMIT_SECONDS = 120
MEASURED = re.compile(r'connected in ([\d.]+) us, read in ([\d.]+) us')
ATTACKS = {
    'requests_taken_back': attacks.requests_taken_back,
    'requests_from_absent_hosts': attacks.requests_from_absent_hosts,
    'unfinished_handshakes': attacks.unfinished_handshakes,
    'requests_from_everywhere': attacks.requests_from_everywhere,
    'capsules_without_receives': attacks.capsules_without_receives,
    'log_pages_without_receives': attacks.log_pages_without_receives,
    'mutated_frames': lambda attacker: attacks.mutated_frames(attacker, random.Random(1)),
}


class Hostile:
    def __init__(self, build):
        self.build = build
        self.stack = programs.Stack(build / 'lib/verbs', '')

    def rows(self):
        """Connections and reads of 4 KiB, alone and under each attack."""
        host = self.build / 'tests/nvmf/nvmf_host'
        if why := network.why_not() if host.exists() else f'{host} is not built':
            return print(f'perf/run: hostile: SKIPPED, {why}', file=sys.stderr)
        with network.Network() as net:
            alone = self._measure(net, None)
            unserved = []
            for name, attack in ATTACKS.items():
                try:
                    measured = self._measure(net, attack)
                except Failure as failure:
                    unserved.append(f'under {name} {failure}')
                    continue
                for what, value, floor in zip(('connect', 'read'), measured, alone):
                    yield Row(f'hostile.{name}.{what}', value, 'us', floor, 'alone', better='lower')
            if unserved:
                raise Failure('; '.join(unserved))

    def _measure(self, net, attack):
        target = victims.start_target(self.stack, net, str(self.build / 'apps/uroce'))
        sock = net.packet_socket('attacker')
        host = None
        try:
            attacker = Attacker(sock, network.ADDRESSES['victim'], [network.ADDRESSES['attacker']])
            attacking = attack and attack(attacker)
            if attacking:
                next(attacking)
            host = victims.start_friend(self.stack, net, str(self.build / 'tests/nvmf/nvmf_host'), f'time:1:{READS}')
            deadline = time.monotonic() + LIMIT_SECONDS
            while host.lives() and time.monotonic() < deadline:
                if attacking:
                    next(attacking)
                attacker.pump(0.001)
            found = MEASURED.search(host.end()[1])
        finally:
            if host:
                host.end()
            target.end()
            sock.close()
        if not found:
            raise Failure(f'a host is not served: {host.end()[1].strip()}')
        return [float(text) for text in found.groups()]
