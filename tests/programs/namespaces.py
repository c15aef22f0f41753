"""Two network namespaces joined by a veth pair, for programs that meet over a link of the kernel.

    with Namespaces(mtu=4200) as net:
        subprocess.run(net.command("left", ["ip", "link"]))

What this makes goes when the block is left, also by SIGTERM, SIGINT and SIGHUP; what a killed run could not remove,
the next one removes. A namespace lives as long as a process in it: end what was started inside the block.
"""

import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

SIDES = ("left", "right")
# The interfaces' names, the same in both namespaces.
LINK = "uroce-rdma"
TCP_LINK = "uroce-tcp"

# A router's: the beginning of the addresses of each side's networks, and the length of the prefix.
ROUTED_LINK = "uroce-routed"
RELAYED_LINK = "uroce-relayed"
ROUTED_NETWORKS = {"left": (("192.0.2.", 24), ("2001:db8::", 64)), "right": (("203.0.113.", 24), ("2001:db8:1::", 64))}

NAME = re.compile(r"uroce-(?:hostile-)?(\d+)-\w+")


class Temporary:
    """Network namespaces that are made (`_make`) when a block is entered, and go when it is left."""

    NAME_PREFIX = "uroce"
    PLACES = ()

    def __enter__(self):
        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is signal.SIG_DFL:
                signal.signal(number, signal.default_int_handler)
        remove_stale()
        try:
            self._make()
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(self, *_):
        self._remove()

    @classmethod
    def name(cls, place):
        return f"{cls.NAME_PREFIX}-{os.getpid()}-{place}"

    def command(self, place, command):
        """What runs `command` in the namespace, as the very process that is started."""
        return ["ip", "netns", "exec", self.name(place), *command]

    def _remove(self):
        for place in self.PLACES:
            if self.name(place) in existing():
                ip("netns", "delete", self.name(place))


class Namespaces(Temporary):
    """`mtu` is that of LINK, which has no address of the kernel's: the link is the test's alone. With `tcp` there is
    a second pair, TCP_LINK, with an IPv4 address at each end (`address`), on which programs tell each other which
    they are."""

    PLACES = (*SIDES, "middle")

    def __init__(self, mtu=4200, tcp=True):
        self.mtu = mtu
        self.tcp = tcp

    def add_router(self):
        """A third namespace between the two, whose kernel forwards: ROUTED_LINK in each leads there, to the address .254
        or ::254 of that side's network, ROUTED_NETWORKS."""
        self.middle = self.name("middle")
        ip("netns", "add", self.middle)
        for side, networks in ROUTED_NETWORKS.items():
            link = f"uroce-{side}"
            ip("link", "add", ROUTED_LINK, "netns", self.name(side), "mtu", str(self.mtu),
               "type", "veth", "peer", "name", link, "netns", self.middle, "mtu", str(self.mtu))
            ip("-n", self.name(side), "link", "set", ROUTED_LINK, "addrgenmode", "none", "up")
            ip("-n", self.middle, "link", "set", link, "up")
            for prefix, bits in networks:
                ip("-n", self.middle, "address", "add", f"{prefix}254/{bits}", "dev", link, *(["nodad"] if ":" in prefix else []))
        switches = "echo 1 > /proc/sys/net/ipv4/ip_forward; echo 1 > /proc/sys/net/ipv6/conf/all/forwarding"
        subprocess.run(["ip", "netns", "exec", self.middle, "sh", "-c", switches], check=True)

    def add_relay(self):
        """A third namespace between the two, for a program that passes frames on: RELAYED_LINK in each leads there, to the
        interface that is returned for that side."""
        self.middle = self.name("middle")
        ip("netns", "add", self.middle)
        ends = {side: f"uroce-{side}" for side in SIDES}
        for side, end in ends.items():
            ip("link", "add", RELAYED_LINK, "netns", self.name(side), "mtu", str(self.mtu),
               "type", "veth", "peer", "name", end, "netns", self.middle, "mtu", str(self.mtu))
            ip("-n", self.name(side), "link", "set", RELAYED_LINK, "addrgenmode", "none", "up")
            ip("-n", self.middle, "link", "set", end, "addrgenmode", "none", "up")
        return ends

    def add_routes(self):
        """The kernels', which have addresses on ROUTED_LINK, to each other's networks by the router."""
        for side, other in zip(SIDES, reversed(SIDES)):
            for (via, _), (to, bits) in zip(ROUTED_NETWORKS[side], ROUTED_NETWORKS[other]):
                first = to if ":" in to else f"{to}0"
                ip("-n", self.name(side), "route", "add", f"{first}/{bits}", "via", f"{via}254")

    @staticmethod
    def address(side):
        """Of the kernel, on TCP_LINK."""
        return f"198.51.100.{1 + SIDES.index(side)}"

    def _make(self):
        for side in SIDES:
            ip("netns", "add", self.name(side))
            ip("-n", self.name(side), "link", "set", "lo", "up")
        self.join(LINK, self.mtu)
        if self.tcp:
            self.join(TCP_LINK, 1500)
            for side in SIDES:
                ip("-n", self.name(side), "address", "add", f"{self.address(side)}/24", "dev", TCP_LINK)

    def join(self, link, mtu):
        """One more veth pair, that name at both ends."""
        left, right = (self.name(side) for side in SIDES)
        ip("link", "add", link, "netns", left, "mtu", str(mtu),
           "type", "veth", "peer", "name", link, "netns", right, "mtu", str(mtu))
        for side in SIDES:
            # Without a link-local address the kernel says nothing of its own accord.
            ip("-n", self.name(side), "link", "set", link, "addrgenmode", "none", "up")


def ip(*arguments):
    done = subprocess.run(["ip", *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"ip {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout


def existing():
    folder = Path("/run/netns")
    return sorted(entry.name for entry in folder.iterdir()) if folder.is_dir() else []


def remove_stale():
    """Namespaces of runs that no longer live, and of one that had the number of this process."""
    for name in existing():
        match = NAME.fullmatch(name)
        if match and (int(match[1]) == os.getpid() or not Path("/proc", match[1]).exists()):
            subprocess.run(["ip", "netns", "delete", name], stderr=subprocess.DEVNULL)


def why_not():
    """Why there can be no namespaces here, or None."""
    if shutil.which("ip") is None:
        return "ip is not installed (Debian's package iproute2 has it)"
    try:
        with Namespaces(tcp=False):
            return None
    except RuntimeError as error:
        return str(error)
