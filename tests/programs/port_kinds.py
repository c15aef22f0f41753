"""Which kinds of ports this machine can have."""

import functools
import os
import socket

import namespaces

# Found out by making some: once, and before a test has its own, which have the same names.
_why_no_namespaces = functools.cache(namespaces.why_not)


def has_af_xdp():
    try:
        socket.socket(44, socket.SOCK_RAW).close()  # AF_XDP
    except OSError:
        return False
    return True


def why_not(kind):
    """Why this machine cannot have ports of that kind, or None."""
    if kind in ("af-packet", "af-xdp", "tap", "pcap") and _why_no_namespaces():
        return f"no network namespaces: {_why_no_namespaces()}"
    if kind == "af-xdp" and not has_af_xdp():
        return "this kernel has no AF_XDP sockets"
    if kind == "tap" and not os.access("/dev/net/tun", os.R_OK | os.W_OK):
        return "/dev/net/tun is missing"
    return None
