"""Frames that are nearly right: what the Linux kernel sent (tests/captures), sent to a victim with some of it changed, and random
bytes. The poller that sees one has to look at it: most have a right ICRC all the same."""

import socket
import struct
import zlib
from pathlib import Path

import wire

CAPTURES = Path(__file__).resolve().parents[1] / "captures"
# Ethernet, IPv4 or IPv6, UDP, and what is behind.
BTH_AT = {0x0800: 14 + 20 + 8, 0x86DD: 14 + 40 + 8}
ETHERNET_BYTES_MAX = 4200 + 14
EDGES = (0, 1, 2, 3, 4, 0x7F, 0x80, 0xFE, 0xFF)


def captured():
    """The RoCEv2 frames of all captures."""
    found = []
    for file in sorted(CAPTURES.glob("*.pcap")):
        data = file.read_bytes()
        order = "<" if data[:4] in (b"\xd4\xc3\xb2\xa1", b"\x4d\x3c\xb2\xa1") else ">"
        at = 24
        while at + 16 <= len(data):
            length, = struct.unpack_from(order + "I", data, at + 8)
            frame = data[at + 16:at + 16 + length]
            at += 16 + length
            kind = int.from_bytes(frame[12:14], "big")
            if kind in BTH_AT and len(frame) >= BTH_AT[kind] + 16:
                found.append(frame)
    return found


def masked(packet, version):
    """The fields that the ICRC does not cover set to ones; `packet` is a bytearray from the IP header on, perhaps a short one."""
    fields = (1, 8, 10, 11, 26, 27, 32) if version == 4 else (1, 2, 3, 7, 46, 47, 52)
    for at in fields:
        packet[at:at + 1] = b"\xff" * len(packet[at:at + 1])
    if version == 6:
        packet[0] |= 0x0F
    return packet


def complete(frame, version):
    """The frame, with lengths, checksum and ICRC that are right for what is in it. It has no ICRC yet."""
    frame = bytearray(frame)
    length = len(frame) - 14 + 4
    if version == 4:
        frame[16:18] = length.to_bytes(2, "big")
        frame[24:26] = b"\0\0"
        frame[24:26] = wire.checksum(bytes(frame[14:34])).to_bytes(2, "big")
        frame[38:40] = (length - 20).to_bytes(2, "big")
    else:
        frame[18:20] = (length - 40).to_bytes(2, "big")
        frame[58:60] = (length - 40).to_bytes(2, "big")
    frame += struct.pack("<I", zlib.crc32(b"\xff" * 8 + masked(bytearray(frame[14:]), version)))
    return frame


class Mutations:
    """An endless row of frames, the same for the same seed. `ends`: (MAC, IPv4 address, IPv6 address) of the sender and of the victim;
    `queue_pairs`: of the victim, to which most of them are addressed."""

    def __init__(self, random, ends, queue_pairs):
        self.random = random
        (self.own_mac, *self.own), (self.victim_mac, *self.victim) = ends
        self.queue_pairs = queue_pairs
        self.frames = captured()
        self.psn = 0

    def next(self):
        random = self.random
        if random.random() < 0.05:
            return self.victim_mac + self.own_mac + random.randbytes(random.randrange(4, 1500))
        frame = bytearray(random.choice(self.frames))
        version = 4 if frame[12:14] == b"\x08\x00" else 6
        self._address(frame, version)
        begin = BTH_AT[int.from_bytes(frame[12:14], "big")]
        frame = frame[:-4]
        for _ in range(random.choice((0, 1, 1, 1, 2, 4))):
            self._change(frame, begin)
        frame = complete(frame, version)
        # Of the rest nothing is right but by chance.
        for _ in range(random.choice((0,) * 9 + (1, 3))):
            frame[random.randrange(len(frame))] = random.choice(EDGES)
        if random.random() < 0.02:
            del frame[random.randrange(18, len(frame)):]
        return bytes(frame[:ETHERNET_BYTES_MAX])

    def _address(self, frame, version):
        frame[0:12] = self.victim_mac + self.own_mac
        if version == 4:
            frame[26:34] = socket.inet_aton(self.own[0]) + socket.inet_aton(self.victim[0])
        else:
            frame[22:54] = socket.inet_pton(socket.AF_INET6, self.own[1]) + socket.inet_pton(socket.AF_INET6, self.victim[1])
        begin = BTH_AT[int.from_bytes(frame[12:14], "big")]
        # Management datagrams stay with queue pair 1.
        if self.queue_pairs and frame[begin + 5:begin + 8] != b"\0\0\1":
            qp, psn = self.random.choice(self.queue_pairs)
            frame[begin + 5:begin + 8] = qp.to_bytes(3, "big")
            if self.random.random() < 0.8:
                psn = psn + self.random.choice((0, 0, 0, 1, 2, self.psn, -1)) & wire.PSN_MASK
                frame[begin + 9:begin + 12] = psn.to_bytes(3, "big")
                self.psn += 1

    def _change(self, frame, begin):
        random = self.random
        kind = random.randrange(6)
        if len(frame) <= begin:
            frame += bytes(12)
        at = random.randrange(begin, min(len(frame), begin + 60))
        if kind == 0:
            frame[at] = random.choice(EDGES)
        elif kind == 1:
            frame[at] ^= 1 << random.randrange(8)
        elif kind == 2:
            frame[at:at + 4] = random.choice((b"\0\0\0\0", b"\xff\xff\xff\xff", b"\x80\0\0\0", b"\x7f\xff\xff\xff"))[:len(frame) - at]
        elif kind == 3:
            frame[begin] = random.randrange(256)
        elif kind == 4:
            del frame[random.randrange(begin, len(frame)):]
        else:
            frame += random.randbytes(random.randrange(1, 200))


def pack(frames):
    """As make_corpus writes streams: each frame behind two bytes of length."""
    return b"".join(len(frame).to_bytes(2, "big") + frame for frame in frames)
