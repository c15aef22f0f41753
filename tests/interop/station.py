"""What the other hosts of the link see of this one: which station speaks, and whether what it says is whole."""

import socket
import threading
import zlib

ETH_P_ALL = 0x0003
ETH_P_IP, ETH_P_ARP, ETH_P_IPV6 = b"\x08\x00", b"\x08\x06", b"\x86\xdd"
SO_RCVBUFFORCE = 33
BUFFER_BYTES = 64 << 20
PACKET_OUTGOING = 4
ROCE_PORT = 4791
COMPLAINTS_MAX = 10
# Of a host that asks whether anything else has its address (RFC 5227, RFC 4862).
UNSPECIFIED4, UNSPECIFIED6 = bytes(4), bytes(16)


class Station:
    """Looks at each frame that this host sends on the interface while the block runs: it comes from the MAC, from one of the
    addresses, and has a right ICRC where it is RoCE's. The kernel shows packet sockets what others of them send only where
    they do not bypass its queues (qdisc_bypass=0)."""

    def __init__(self, interface, mac, addresses):
        self.mac = bytes.fromhex(mac.replace(":", ""))
        self.addresses4 = {socket.inet_aton(addresses["v4"]), UNSPECIFIED4}
        local = b"\xfe\x80" + bytes(6) + bytes([self.mac[0] ^ 2]) + self.mac[1:3] + b"\xff\xfe" + self.mac[3:]
        self.addresses6 = {socket.inet_pton(socket.AF_INET6, addresses["v6"]), local, UNSPECIFIED6}
        self.interface = interface
        self.packets = 0
        self.complaints = []

    def __enter__(self):
        # Of no protocol until it is bound: before that it would take frames of every interface.
        self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        self.socket.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, BUFFER_BYTES)
        self.socket.bind((self.interface, ETH_P_ALL))
        self.socket.settimeout(0.2)
        self.over = False
        self.thread = threading.Thread(target=self._look)
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over = True
        self.thread.join()
        self.socket.close()

    def _look(self):
        while True:
            try:
                frame, where = self.socket.recvfrom(1 << 16)
            except TimeoutError:
                if self.over:
                    return
                continue
            if where[2] == PACKET_OUTGOING:
                problem = self._problem_of(frame)
                if problem and len(self.complaints) < COMPLAINTS_MAX:
                    self.complaints.append(f"{problem}: {frame[:80].hex()}")

    def _problem_of(self, frame):
        if frame[6:12] != self.mac:
            return "another MAC"
        kind = frame[12:14]
        if kind == ETH_P_ARP:
            return "" if frame[22:28] == self.mac and frame[28:32] in self.addresses4 else "ARP for another station"
        if kind == ETH_P_IP:
            header, source, known = 20, frame[26:30], self.addresses4
        elif kind == ETH_P_IPV6:
            header, source, known = 40, frame[22:38], self.addresses6
        else:
            return "neither IP nor ARP"
        if source not in known:
            return "another address"
        is_udp = frame[23 if header == 20 else 20] == socket.IPPROTO_UDP
        if not is_udp or int.from_bytes(frame[16 + header:18 + header], "big") != ROCE_PORT:
            return ""
        self.packets += 1
        length = header + int.from_bytes(frame[18 + header:20 + header], "big")
        return "" if is_whole(frame[14:14 + length], header) else "a wrong ICRC"


def is_whole(packet, header):
    """Whether the ICRC of a RoCEv2 packet is right (IBTA annex A17): CRC-32 behind eight bytes of ones, with the fields that may
    change on the way set to ones."""
    masked = bytearray(packet[:-4])
    if header == 20:
        masked[1] = masked[8] = 0xFF
        masked[10:12] = b"\xff\xff"
    else:
        masked[0] |= 0x0F
        masked[1:4] = b"\xff\xff\xff"
        masked[7] = 0xFF
    masked[header + 6:header + 8] = b"\xff\xff"
    masked[header + 8 + 4] = 0xFF
    return zlib.crc32(b"\xff" * 8 + masked).to_bytes(4, "little") == packet[-4:]
