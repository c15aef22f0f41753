"""Rows of a program to which nothing comes for a while, for perf/run."""

import re
import statistics
import time

import links
import namespaces
from host_rows import IDLE_SECONDS, cpu_seconds
from rows import Failure, Row, command

# poller.mode and poller.idle.
POLLERS = ('inline', 'auto'), ('inline', 'interrupt'), ('dedicated', 'interrupt')
# Echo requests, and the rest before each, which is longer than any sleep of a poller.
FIRST_PACKETS, REST_SECONDS = 40, 0.05
KERNEL = {'server': '198.51.100.1', 'client': '198.51.100.2'}


class Idle:
    def __init__(self, build):
        self.uroce = build / 'apps/uroce'

    def rows(self, name):
        """CPU time while nothing comes, and the round trip of an echo request of the kernel that comes then, beside one that the
        other kernel answers."""
        with links.VethLink() as link:
            for role, side in link.SIDES.items():
                # The server's own address is not the kernel's.
                for address in [f'{KERNEL[role]}/24', *([links.ADDRESSES[role]] if role == 'client' else [])]:
                    namespaces.ip('-n', link.net.name(side), 'address', 'add', address, 'dev', namespaces.LINK)
            of_kernel = self.first_packet(link, KERNEL['server'])
            for mode, idle in POLLERS:
                cpu_percent, first_packet = self.of_pollers(link, mode, idle)
                yield Row(f'{name}.{mode}.{idle}.cpu_percent', cpu_percent, '%')
                yield Row(f'{name}.{mode}.{idle}.first_packet_us', first_packet, 'us', of_kernel, 'kernel', 'lower')

    def of_pollers(self, link, mode, idle):
        server = link.start('server', [self.uroce, 'perf', *link.device('server'), '--server', '--listen', '0', '--poller', mode,
                                       '--poller-idle', idle])
        try:
            if 'port' not in server.stdout.readline():
                raise Failure(f'uroce perf --server: {server.stderr.read().strip()}')
            time.sleep(1)
            before, start = cpu_seconds(server.pid), time.monotonic()
            time.sleep(IDLE_SECONDS)
            cpu_percent = 100 * (cpu_seconds(server.pid) - before) / (time.monotonic() - start)
            return cpu_percent, self.first_packet(link, links.ADDRESSES['server'].split('/')[0])
        finally:
            server.kill()
            server.communicate()

    @staticmethod
    def first_packet(link, address):
        """The median, in microseconds."""
        said = command(link.wrapped('client', ['ping', '-n', '-c', FIRST_PACKETS, '-i', REST_SECONDS, address]))
        return 1000 * statistics.median(float(time_ms) for time_ms in re.findall(r'time=([\d.]+)', said))
