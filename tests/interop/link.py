"""The network of the tests: a namespace of this process's own, with two taps that the guest's NICs are plugged into.

RDMA_TAP is the link under test. The kernel has no address there and says nothing; uroce stands on it, with a MAC and
addresses of its own. TCP_TAP is an ordinary network of the kernel's, for programs to tell each other their addresses.
The namespace has no name and goes with the last process in it.
"""

import ctypes
import json
import os
import subprocess

CLONE_NEWNET = 0x40000000

RDMA_TAP = "rdma"
TCP_TAP = "tcp"
TAP_MTU = 9000  # room for every link MTU that the ends choose

HOST_MAC = "02:00:00:00:09:01"
GUEST_MAC = "02:00:00:00:09:02"
HOST_ADDRESSES = {"v4": "192.0.2.1", "v6": "fd00:9::1"}
GUEST_ADDRESSES = {"v4": "192.0.2.2", "v6": "fd00:9::2"}
ABSENT = {"v4": "192.0.2.99", "v6": "fd00:9::99"}
PREFIX = {"v4": 24, "v6": 64}
HOST_TCP = "198.51.100.1"
GUEST_TCP = "198.51.100.2"
TCP_PREFIX = 24


class NoLink(Exception):
    """There can be no such network here; the text says why."""


def enter():
    """Moves this process, and what it starts from now on, into a new namespace with the taps."""
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNET) != 0:
        raise NoLink(f"no network namespace: {os.strerror(ctypes.get_errno())}")
    ip("link", "set", "lo", "up")
    for tap in (RDMA_TAP, TCP_TAP):
        ip("tuntap", "add", "dev", tap, "mode", "tap")
        ip("link", "set", tap, "mtu", str(TAP_MTU), "addrgenmode", "none", "up")
    ip("address", "add", f"{HOST_TCP}/{TCP_PREFIX}", "dev", TCP_TAP)
    # Some programs meet by TCP at the address that they then connect to; that goes over TCP_TAP, too (see Guest). And
    # getaddrinfo() knows IPv6 only where the host has such an address.
    ip("link", "set", RDMA_TAP, "arp", "off")
    for address in HOST_ADDRESSES.values():
        ip("address", "add", address, "dev", "lo")
    ip("route", "add", GUEST_ADDRESSES["v4"], "via", GUEST_TCP)


def give_kernel_the_addresses():
    """From now on the kernel has our MAC and addresses on the link under test, and uses it as any other."""
    ip("route", "del", GUEST_ADDRESSES["v4"], "via", GUEST_TCP)
    ip("link", "set", RDMA_TAP, "address", HOST_MAC)
    ip("link", "set", RDMA_TAP, "arp", "on")
    for family, address in HOST_ADDRESSES.items():
        ip("address", "del", address, "dev", "lo")
        ip("address", "add", f"{address}/{PREFIX[family]}", "dev", RDMA_TAP, *(["nodad"] if family == "v6" else []))


def frames(tap=RDMA_TAP):
    """How many have been on the link under test so far."""
    counted = json.loads(ip("-json", "-statistics", "link", "show", tap))[0]["stats64"]
    return counted["rx"]["packets"] + counted["tx"]["packets"]


def set_mtu(mtu):
    ip("link", "set", RDMA_TAP, "mtu", str(mtu))


def ip(*arguments):
    try:
        done = subprocess.run(["ip", *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    except FileNotFoundError:
        raise NoLink("ip is not installed (Debian's package iproute2 has it)") from None
    if done.returncode != 0:
        raise NoLink(f"ip {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout
