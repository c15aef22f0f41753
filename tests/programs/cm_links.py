"""Where two programs are that connect by the connection manager: on memif, on a veth pair, beside the kernel, or on one host.
Hosts have numbers, from which their addresses follow."""

from pathlib import Path

import host_service
import namespaces
import programs
from cm_rows import V4, V6

SERVER, CLIENT, ABSENT = 1, 2, 99
PREFIX_BITS = {V4: 24, V6: 64}


class Network:
    """Where everybody is: `networks` are the beginnings of the server's addresses, and of all others'."""

    def __init__(self, *networks):
        self.networks = networks

    def address(self, number, family):
        return f"{self.networks[0 if number == SERVER else -1][family]}{number}"


class ThisHost:
    """All programs have the same addresses."""

    def __init__(self, addresses):
        self.addresses = addresses

    def address(self, number, family):
        return ON_LINK.address(ABSENT, family) if number == ABSENT else self.addresses[family]


ON_LINK = Network({V4: "192.0.2.", V6: "2001:db8::"})
BY_ADDRESS = ThisHost({V4: host_service.ADDRESS, V6: host_service.ADDRESS6})
BY_LOOPBACK = ThisHost({V4: "127.0.0.1", V6: "::1"})
# The router's networks, and the first host in each.
ROUTED = Network(*({V4: v4, V6: v6} for (v4, _), (v6, _) in namespaces.ROUTED_NETWORKS.values()))


class Host:
    """An end of the link: a program at a time, with a device of its own, of which `place` is the configuration."""

    def __init__(self, pair, number, place):
        self.pair = pair
        self.number = number
        self.place = place
        self.sign = Path(pair.folder, f"ready-{number}")

    def configuration(self):
        if self.place is None:
            return host_service.COUNTERS
        return f'[[device]]\nname = "uroce0"\n{self.place}[log]\ncounters = true\n'

    def start(self, command, waits_for=None, more=None):
        """`waits_for`: the server that each connection has to wait for. `more`: of cm_ready.c's variables."""
        self.sign.unlink(missing_ok=True)
        more = {"LD_PRELOAD": str(self.pair.notice), "UROCE_TEST_READY": str(self.sign)} | (more or {})
        if command[0] == "mckey" and self.pair.is_up:
            more["UROCE_TEST_NO_SLEEP"] = "1"
        if waits_for is not None:
            more["UROCE_TEST_PEER"] = str(waits_for.sign)
        process = self.pair.stack.start(self.pair.placed(self.number, command), self.configuration(), more)
        self.pair.processes.append(process)
        return process

    def start_server(self, command, tcp_port=None):
        """Returns when it can be connected to: by the connection manager, or, where it is given, at that port of TCP."""
        process = self.start(command)
        programs.wait_until(lambda: programs.listens(tcp_port, process.pid) if tcp_port else self.sign.exists(), process)
        return process


def of_our_own(number, port):
    """A place on the link, by a port that DPDK makes."""
    addresses = ", ".join(f'"{ON_LINK.address(number, family)}/{bits}"' for family, bits in PREFIX_BITS.items())
    return f'port = "{port}"\nmac = "02:00:00:00:02:{number:02}"\naddresses = [{addresses}]\nmtu = 4200\n'


class Pair(programs.Pair):
    """`notice` is the library by which a program tells that it listens (cm_ready.c). `is_up`: the link is, before its hosts are."""

    is_up = True

    def __init__(self, stack, notice):
        super().__init__(stack)
        self.notice = notice


class MemifPair(Pair):
    """Two hosts on a memif link."""

    is_up = False  # a datagram that is sent at once would be lost

    def host(self, number):
        role = "server" if number == SERVER else "client"
        return Host(self, number, of_our_own(
            number, f"net_memif0,role={role},id=0,socket={self.folder}/link,socket-abstract=no,bsize=8192"))

    def placed(self, number, command):
        return command


class HostPair(Pair):
    """Two programs of one service."""

    def __init__(self, stack, notice, service):
        super().__init__(stack, notice)
        self.service = service

    def host(self, number):
        return Host(self, number, None)

    def placed(self, number, command):
        return ["env", *(f"{name}={value}" for name, value in self.service.environment.items()), *command]


class VethPair(Pair):
    """Two hosts on a veth pair."""

    def __init__(self, stack, notice, net):
        super().__init__(stack, notice)
        self.net = net

    def host(self, number):
        return Host(self, number, of_our_own(number, f"net_af_packet0,iface={namespaces.LINK}"))

    def placed(self, number, command):
        return self.net.command("left" if number == SERVER else "right", command)


class InterfacePair(VethPair):
    """Two hosts beside the kernel at the ends of a veth pair, `link`."""

    def __init__(self, stack, notice, net, link):
        super().__init__(stack, notice, net)
        self.link = link

    def host(self, number):
        return Host(self, number, f'interface = "{self.link}"\n')


def give_address(namespace, address, family, link):
    namespaces.ip("-n", namespace, "address", "add", f"{address}/{PREFIX_BITS[family]}", "nodad", "dev", link)
