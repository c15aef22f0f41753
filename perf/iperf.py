"""What the kernel's own TCP and UDP carry over a link, by iperf3, for perf/run."""

import json
import shutil

import links

# Headers of IPv4 and UDP.
UDP_HEADERS = 28


def why_not():
    return None if shutil.which('iperf3') else 'iperf3 is not installed (apps/install-packages peers)'


def _measure(link, duration, *options):
    """The end of the client's report. `link`: with addresses of the kernel at both ends."""
    port = links.free_tcp_port()
    address = links.ADDRESSES['server'].split('/')[0]
    _, said = links.pair(link, ['iperf3', '-s', '-1', '-p', port],
                         ['iperf3', '-c', address, '-p', port, '-t', max(1, round(duration)), '-J', *options], links.listening(port))
    return json.loads(said)['end']


def tcp(link, duration):
    """Gbit/s of payload that arrived."""
    return _measure(link, duration)['sum_received']['bits_per_second'] / 1e9


def udp(link, duration):
    """Gbit/s of payload that arrived in datagrams of the link's MTU, as fast as they go, and what was lost, in percent."""
    told = _measure(link, duration, '-u', '-b', '0', '-l', link.mtu - UDP_HEADERS)['sum']
    return told['bits_per_second'] / 1e9 * (1 - told['lost_percent'] / 100), told['lost_percent']
