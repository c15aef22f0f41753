"""Rows of links of the kernel with small and large MTUs, for perf/run.

links.MTU.cpu_ns.write.SIZE.qpN: CPU time of a WRITE by packet sockets of ours beside net_af_packet.
links.packet.MTU.*, links.xdp.MTU.*: goodput, rate and round trips between two processes, beside the bare port on the same link.
`.frames_per_call` are frames in a system call. `.lost` of the bare port is in percent.
links.iperf3.*: the kernel's TCP and UDP.
"""

import json
import re
import statistics
import sys

import iperf
import links
from pairs import Pairs, measure_pairs
from rows import SMALL, SMALL_FRAME, Row, command

# Link MTU -> path MTU.
MTUS = {1500: 1024, 3400: 2048, 4200: 4096, 9000: 4096}
# Of a packet in the middle of a message: it has no RETH.
MIDDLE_HEADERS = 58
MESSAGE = 65536
RUNS, PAIRS = 3, 5
# By port and MTU: the bare port, and the stack over it. DPDK's AF_XDP, the bare one where it can be, has no frames of two pieces.
PACKET = links.PacketSocketLink, links.PacketSocketLink
XDP, LONG_XDP = (links.XdpLink, links.BesideKernelLink), (links.OwnXdpLink, links.BesideKernelLink)
PORTS = {**{('packet', mtu): PACKET for mtu in (1500, 3400, 4200, 9000)},
         **{('xdp', mtu): XDP for mtu in (1500, 3400)}, **{('xdp', mtu): LONG_XDP for mtu in (4200, 9000)}}
TCP_MTUS = 1500, 3400, 9000
# A veth pair in a namespace that goes with the program: $1 is its MTU.
IN_NAMESPACE = ['unshare', '--net', 'sh', '-c', 'ip link add near mtu "$1" type veth peer name far mtu "$1" && '
                'for end in near far; do ip link set $end addrgenmode none up || exit 1; done; shift; exec "$@"', 'sh']


class LinkRows:
    """`ends`: of between_rows. `build`, `duration`: as there."""

    def __init__(self, ends, build, duration):
        self.ends, self.build, self.duration = ends, build, duration

    def rows(self):
        yield from self.cpu_time()
        yield from self.between_processes()

    def cpu_time(self):
        """CPU time of WRITEs, both ends on one thread, by packet sockets of ours beside net_af_packet, alternating."""
        for mtu, path_mtu in MTUS.items():
            for size, pairs in (MESSAGE, 1), (MESSAGE, 64), (SMALL, 1):
                options = ['--size', size, '--mtu', path_mtu, '--queue-pairs', pairs, '--outstanding', max(128, 2 * pairs)]
                rounds = [{port: self.one_thread(mtu, port, options) for port in ('packet', 'net_af_packet')} for _ in range(RUNS)]
                ours, dpdks = (statistics.median(each[port] for each in rounds) for port in ('packet', 'net_af_packet'))
                yield Row(f'links.{mtu}.cpu_ns.write.{size}.qp{pairs}', ours, 'ns', dpdks, 'net_af_packet', 'lower')

    def one_thread(self, mtu, port, options):
        device = [word for end, (name, address) in enumerate(zip(('near', 'far'), links.ADDRESSES.values()))
                  for word in ('--port', f'{port}{end},iface={name}', '--ip', address)]
        said = command([*IN_NAMESPACE, mtu, self.build / 'apps/uroce', 'run', *device, '--',
                        self.build / 'perf/end_to_end/one_thread', '--op', 'write', '--seconds', self.duration, *options])
        return json.loads(said)['cpu_ns_per_operation']

    def between_processes(self):
        """Goodput and round trips on two CPUs beside those of the bare port, and of the kernel's TCP and UDP."""
        tcp = yield from self.of_kernel()
        for (name, mtu), (bare_link, link) in PORTS.items():
            frame = MTUS[mtu] + MIDDLE_HEADERS
            # In one place of memory, as the frames of the bare port: what caches lack is no matter of the link.
            options = ['--op', 'write,send', '--size', f'{SMALL},{MESSAGE}', '--slots', '1', '--duration', self.duration, '--quiet']
            rounds = measure_pairs(PAIRS, lambda: self.ends.perf_between_processes(lambda: link(mtu=mtu), options),
                                   lambda: self.ends.bare_between_processes(lambda: bare_link(mtu=mtu),
                                                                            ['--bytes', f'{SMALL_FRAME},{frame}', '--seconds', self.duration]))

            def bare(figure):
                return statistics.median(each[figure] for _, each in rounds)

            def ours(figure):
                return statistics.median(each[figure] for each, _ in rounds)

            # Payload beside payload: what so many bare frames of that length would carry behind their headers.
            goodput = Pairs([(mine[f'write.{MESSAGE}.gigabits_per_second'], floor[f'bare.{frame}.frames_per_second'] * MTUS[mtu] * 8 / 1e9)
                             for mine, floor in rounds])
            rate = Pairs([(mine[f'write.{SMALL}.messages_per_second'] / 1e6, floor[f'bare.{SMALL_FRAME}.frames_per_second'] / 1e6)
                          for mine, floor in rounds])
            for what, unit, pairs in ('write64k.goodput', 'Gbit/s', goodput), ('write64.rate', 'M/s', rate):
                yield Row(f'links.{name}.{mtu}.{what}', pairs.ours, unit, pairs.theirs, 'bare')
                yield Row(f'links.{name}.{mtu}.{what}.spread_percent', 100 * pairs.spread, '%')
            if mtu in tcp:
                yield Row(f'links.{name}.{mtu}.write64k.over_tcp', goodput.ours, 'Gbit/s', tcp[mtu], 'TCP')
            for what, bytes_ in ('small', SMALL_FRAME), ('large', frame):
                yield Row(f'links.{name}.{mtu}.bare.{what}.lost', bare(f'bare.{bytes_}.lost_percent'), '%')
            for operation in 'send', 'write':
                over = ours(f'{operation}.{SMALL}.round_trip_p50_us') - bare(f'bare.{SMALL_FRAME}.round_trip_p50_us')
                yield Row(f'links.{name}.{mtu}.{operation}64.over_bare_us', over, 'us')
            yield from self.system_calls(name, mtu)

    def of_kernel(self):
        """Returns goodput of TCP by MTU, empty without iperf3."""
        if why_not := iperf.why_not():
            print(f'perf/run: links.iperf3: SKIPPED, {why_not}', file=sys.stderr)
            return {}
        goodput = {}
        for mtu in TCP_MTUS:
            with links.BesideKernelLink(mtu=mtu) as link:
                rounds = [(iperf.tcp(link, self.duration), *iperf.udp(link, self.duration)) for _ in range(RUNS)]
            goodput[mtu], udp, lost = (statistics.median(each) for each in zip(*rounds))
            yield Row(f'links.iperf3.tcp.{mtu}.goodput', goodput[mtu], 'Gbit/s')
            yield Row(f'links.iperf3.udp.{mtu}.goodput', udp, 'Gbit/s')
            yield Row(f'links.iperf3.udp.{mtu}.lost', lost, '%')
        return goodput

    def system_calls(self, name, mtu):
        """Frames of WRITEs in each system call that sends."""
        for what, size in ('frames_per_call', MESSAGE), ('small.frames_per_call', SMALL):
            said = {}
            self.ends.perf_between_processes(lambda: PORTS[name, mtu][1](mtu=mtu), [
                '--op', 'write', '--size', size, '--measure', 'bandwidth', '--duration', self.duration, '--quiet', '--log-counters', 'true'], said)
            frames, calls = (int(re.search(rf' {counter} (\d+)', said['client'])[1]) for counter in ('tx_frames', 'port_transmit_calls'))
            yield Row(f'links.{name}.{mtu}.{what}', frames / calls, 'frames')
