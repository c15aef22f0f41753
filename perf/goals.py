"""What perf/run's figures shall be: metric -> comparison and number. A metric that ends in .ratio is the figure's ratio to
its floor of the same run, above 1 when it beats it."""

AT_MOST, AT_LEAST = '<=', '>='


def _cpu_time():
    """Of both ends together; a SEND costs at most 10 % more than a WRITE, a READ 30 %, as its responses are copied."""
    for size, nanoseconds in (64, 75), (4096, 550), (65536, 5000):
        yield f'cpu_ns.write.{size}', (AT_MOST, nanoseconds)
        yield f'cpu_ns.send.{size}.over_write', (AT_MOST, 1.1)
        yield f'cpu_ns.read.{size}.over_write', (AT_MOST, 1.3)
    yield 'cpu_ns.send.64.alone', (AT_MOST, 330)


def _latency():
    """Above the bare port's round trip."""
    for operation, microseconds in ('send', 0.3), ('write', 0.3), ('read', 0.15):
        yield f'rtt_over_bare_us.ring.{operation}64', (AT_MOST, microseconds)
        yield f'rtt_over_bare_us.ring.{operation}64.far', (AT_MOST, 1.5 * microseconds if operation != 'read' else microseconds)
    yield 'rtt_p99_over_p50.ring.send64', (AT_MOST, 2)


def _memif():
    """Between two processes, whether their CPUs share a cache or not."""
    for state in '', '.far':
        for size in 65536, 1 << 20:
            yield f'memif_ratio.write.{size}{state}', (AT_LEAST, 0.45)
        yield f'memif.write.65536.goodput{state}.ratio', (AT_LEAST, 0.6)
        yield f'memif_ratio.write.1048576.over_65536{state}', (AT_LEAST, 0.9)
        for operation in 'send', 'write', 'read':
            yield f'rtt_over_bare_us.memif.{operation}64{state}', (AT_MOST, 0.5)
        yield f'rtt_p99_over_p50.memif.send64{state}', (AT_MOST, 2)
        yield f'memif.ib_write_bw.65536.goodput.beside_perf{state}.ratio', (AT_LEAST, 0.8)
        for tool in 'ib_send_lat', 'ib_read_lat':
            yield f'memif.{tool}.64.round_trip.beside_perf{state}.ratio', (AT_LEAST, 1 / 1.3)
        # Of a target that does not poll.
        yield f'memif.ib_write_lat.64.mean{state}.ratio', (AT_LEAST, 1 / 3)


def _host():
    """Programs that share a device. The sum of many pairs is that of one, as far as runs agree; of long messages as far as
    channels alone keep theirs."""
    yield 'host.send64.rtt_over_ring_us', (AT_MOST, 0.2)
    yield 'host.perf.write64k.full.gbps.ratio', (AT_LEAST, 1.2)
    yield 'host.write64k.gbps.ratio', (AT_LEAST, 0.6)
    for programs in 4, 8, 16:
        for figure in 'write64k.gbps', 'qp64.write64k.gbps', 'qp64.write64.mmsgs':
            yield f'host.programs.{programs}.{figure}.ratio', (AT_LEAST, 0.95)
    yield 'host.start.true_ms', (AT_MOST, 10)
    yield 'host.idle.program.cpu_percent', (AT_MOST, 0.5)
    yield 'host.idle.service.cpu_percent', (AT_MOST, 1)
    for mode in 'inline', 'dedicated':
        yield f'idle.{mode}.interrupt.cpu_percent', (AT_MOST, 1)
        yield f'idle.{mode}.interrupt.first_packet_us', (AT_MOST, 100)
    for way in 'port', 'interface':
        yield f'idle.serve.{way}.cpu_percent', (AT_MOST, 1)
    yield 'idle.serve.port.first_packet_us', (AT_MOST, 100)


def _instrument():
    """`uroce perf` and perftest say the same of a device, where they do the same, and a rate is held. Round trips of WRITEs have no
    goal: ib_write_lat looks at its memory, without polling (instrument_rows.py)."""
    for rate in '10k', '100k':
        yield f'instrument.rate.{rate}.missed_percent', (AT_MOST, 0.1)
    for figure in 'write.64.gbps', 'write.65536.gbps', 'send.64.gbps', 'send.64.single.gbps', 'send.65536.gbps', 'send.64.round_trip':
        yield f'instrument.{figure}.apart_percent', (AT_MOST, 5)


def _watched():
    """Being looked at costs next to nothing."""
    for operation in 'send', 'write':
        for figure in 'cpu_ns', 'rate':
            yield f'watched.{operation}.64.{figure}.cost_percent', (AT_MOST, 2)


def _capture():
    """A capture at a million frames a second loses none, or counts what it lost, and does not slow them down."""
    for load in '1m', 'most':
        yield f'capture.{load}.uncounted', (AT_MOST, 0)
    yield 'capture.1m.rate.ratio', (AT_LEAST, 0.98)


def _links():
    """Of links of the kernel: what the bare port carries, and small path MTUs at a third of DPDK's cost at most."""
    yield 'links.packet.4200.write64k.goodput.ratio', (AT_LEAST, 0.9)
    for mtu in 1500, 3400, 9000:
        yield f'links.xdp.{mtu}.write64k.goodput.ratio', (AT_LEAST, 0.9)
    yield 'links.xdp.3400.write64.rate.ratio', (AT_LEAST, 0.9)
    for operation in 'send', 'write':
        yield f'links.packet.4200.{operation}64.over_bare_us', (AT_MOST, 2)
    for pairs in 1, 64:
        yield f'links.1500.cpu_ns.write.65536.qp{pairs}.ratio', (AT_LEAST, 3)
    yield 'links.1500.cpu_ns.write.64.qp1.ratio', (AT_LEAST, 3)


def _control():
    """One object ended and another one made, however many there are; a device opened, on DPDK beside EAL's own time."""
    for kind, nanoseconds in ('qp', 10000), ('cq', 5000), ('srq', 5000):
        for alive in 1, 1000, 100000:
            yield f'objects.{kind}.{alive}', (AT_MOST, nanoseconds)
    yield 'opening.loopback.ms', (AT_MOST, 5)
    for port in 'net_ring', 'memif':
        yield f'opening.{port}.over_eal_ms', (AT_MOST, 50)


def _attacked():
    """A host waits at most ten times as long as without an attack."""
    for attack in ('requests_taken_back', 'requests_from_absent_hosts', 'unfinished_handshakes', 'requests_from_everywhere',
                   'capsules_without_receives', 'log_pages_without_receives', 'mutated_frames'):
        for what in 'connect', 'read':
            yield f'hostile.{attack}.{what}.ratio', (AT_LEAST, 0.1)


GOALS = {
    **dict(_cpu_time()),
    'placement.cold': (AT_LEAST, 0.75),
    'placement.cold.over_memcpy': (AT_LEAST, 1.7),
    'placement.cold.one_packet': (AT_LEAST, 0.5),
    'placement.hot': (AT_LEAST, 0.9),
    'gbps.ring.write.65536': (AT_LEAST, 100),
    'gbps.ring.write.65536.far': (AT_LEAST, 100),
    'gbps.ring.write.1048576': (AT_LEAST, 90),
    'gbps.ring.read.65536.over_write': (AT_LEAST, 0.9),
    **dict(_memif()),
    'mmsgs.ring.write64.qp1': (AT_LEAST, 14),
    'mmsgs.ring.send64.qp1': (AT_LEAST, 8),
    'mmsgs.ring.write64.qp64': (AT_LEAST, 14),
    'qp_rate_ratio.10000': (AT_LEAST, 0.85),
    'scale.idle_bytes': (AT_MOST, 1024),
    'qp_rate_ratio.1000000': (AT_LEAST, 0.6),
    'threads.64.read64.rate.ratio': (AT_LEAST, 0.4),
    'cm_connects_per_s': (AT_LEAST, 15000),
    **dict(_control()),
    'af_packet.write.64.rate.ratio': (AT_LEAST, 0.9),
    'af_packet.send.64.rate.ratio': (AT_LEAST, 0.9),
    'af_xdp.write.64.rate.ratio': (AT_LEAST, 0.9),
    'af_xdp.send.64.rate.ratio': (AT_LEAST, 0.9),
    'beside_kernel.xdp.write.64.rate.ratio': (AT_LEAST, 0.9),
    'beside_kernel.write.64.over_packet.ratio': (AT_LEAST, 1.5),
    **dict(_links()),
    'fairness.short.of_quiet.20us': (AT_LEAST, 0.5),
    'fairness.short.of_quiet.100us': (AT_LEAST, 0.5),
    'fairness.cpu.short.of_alone': (AT_LEAST, 0.4),
    'peers.rate_ratio.1000': (AT_LEAST, 0.85),
    'handoff.cpu_ns.write.64.followed.ratio': (AT_LEAST, 0.9),
    'handoff.cpu_ns.write.4096.followed.ratio': (AT_LEAST, 0.9),
    'loss_goodput.write64k.1pct.100us': (AT_LEAST, 0.9),
    'loss_goodput.write64k.01pct.100us': (AT_LEAST, 0.98),
    'loss_tail.100us': (AT_MOST, 4),
    'loss_tail.1000us': (AT_MOST, 4),
    'loss_tail.first.100us': (AT_MOST, 4),
    'loss_link.write64k.1pct.100us.ratio': (AT_LEAST, 1),
    **dict(_latency()),
    **dict(_host()),
    **dict(_instrument()),
    **dict(_watched()),
    **dict(_capture()),
    **dict(_attacked()),
    **{f'block.file.{load}.qd32.ratio': (AT_LEAST, 0.95) for load in ('randread4k', 'randwrite4k', 'read128k', 'write128k')},
    'nvmf_iops_per_core.ram.randread4k': (AT_LEAST, 1.2),
    'nvmf_cpu_us.randread4k': (AT_MOST, 0.85),
    'nvmf_lat_over_send_us.ram.randread4k': (AT_MOST, 2),
    'nvmf_iops.file.randread4k.ratio': (AT_LEAST, 0.95),
    'decode.summary.1024': (AT_LEAST, 1),
    'decode.summary.1024.ratio': (AT_LEAST, 0.6),
    'instr.send64': (AT_MOST, 1050),
    'instr.send64.alone': (AT_MOST, 4400),
    'instr.write4k': (AT_MOST, 400),
    # Of a target that does not poll.
    'host.ib_write_lat.64.mean.ratio': (AT_LEAST, 1 / 3),
}


class Tally:
    """What became of the goals of one run."""

    def __init__(self):
        self.met, self.missed, self.told = 0, [], set()

    def of(self, metrics):
        """Text that stands beside metrics of one row ('' where none has a goal)."""
        said = []
        for name, value in metrics.items():
            if name not in GOALS:
                continue
            self.told.add(name)
            comparison, goal = GOALS[name]
            if value <= goal if comparison == AT_MOST else value >= goal:
                self.met += 1
                result = 'met'
            else:
                self.missed.append(name)
                result = 'not met'
            said.append(f'{"ratio " if name.endswith(".ratio") else ""}{comparison} {goal:.3g} {result}')
        return ', '.join(said)

    def absent(self):
        """Those of which nothing was told: neither met nor missed."""
        return [name for name in GOALS if name not in self.told]

    def __str__(self):
        text = f'goals: {self.met} met, {len(self.missed)} not'
        return text + (f': {", ".join(self.missed)}' if self.missed else '')
