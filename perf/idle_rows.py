"""Rows of a program to which nothing comes for a while, for perf/run."""

import contextlib
import pathlib
import re
import statistics
import tempfile
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
# Of a service: what stands before the device's ways to its interface.
SERVICE = '[poller]\nmode = "dedicated"\nidle = "interrupt"\n[[device]]\nname = "uroce0"\n'


class Idle:
    def __init__(self, build):
        self.uroce = build / 'apps/uroce'
        self.service = build / 'apps/uroce-serve'

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
            # The kernel answers echo requests to its own addresses, so they go to a service with another one.
            address = links.ADDRESSES['server']
            with self.serve(link, f'port = "packet0,iface={namespaces.LINK}"\naddresses = ["{address}"]\n') as service:
                yield Row(f'{name}.serve.port.cpu_percent', self.cpu_percent(service), '%')
                yield Row(f'{name}.serve.port.first_packet_us', self.first_packet(link, address.split('/')[0]), 'us', of_kernel, 'kernel', 'lower')
            with self.serve(link, f'interface = "{namespaces.LINK}"\n') as service:
                yield Row(f'{name}.serve.interface.cpu_percent', self.cpu_percent(service), '%')

    @contextlib.contextmanager
    def serve(self, link, device):
        """The process of a service with a poller of its own that sleeps, and no programs."""
        with tempfile.TemporaryDirectory() as folder:
            file, socket = pathlib.Path(folder) / 'serve.toml', pathlib.Path(folder) / 'service.sock'
            file.write_text(SERVICE + device)
            service = link.start('server', [self.service, '--config', file, '--socket', socket])
            try:
                if not links.wait_until(socket.exists, service):
                    raise Failure(f'{self.service}: {service.stderr.read().strip()}')
                time.sleep(1)
                yield service
            finally:
                service.terminate()
                service.communicate()

    @staticmethod
    def cpu_percent(process):
        before, start = cpu_seconds(process.pid), time.monotonic()
        time.sleep(IDLE_SECONDS)
        return 100 * (cpu_seconds(process.pid) - before) / (time.monotonic() - start)

    def of_pollers(self, link, mode, idle):
        server = link.start('server', [self.uroce, 'perf', *link.device('server'), '--server', '--listen', '0', '--poller', mode,
                                       '--poller-idle', idle])
        try:
            if 'port' not in server.stdout.readline():
                raise Failure(f'uroce perf --server: {server.stderr.read().strip()}')
            time.sleep(1)
            return self.cpu_percent(server), self.first_packet(link, links.ADDRESSES['server'].split('/')[0])
        finally:
            server.kill()
            server.communicate()

    @staticmethod
    def first_packet(link, address):
        """The median, in microseconds."""
        said = command(link.wrapped('client', ['ping', '-n', '-c', FIRST_PACKETS, '-i', REST_SECONDS, address]))
        return 1000 * statistics.median(float(time_ms) for time_ms in re.findall(r'time=([\d.]+)', said))
