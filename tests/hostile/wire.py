"""RoCEv2 frames as an attacker builds and reads them, from the InfiniBand specification and nothing of this project.

Decision: the attacker is Python, with a view of the wire of its own. The stack's own builders would share its mistakes, and refuse
to write what an attacker writes. Cost: 20,000 frames a second at most, and a second place that knows the protocol.

Addresses are dotted text and MAC addresses bytes; a frame begins with its Ethernet header and has no FCS.
"""

import socket
import struct
import zlib
from collections import namedtuple

ROCE_PORT = 4791
GSI_QP, GSI_QKEY = 1, 0x80010000
UD_SEND_ONLY = 0x64
SEND_FIRST, SEND_MIDDLE, SEND_LAST, SEND_ONLY = 0x00, 0x01, 0x02, 0x04
WRITE_FIRST, WRITE_MIDDLE, WRITE_LAST, WRITE_ONLY = 0x06, 0x07, 0x08, 0x0A
READ_REQUEST, READ_RESPONSE_ONLY, ACKNOWLEDGE, SEND_ONLY_INVALIDATE = 0x0C, 0x10, 0x11, 0x17
BROADCAST = b"\xff" * 6

REQ, MRA, REJ, REP, RTU, DREQ, DREP = 0x10, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16
PSN_MASK = 0xFFFFFF

# `body`: behind the BTH, without the ICRC.
Received = namedtuple("Received", "source_mac source destination opcode destination_qp ack_request psn body")


def checksum(data):
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def icrc(packet):
    """Of an IPv4 packet from its header to the last byte before the ICRC: CRC-32 behind eight bytes of ones, with the fields
    that a router or a congestion point may change set to ones: ToS, TTL, both checksums, FECN, BECN and what is reserved beside
    them."""
    masked = bytearray(packet)
    masked[1] = masked[8] = masked[32] = 0xFF
    masked[10:12] = masked[26:28] = b"\xff\xff"
    return struct.pack("<I", zlib.crc32(b"\xff" * 8 + masked))


def base_header(opcode, destination_qp, psn, ack_request=False, pad=0, partition_key=0xFFFF):
    return struct.pack("!BBHII", opcode, 0x40 | pad << 4, partition_key, destination_qp, (0x80000000 if ack_request else 0) | psn & PSN_MASK)


def frame(source, destination, transport, source_port=49152):
    """`source` and `destination` are (MAC, address); `transport` is all from the BTH to the last pad byte."""
    length = 20 + 8 + len(transport) + 4
    header = struct.pack("!BBHHHBBH4s4s", 0x45, 0, length, 0, 0x4000, 64, socket.IPPROTO_UDP, 0,
                         socket.inet_aton(source[1]), socket.inet_aton(destination[1]))
    header = header[:10] + struct.pack("!H", checksum(header)) + header[12:]
    packet = header + struct.pack("!HHHH", source_port, ROCE_PORT, length - 20, 0) + transport
    return destination[0] + source[0] + b"\x08\x00" + packet + icrc(packet)


def request(opcode, destination_qp, psn, extension=b"", payload=b"", ack_request=True):
    pad = -len(payload) % 4
    return base_header(opcode, destination_qp, psn, ack_request, pad) + extension + payload + bytes(pad)


def acknowledge(destination_qp, psn, syndrome, msn):
    return base_header(ACKNOWLEDGE, destination_qp, psn) + struct.pack("!I", syndrome << 24 | msn & PSN_MASK)


ACK_NO_CREDITS = 0x1F


def rnr_nak(timer):
    return 0x20 | timer


def parse(data):
    """The RoCEv2 packet in a frame, or None."""
    if len(data) < 14 + 20 + 8 + 12 + 4 or data[12:15] != b"\x08\x00\x45" or data[23] != socket.IPPROTO_UDP:
        return None
    length, = struct.unpack_from("!H", data, 16)
    port, = struct.unpack_from("!H", data, 36)
    packet = data[14:14 + length]
    if port != ROCE_PORT or icrc(packet[:-4]) != packet[-4:]:
        return None
    opcode, _, _, qp, psn = struct.unpack_from("!BBHII", packet, 28)
    return Received(data[6:12], socket.inet_ntoa(packet[12:16]), socket.inet_ntoa(packet[16:20]), opcode, qp & PSN_MASK,
                    bool(psn >> 31), psn & PSN_MASK, packet[40:-4])


def arp(operation, sender, target):
    """`sender` and `target` are (MAC, address)."""
    ethernet = (BROADCAST if operation == 1 else target[0]) + sender[0] + b"\x08\x06"
    return ethernet + struct.pack("!HHBBH6s4s6s4s", 1, 0x0800, 6, 4, operation, sender[0], socket.inet_aton(sender[1]),
                                  target[0] if operation == 2 else bytes(6), socket.inet_aton(target[1]))


def asked_for(data):
    """(resolver, address) of an ARP request, or None."""
    if len(data) < 42 or data[12:14] != b"\x08\x06" or data[20:22] != b"\x00\x01":
        return None
    return (data[22:28], socket.inet_ntoa(data[28:32])), socket.inet_ntoa(data[38:42])


# The communication manager: datagrams of 256 bytes to queue pair 1.

def gid(address):
    return bytes(10) + b"\xff\xff" + socket.inet_aton(address)


def management(attribute, message, transaction):
    """The transport part of a frame to queue pair 1."""
    datagram = struct.pack("!BBBBHHQHHI", 1, 0x07, 2, 0x03, 0, 0, transaction, attribute, 0, 0) + message
    datagram = datagram.ljust(256, b"\0")
    return base_header(UD_SEND_ONLY, GSI_QP, 0) + struct.pack("!II", GSI_QKEY, GSI_QP) + datagram


def parse_management(received):
    """(attribute, transaction, message) of a packet to queue pair 1, or None."""
    if received.opcode != UD_SEND_ONLY or len(received.body) < 8 + 256:
        return None
    datagram = received.body[8:]
    transaction, attribute = struct.unpack_from("!QH", datagram, 8)
    return attribute, transaction, datagram[24:]


def ip_header_of_connection(source, destination, source_port):
    """The first 36 bytes of the private data of a REQ of rdma_cm."""
    return struct.pack("!BBH", 0, 0x40, source_port) + bytes(12) + socket.inet_aton(source) + bytes(12) + socket.inet_aton(destination)


def connection_request(source, destination, *, communication_id, qp, port, private=b"", psn=0, retry_count=7, rnr_retry=7,
                       ack_timeout=17, response_timeout=20, cm_retries=15, initiator_depth=4, responder_resources=4, path_mtu=5,
                       source_port=40000, guid=0x0200000000000066):
    """A REQ to port `port` of rdma_cm's TCP port space. `path_mtu` 5 is 4096 bytes."""
    message = struct.pack("!II", communication_id, 0)
    message += struct.pack("!QQII", 0x01060000 | port, guid, 0, 0)
    message += struct.pack("!I", qp << 8 | responder_resources)
    message += struct.pack("!I", initiator_depth)
    message += struct.pack("!I", response_timeout << 3 | 1)
    message += struct.pack("!I", (psn & PSN_MASK) << 8 | response_timeout << 3 | retry_count)
    message += struct.pack("!HBB", 0xFFFF, path_mtu << 4 | rnr_retry, cm_retries << 4)
    message += struct.pack("!HH", 0xFFFF, 0xFFFF) + gid(source) + gid(destination)
    message += struct.pack("!IBBBB", 3, 0, 64, 0x08, ack_timeout << 3)
    message = message.ljust(140, b"\0")
    return message + ip_header_of_connection(source, destination, source_port) + private


Reply = namedtuple("Reply", "communication_id peer_communication_id qp psn")


def parse_reply(message):
    own, peers, _, qp, _, psn = struct.unpack_from("!IIIIII", message)
    return Reply(own, peers, qp >> 8, psn >> 8)


def ready_to_use(own, peers):
    return struct.pack("!II", own, peers)


def reject(own, peers, rejected, reason):
    """`rejected`: 0 a REQ, 1 a REP."""
    return struct.pack("!IIBBH", own, peers, rejected << 6, 0, reason)


def disconnect_request(own, peers, peers_qp):
    return struct.pack("!III", own, peers, peers_qp << 8)
