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

NAME = re.compile(r"uroce-(\d+)-(?:left|right)")


class Namespaces:
    """`mtu` is that of LINK, which has no address of the kernel's: the link is the test's alone. With `tcp` there is
    a second pair, TCP_LINK, with an IPv4 address at each end (`address`), on which programs tell each other who
    they are."""

    def __init__(self, mtu=4200, tcp=True):
        self.mtu = mtu
        self.tcp = tcp

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

    @staticmethod
    def name(side):
        return f"uroce-{os.getpid()}-{side}"

    @staticmethod
    def address(side):
        """Of the kernel, on TCP_LINK."""
        return f"198.51.100.{1 + SIDES.index(side)}"

    def command(self, side, command):
        """What runs `command` in the namespace, as the very process that is started."""
        return ["ip", "netns", "exec", self.name(side), *command]

    def _make(self):
        for side in SIDES:
            ip("netns", "add", self.name(side))
            ip("-n", self.name(side), "link", "set", "lo", "up")
        self._join(LINK, self.mtu)
        if self.tcp:
            self._join(TCP_LINK, 1500)
            for side in SIDES:
                ip("-n", self.name(side), "address", "add", f"{self.address(side)}/24", "dev", TCP_LINK)

    def _join(self, link, mtu):
        left, right = (self.name(side) for side in SIDES)
        ip("link", "add", link, "netns", left, "mtu", str(mtu),
           "type", "veth", "peer", "name", link, "netns", right, "mtu", str(mtu))
        for side in SIDES:
            # Without a link-local address the kernel says nothing of its own accord.
            ip("-n", self.name(side), "link", "set", link, "addrgenmode", "none", "up")

    def _remove(self):
        for side in SIDES:
            if self.name(side) in existing():
                ip("netns", "delete", self.name(side))


def ip(*arguments):
    done = subprocess.run(["ip", *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"ip {' '.join(arguments)}: {done.stderr.strip()}")


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
