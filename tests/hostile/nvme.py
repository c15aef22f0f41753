"""Capsules of a host of NVMe over Fabrics, from the specification: what an attacker says to a target."""

import struct

KEYED, IN_CAPSULE = 0x40, 0x01
FABRICS, GET_LOG_PAGE, KEEP_ALIVE, READ = 0x7F, 0x02, 0x18, 0x02
DISCOVERY = "nqn.2014-08.org.nvmexpress.discovery"


def private_data(queue=0, depth=32):
    return struct.pack("<HHHHH", 0, queue, depth, depth - 1, 0xFFFF).ljust(32, b"\0")


def keyed(address, length, key):
    return struct.pack("<Q", address) + length.to_bytes(3, "little") + struct.pack("<IB", key, KEYED)


def in_capsule(length):
    return struct.pack("<QI3xB", 0, length, IN_CAPSULE)


def command(opcode, cid, nsid=0, sgl=bytes(16), dwords=(0, 0, 0, 0, 0, 0)):
    return struct.pack("<BBHI16x", opcode, 0x40, cid, nsid) + sgl + struct.pack("<6I", *dwords)


def connect(cid, subsystem, host, queue=0, depth=32):
    data = bytes(range(16)) + struct.pack("<H", 0xFFFF)
    data = data.ljust(256, b"\0") + subsystem.encode().ljust(256, b"\0") + host.encode().ljust(256, b"\0")
    data = data.ljust(1024, b"\0")
    return command(FABRICS, cid, 0x01, in_capsule(len(data)), (queue << 16, depth - 1, 0, 0, 0, 0)) + data


def enable(cid):
    """Sets CC to: I/O queue entries of 64 and 16 bytes, enabled."""
    return command(FABRICS, cid, 0x00, dwords=(0, 0x14, 6 << 16 | 4 << 20 | 1, 0, 0, 0))


def discovery_log(cid, length, address, key):
    dwords = length // 4 - 1
    return command(GET_LOG_PAGE, cid, 0xFFFFFFFF, keyed(address, length, key), (0x70 | (dwords & 0xFFFF) << 16, dwords >> 16, 0, 0, 0, 0))


def keep_alive(cid):
    return command(KEEP_ALIVE, cid)
