"""The frames on the link under test, kept in memory while a run lasts: the last ones, with the time of each, to be judged or written
to a file that wireshark reads. The kernel shows what uroce sends only where it does not bypass the queues (qdisc_bypass=0)."""

import collections
import socket
import struct
import threading

import link
from station import BUFFER_BYTES, ETH_P_ALL, PACKET_OUTGOING, SO_RCVBUFFORCE

SOL_PACKET = 263
PACKET_STATISTICS = 6
SO_TIMESTAMPNS = 35
KEPT_BYTES_MAX = 256 << 20

# `outgoing`: sent by uroce.
Frame = collections.namedtuple("Frame", "time outgoing data")


class Frames:
    """All frames while the block runs; of too many the last ones."""

    def __init__(self, interface=link.RDMA_TAP):
        self.interface = interface
        self.kept = collections.deque()
        self.kept_bytes = 0
        self.lost = 0  # that the kernel could not give us

    def __enter__(self):
        # Of no protocol until it is bound: before that it would take frames of every interface.
        self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        self.socket.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, BUFFER_BYTES)
        self.socket.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        self.socket.bind((self.interface, ETH_P_ALL))
        self.socket.settimeout(0.2)
        self.over = False
        self.thread = threading.Thread(target=self._receive)
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over = True
        self.thread.join()
        self.lost = struct.unpack("II", self.socket.getsockopt(SOL_PACKET, PACKET_STATISTICS, 8))[1]
        self.socket.close()

    def _receive(self):
        while not self.over:
            try:
                data, notes, _, where = self.socket.recvmsg(1 << 16, 64)
            except TimeoutError:
                continue
            seconds, nanoseconds = struct.unpack("ll", notes[0][2])
            self.kept.append(Frame(seconds + nanoseconds / 1e9, where[2] == PACKET_OUTGOING, data))
            self.kept_bytes += len(data)
            while self.kept_bytes > KEPT_BYTES_MAX:
                self.kept_bytes -= len(self.kept.popleft().data)

    def write(self, path):
        """A file of pcap."""
        with open(path, "wb") as file:
            file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 1 << 16, 1))
            for frame in self.kept:
                seconds, fraction = divmod(frame.time, 1)
                file.write(struct.pack("<IIII", int(seconds), int(fraction * 1e6), len(frame.data), len(frame.data)) + frame.data)
