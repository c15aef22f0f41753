#!/usr/bin/env python3
"""Packets of strangers to queue pairs that are connected and were not used yet, at one end of a wire inside the process: none of
them has a queue pair take the memory of its transport, and its peer is served afterwards.

    tests/hostile/unused_test.py LIBRARY_FOLDER SANITIZER_RUNTIME UROCE HOST LISTENER FRAME_VICTIM [SCENARIO ...]
"""

import collections
import re
import struct
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

import mutation
import scenario
import wire
from attacker import MAC
from network import ADDRESSES
from scenario import times

QUEUE_PAIRS = 3000
TRANSPORT_BYTES = 1024
RECEIVE_BYTES = 1000
# More than a wire has buffers: what it takes for itself as it is used it has then.
FRAMES_OF_WIRE = 20_000
FIRST_PSN, QKEY = 1000, 0x11111111
VICTIM = (bytes.fromhex("020000000001"), ADDRESSES["victim"])
PEER = (MAC, ADDRESSES["attacker"])
STRANGER = (MAC, "192.0.2.67")
RC, UC, UD, XRC, CNP = 0x00, 0x20, 0x60, 0xA0, 0x81
KINDS = (RC, UC, UD)  # of the victim's queue pairs, in turn


def send_only(service, qp, qkey=QKEY, payload=bytes(16), **fields):
    extension = {UD: struct.pack("!II", qkey, 0x66), XRC: bytes(4)}.get(service, b"")
    return wire.base_header(service | wire.SEND_ONLY, qp, FIRST_PSN, ack_request=True, **fields) + extension + payload


def unwelcome(kind, qp):
    """(counter that says why it is dropped, sender, transport) of packets that are right but for one thing."""
    cnp = wire.base_header(CNP, qp, 0) + bytes(16)
    yield from (("drop_service", PEER, send_only(other, qp)) for other in (RC, UC, UD, XRC) if other != kind)
    yield "drop_partition_key", PEER, send_only(kind, qp, partition_key=0x8001)
    if kind == UD:
        yield "drop_qkey", STRANGER, send_only(UD, qp, qkey=QKEY + 1)
        yield "drop_too_long", STRANGER, send_only(UD, qp, payload=bytes(RECEIVE_BYTES - 40 + 4))
        yield "drop_service", STRANGER, cnp
    else:
        yield "drop_wrong_peer", STRANGER, send_only(kind, qp)
        yield "drop_wrong_peer", STRANGER, cnp
    if kind == RC:
        yield "drop_wrong_peer", STRANGER, wire.acknowledge(qp, FIRST_PSN - 1, wire.ACK_NO_CREDITS, 0)


class Unused(unittest.TestCase):
    def start(self, port, far_port):
        self.said = tempfile.TemporaryFile("w+b")
        self.addCleanup(self.said.close)
        self.victim = subprocess.Popen([sys.argv[6], port, far_port, str(QUEUE_PAIRS)], env=self.stack.environment(),
                                       stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.said)
        self.addCleanup(self.victim.stdout.close)
        self.addCleanup(self.victim.wait)
        self.addCleanup(self.victim.kill)
        self.numbers = [int(number) for number in re.findall(rb"\d+", self.answer())]
        self.assertEqual(len(self.numbers), QUEUE_PAIRS)

    def answer(self):
        line = self.victim.stdout.readline()
        if not line:
            self.victim.wait(scenario.programs.TIME_LIMIT_SECONDS)
            self.said.seek(0)
            self.fail(f"the victim ended with {self.victim.returncode}; it said:\n{self.said.read().decode(errors='replace')}")
        return line

    def send(self, packets):
        """`packets`: senders and transports."""
        try:
            for sender, transport in packets:
                self.victim.stdin.write(mutation.pack([wire.frame(sender, VICTIM, transport)]))
        except BrokenPipeError:
            self.answer()

    def state(self):
        """Name -> number, when all that was sent is received; and resident bytes of no file."""
        self.victim.stdin.write(mutation.pack([b""]))
        self.victim.stdin.flush()
        state = {name: int(number) for name, number in re.findall(r"(\w+) (\d+)", self.answer().decode())}
        resident = re.search(r"RssAnon:\s+(\d+) kB", Path(f"/proc/{self.victim.pid}/status").read_text())[1]
        return state, int(resident) << 10

    def run_strangers(self, port, far_port):
        self.start(port, far_port)
        absent = max(self.numbers) + 1
        self.send((STRANGER, send_only(RC, absent, payload=bytes(RECEIVE_BYTES))) for _ in range(FRAMES_OF_WIRE))
        before, memory = self.state()
        self.assertEqual(before["drop_unknown_qp"], FRAMES_OF_WIRE)

        expected = collections.Counter()
        for _ in range(times(1, 20)):
            for kind, qp in zip(KINDS * QUEUE_PAIRS, self.numbers):
                packets = list(unwelcome(kind, qp))
                expected.update(reason for reason, *_ in packets)
                self.send(packet for _, *packet in packets)
        after, grown = self.state()
        print(f"{expected.total()} packets; the victim grew by {grown - memory >> 10} KiB", file=sys.stderr, flush=True)
        self.assertEqual({reason: after[reason] - before[reason] for reason in expected}, expected)
        self.assertEqual([after[name] for name in ("used", "received", "answers")], [0, 0, 0])
        # A sanitizer has memory of its own, which grows by a mebibyte or two meanwhile.
        if not self.stack.sanitizer_runtime:
            self.assertLess(grown - memory, QUEUE_PAIRS * TRANSPORT_BYTES // 2)

        self.send((PEER, send_only(kind, qp)) for kind, qp in zip(KINDS * QUEUE_PAIRS, self.numbers))
        acknowledged = QUEUE_PAIRS // len(KINDS)
        served, _ = self.state()
        deadline = time.monotonic() + scenario.SERVED_SECONDS
        while served["answers"] < acknowledged and time.monotonic() < deadline:
            served, _ = self.state()
        self.assertEqual([served[name] for name in ("used", "received", "answers")], [QUEUE_PAIRS, QUEUE_PAIRS, acknowledged])
        self.victim.stdin.close()
        self.assertEqual(self.victim.wait(scenario.programs.TIME_LIMIT_SECONDS), 0)

    def test_over_loopback(self):
        self.run_strangers("loopback0", "loopback1")

    def test_over_a_ring(self):
        self.run_strangers("net_ring0", "net_ring1")

    def test_over_memif(self):
        with tempfile.TemporaryDirectory(prefix="uroce-hostile-") as folder:
            end = f"id=0,socket={folder}/link,socket-abstract=no,bsize=8192"
            self.run_strangers(f"net_memif0,role=server,{end}", f"net_memif1,role=client,{end}")


if __name__ == "__main__":
    scenario.main(in_namespaces=False)
