"""Rows of how long it takes to open a device, for perf/run.

opening.PORT.ms: from ibv_get_device_list() to the return of ibv_open_device(), in a new process each time. `.over_eal_ms` is without
rte_eal_init() (`bare_eal`).
opening.loopback.first_qp_us, .qp_p50_us, .qp_max_us: the first 64 queue pairs of a process; the first one allocates the table of numbers.
"""

import json
import statistics
import tempfile

import links
from rows import Row, command

# A process opens a device once, so each figure is the median of that many processes.
PROCESSES = 9


class Opening:
    def __init__(self, build):
        self.uroce = build / 'apps/uroce'
        self.program = build / 'perf/end_to_end/opening'

    def opened(self, ports):
        """What one process tells that opens the first of these ports."""
        options = []
        for port, address in zip(ports, links.ADDRESSES.values()):
            options += ['--port', port, '--ip', address]
        return json.loads(command([self.uroce, 'run', *options, '--', self.program]))

    def bare_eal(self, ports):
        return json.loads(command([self.program.with_name('bare_eal'), *ports]))

    def rows(self):
        """On each port beside EAL alone, which a process with a DPDK port cannot do without. Both ends of a wire inside the
        process are opened together."""
        yield from self.of_port('loopback', ['loopback0', 'loopback1'], eal=False)
        yield from self.of_port('net_ring', ['net_ring0', 'net_ring1'])
        with tempfile.TemporaryDirectory() as folder:
            yield from self.of_port('memif', [f'net_memif0,role=server,id=0,socket={folder}/memif.sock,socket-abstract=no'])

    def of_port(self, name, ports, eal=True):
        opened, bare = [], []
        for _ in range(PROCESSES):
            opened.append(self.opened(ports))
            if eal:
                bare.append(self.bare_eal(ports)['open_us'] / 1e3)
        median = {key: statistics.median(one[key] for one in opened) for key in opened[0]}
        floor = statistics.median(bare) if bare else None
        yield Row(f'opening.{name}.ms', median['open_us'] / 1e3, 'ms', floor, 'EAL' if eal else '', 'lower')
        if eal:
            yield Row(f'opening.{name}.over_eal_ms', median['open_us'] / 1e3 - floor, 'ms')
        for key in 'first_qp_us', 'qp_p50_us', 'qp_max_us':
            yield Row(f'opening.{name}.{key}', median[key], 'us', shown=not eal)
