"""The two ends of a link between processes, for perf/run: how to start a program at either end."""

import os
import pathlib
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'tests/programs'))
import namespaces  # noqa: E402
import port_kinds  # noqa: E402
import programs  # noqa: E402

LIMIT_SECONDS = 60
ADDRESSES = {'server': '192.0.2.1/24', 'client': '192.0.2.2/24'}


class Link:
    """Programs at the ends "server" and "client"; a with-block is the life of the link."""

    host = '127.0.0.1'  # of the server, for TCP

    @staticmethod
    def why_not():
        """Why this machine cannot have such a link, or None."""
        return None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def port(self, role):
        """Devargs."""
        raise NotImplementedError

    def device(self, role):
        """Options of uroce."""
        return ['--port', self.port(role), '--ip', ADDRESSES[role]]

    def bare(self, role):
        """Options of bare_port."""
        return ['--port', self.port(role)]

    def wrapped(self, _role, command):
        """The command that runs `command` at an end."""
        return command

    def is_open(self, _process):
        """Whether a program that has just been started would get frames."""
        raise NotImplementedError

    def start(self, role, command):
        return subprocess.Popen([str(word) for word in self.wrapped(role, command)], stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


class MemifLink(Link):
    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory()
        return self

    def __exit__(self, *_):
        self.folder.cleanup()

    def port(self, role):
        return f'net_memif0,role={role},id=0,socket={self.folder.name}/memif.sock,socket-abstract=no,bsize=8192'

    def is_open(self, _process):
        return any(pathlib.Path(self.folder.name).iterdir())


class HostLink(Link):
    """Two programs of a service that has no other, and no uplink. `icrc`: of frames between them, "uplink" (none) or
    "full"."""

    def __init__(self, build, icrc='uplink'):
        self.program, self.icrc = build / 'apps/uroce-serve', icrc

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory()
        self.socket = pathlib.Path(self.folder.name) / 'service.sock'
        ready, told = os.pipe()
        # Should this process be killed, it ends by itself.
        self.service = subprocess.Popen([self.program, '--socket', self.socket, '--idle-exit', '5', '--ready-fd', str(told)],
                                        stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, pass_fds=[told])
        os.close(told)
        with open(ready) as answer:
            said = answer.read()
        if said != '\n':
            self.__exit__()
            raise ValueError(f'{self.program}: {said.strip() or "does not come up"}')
        return self

    def __exit__(self, *_):
        self.service.terminate()
        self.service.wait(LIMIT_SECONDS)
        self.folder.cleanup()

    def environment(self):
        """Of programs that find the service by themselves."""
        return {name: value for name, value in os.environ.items() if not name.startswith('UROCE_')} | {'UROCE_SERVICE': str(self.socket)}

    def port(self, _role):
        return f'host,socket={self.socket},icrc={self.icrc}'

    def device(self, role):
        return ['--port', self.port(role)]


class VethLink(Link):
    SIDES = {'server': 'left', 'client': 'right'}
    MTU = 4200

    def __init__(self, mtu=None):
        self.mtu = mtu or self.MTU

    @staticmethod
    def why_not():
        return port_kinds.why_not('af-packet')

    def __enter__(self):
        self.net = namespaces.Namespaces(mtu=self.mtu).__enter__()
        self.host = self.net.address('left')
        return self

    def __exit__(self, *what):
        self.net.__exit__(*what)

    def port(self, _role):
        return f'net_af_packet0,iface={namespaces.LINK}'

    def wrapped(self, role, command):
        return self.net.command(self.SIDES[role], command)

    def is_open(self, process):
        """It has a packet socket (the first line is the table's head)."""
        return len(pathlib.Path(f'/proc/{process.pid}/net/packet').read_text().splitlines()) > 1


class XdpLink(VethLink):
    """The same by AF_XDP, of which DPDK's driver takes frames of one page."""
    MTU = 3400

    @staticmethod
    def why_not():
        return port_kinds.why_not('af-xdp')

    def port(self, _role):
        return f'net_af_xdp0,iface={namespaces.LINK}'

    def is_open(self, process):
        """It has a program on its interface."""
        told = subprocess.run(['nsenter', '-t', str(process.pid), '-n', 'ip', '-json', 'link', 'show', namespaces.LINK],
                              capture_output=True, text=True)
        return '"xdp"' in told.stdout


class OwnXdpLink(XdpLink):
    """By uroce's own port beside the kernel, which has longer frames, too."""

    def bare(self, _role):
        return ['--interface', namespaces.LINK]


class PacketLink(VethLink):
    """By AF_PACKET, at the MTU of AF_XDP."""
    MTU = XdpLink.MTU


class PacketSocketLink(VethLink):
    """By packet sockets of ours, which need no EAL."""

    def port(self, _role):
        return f'packet0,iface={namespaces.LINK}'


class RelayedLink(VethLink):
    """Two veth pairs with a relay between them, a program that loses so many of 100,000 frames in each direction and delays
    the others. The kernel has addresses there, too."""

    KERNEL = {'server': '198.18.0.1', 'client': '198.18.0.2'}

    def __init__(self, program, loss, delay_us):
        super().__init__()
        self.program, self.loss, self.delay_us = program, loss, delay_us

    def __enter__(self):
        super().__enter__()
        try:
            ends = self.net.add_relay()
            for role, side in self.SIDES.items():
                namespaces.ip('-n', self.net.name(side), 'address', 'add', f'{self.KERNEL[role]}/24', 'dev', namespaces.RELAYED_LINK)
                for place, interface in (side, namespaces.RELAYED_LINK), ('middle', ends[side]):
                    subprocess.run(self.net.command(place, [self.program, '--plain', interface]), check=True)
            self.relay = subprocess.Popen([str(word) for word in self.net.command('middle', [
                self.program, *ends.values(), '--loss', self.loss, '--delay-us', self.delay_us])], stdout=subprocess.PIPE, text=True)
            if self.relay.stdout.readline() != 'ready\n':
                raise ValueError('the relay does not start')
        except BaseException:
            self.net.__exit__()
            raise
        return self

    def __exit__(self, *what):
        self.relay.terminate()
        self.relay.communicate()
        super().__exit__(*what)

    def kernel_address(self, role):
        return self.KERNEL[role]

    def port(self, _role):
        return f'packet0,iface={namespaces.RELAYED_LINK},gso=off'


class JoinedRelayedLink(RelayedLink):
    """The same between two ports of one process: both ends are where the server's would be."""
    OTHER = f'{namespaces.RELAYED_LINK}2'
    INTERFACES = {'server': namespaces.RELAYED_LINK, 'client': OTHER}

    def __enter__(self):
        super().__enter__()
        try:
            namespaces.ip('-n', self.net.name(self.SIDES['client']), 'link', 'set', namespaces.RELAYED_LINK, 'name', self.OTHER, 'netns',
                          self.net.name(self.SIDES['server']))
            namespaces.ip('-n', self.net.name(self.SIDES['server']), 'link', 'set', self.OTHER, 'up')
        except BaseException:
            self.__exit__()
            raise
        return self

    def port(self, role):
        return f'packet{int(role == "client")},iface={self.INTERFACES[role]},gso=off'


class BesideKernelLink(VethLink):
    """The kernel's own addresses on the link, at an MTU that AF_XDP carries. `mode`: of `--mode`."""
    MTU = XdpLink.MTU

    def __init__(self, mode='xdp', mtu=None):
        super().__init__(mtu)
        self.mode = mode

    def __enter__(self):
        super().__enter__()
        for role, side in self.SIDES.items():
            namespaces.ip('-n', self.net.name(side), 'address', 'add', ADDRESSES[role], 'dev', namespaces.LINK)
        return self

    def device(self, _role):
        return ['--interface', namespaces.LINK, '--mode', self.mode]


def wait_until(condition, process):
    """False when `process` ends before `condition` holds, or it takes too long."""
    deadline = time.monotonic() + LIMIT_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.02)
    return False


def pair(link, server_command, client_command, ready, complaints=None):
    """What the two programs write on standard output: (server's, client's). `ready` says of the server's process that
    the client may start. ValueError names the one that failed. `complaints`: a dictionary that gets what each wrote on
    standard error, by "server" and "client"."""
    server = link.start('server', server_command)
    started = [('server', server)]
    try:
        if wait_until(lambda: ready(server), server):
            started.append(('client', link.start('client', client_command)))
        said = {}
        for role, process in reversed(started):
            try:
                said[role], complaint = process.communicate(timeout=LIMIT_SECONDS)
            except subprocess.TimeoutExpired:
                raise ValueError(f'{role} of {client_command[0]} does not end') from None
            if complaints is not None:
                complaints[role] = complaint
            if process.returncode != 0 or len(started) < 2:
                raise ValueError(f'{role} of {client_command[0]}: {complaint.strip() or process.returncode}')
        return said['server'], said['client']
    finally:
        for _, process in started:
            if process.poll() is None:
                process.kill()
            process.communicate()


def listening(port):
    """For `pair`: the server listens on the TCP port."""
    return lambda process: programs.listens(port, process.pid)


free_tcp_port = programs.free_tcp_port
