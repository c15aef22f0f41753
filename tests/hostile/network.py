"""Network namespaces on one switch: the victim's, a friend's of it, and the attacker's.

    with Network() as net:
        subprocess.run(net.command("victim", ["ip", "link"]))
        attacker_socket = net.packet_socket("attacker")

What is made here goes when the block is left; what a killed run could not remove, the next one removes.

Decision: the switch is a bridge in a namespace of its own, not a veth pair. On a shared link an attacker sees what it has to guess.
Cost: each frame passes the kernel twice.
"""

import ctypes
import socket
import sys
import threading
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "programs"))
import namespaces  # noqa: E402  (tests/programs)

PLACES = ("victim", "friend", "attacker")
SWITCH = "switch"
LINK = "uroce-rdma"
ADDRESSES = {"victim": "192.0.2.1", "friend": "192.0.2.2", "attacker": "192.0.2.66"}
# No host but the attacker says that it has any of the others of this network.
PREFIX = 16
MTU = 4200
CLONE_NEWNET = 0x40000000


class Network(namespaces.Temporary):
    NAME_PREFIX = "uroce-hostile"
    PLACES = (*PLACES, SWITCH)

    def __init__(self, kernels=()):
        """The kernel of these places has the place's address on LINK."""
        self.kernels = kernels

    def packet_socket(self, place):
        """All frames that come over LINK, and a way to send any."""
        made = []
        # A thread that enters a namespace does not come back from it: it ends.
        thread = threading.Thread(target=lambda: made.append(self._packet_socket(place)))
        thread.start()
        thread.join()
        return made[0]

    def _packet_socket(self, place):
        with open(f"/run/netns/{self.name(place)}") as namespace:
            if ctypes.CDLL(None, use_errno=True).setns(namespace.fileno(), CLONE_NEWNET) != 0:
                raise OSError(ctypes.get_errno(), "setns")
        sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 << 20)
        sock.setsockopt(socket.SOL_SOCKET, 33, 64 << 20)  # SO_RCVBUFFORCE
        sock.bind((LINK, 0))
        sock.setblocking(False)
        return sock

    def _make(self):
        for place in (SWITCH, *PLACES):
            namespaces.ip("netns", "add", self.name(place))
        switch = self.name(SWITCH)
        namespaces.ip("-n", switch, "link", "add", "bridge", "type", "bridge", "mcast_snooping", "0", "ageing_time", "100000")
        namespaces.ip("-n", switch, "link", "set", "bridge", "mtu", str(MTU), "addrgenmode", "none", "up")
        for place in PLACES:
            namespaces.ip("link", "add", LINK, "netns", self.name(place), "mtu", str(MTU), "type", "veth",
                          "peer", "name", place, "netns", switch, "mtu", str(MTU))
            namespaces.ip("-n", switch, "link", "set", place, "master", "bridge", "addrgenmode", "none", "up")
            namespaces.ip("-n", self.name(place), "link", "set", LINK, "addrgenmode", "none", "up")
            namespaces.ip("-n", self.name(place), "link", "set", "lo", "up")
        for place in self.kernels:
            namespaces.ip("-n", self.name(place), "address", "add", f"{ADDRESSES[place]}/{PREFIX}", "dev", LINK)


def why_not():
    """Why there can be no such network here, or None."""
    if reason := namespaces.why_not():
        return reason
    try:
        with Network() as net:
            net.packet_socket("attacker").close()
    except (RuntimeError, OSError) as error:
        return str(error)
    return None
