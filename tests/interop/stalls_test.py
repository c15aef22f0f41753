#!/usr/bin/env python3
"""Whose a stall is, by frames that are made here: tests/interop/stalls.py."""

import struct
import unittest
import zlib

import outcomes
import stalls
from frames import Frame

OURS, PEERS = stalls.OURS, stalls.PEERS
MTU = 1024
UROCE_QP, PEER_QP = 0x111, 0x222
SEND, WRITE_MIDDLE, READ, ACK = 0x04, 0x07, 0x0C, 0x11
SEQUENCE_NAK = 0x60


def frame(time, outgoing, opcode, psn, asks=False, syndrome=0, length=0):
    """A RoCE packet over IPv4 with a right ICRC."""
    queue_pair = PEER_QP if outgoing else UROCE_QP
    bth = struct.pack(">BBHII", opcode, 0, 0xFFFF, queue_pair, psn | (0x80000000 if asks else 0))
    more = struct.pack(">QII", 0, 0, length) if opcode == READ else bytes([syndrome]) + bytes(3)
    udp_length = 8 + len(bth) + len(more) + 4
    packet = struct.pack(">BBHIBBHII", 0x45, 0, 20 + udp_length, 0, 64, 17, 0, 1, 2) + struct.pack(">HHHH", 50000, 4791, udp_length, 0)
    packet += bth + more
    masked = bytearray(packet)
    masked[1] = masked[8] = masked[32] = 0xFF
    masked[10:12] = masked[26:28] = b"\xff\xff"
    return Frame(time, outgoing, bytes(12) + b"\x08\x00" + packet + zlib.crc32(b"\xff" * 8 + masked).to_bytes(4, "little"))


def ours(time, opcode, psn, **more):
    return frame(time, True, opcode, psn, **more)


def peers(time, opcode, psn, **more):
    return frame(time, False, opcode, psn, **more)


# What was on the link until the run was given up at 10, whose stall that is, and a word of why.
CASES = {
    "nothing": ([], OURS, "no packet"),
    "a request of the peer's that is not answered": ([peers(0, SEND, 5, asks=True)], OURS, "0x5"),
    "a READ of the peer's that is answered in part": ([peers(0, READ, 5, length=3000), ours(1, 0x0D, 5), ours(1, 0x0E, 6)], OURS, "0x5"),
    "a repeated request of the peer's that was answered before":
        ([peers(0, SEND, 5, asks=True), ours(1, ACK, 5), peers(2, SEND, 5, asks=True)], OURS, "0x5"),
    "all that the peer asked is answered": ([peers(0, SEND, 5, asks=True), ours(1, ACK, 5)], PEERS, "the peer's turn"),
    "the peer's gap": ([peers(0, SEND, 5, asks=True), ours(1, ACK, 5), peers(2, SEND, 7, asks=True)], PEERS, "0x6"),
    "the peer ignores a NAK": ([peers(0, SEND, 5, asks=True), ours(1, ACK, 5), peers(2, SEND, 7, asks=True),
                                ours(3, ACK, 6, syndrome=SEQUENCE_NAK)], PEERS, "0x6"),
    "the peer goes on behind a NAK": ([peers(0, SEND, 5, asks=True), ours(1, ACK, 5), peers(2, SEND, 7, asks=True), ours(3, ACK, 6, syndrome=SEQUENCE_NAK),
                                       peers(4, SEND, 8, asks=True)], PEERS, "0x6, which a NAK names"),
    "the peer has gone back to what a NAK names": ([peers(0, SEND, 5, asks=True), ours(1, ACK, 5), peers(2, SEND, 7, asks=True),
                                                    ours(3, ACK, 6, syndrome=SEQUENCE_NAK), peers(4, SEND, 6, asks=True), peers(5, SEND, 7, asks=True)],
                                                   OURS, "0x7"),
    "a damaged request of the peer's": ([peers(0, SEND, 5, asks=True), ours(1, ACK, 5), "damaged"], PEERS, "the peer's turn"),
    "the peer repeats and is not answered": ([peers(t, SEND, 5, asks=True) for t in range(11)], OURS, "does not answer"),
    "the peer repeats and is answered": ([f for t in range(11) for f in (peers(t, SEND, 5, asks=True), ours(t, ACK, 5))], OURS, "neither gets on"),
    "the peer resumes a READ behind each gap": ([f for t in range(11) for f in (peers(t, READ, 5 + t, length=64 * MTU - t * MTU), ours(t, 0x0D, 5 + t))],
                                               PEERS, "resumes a READ"),
    "the peer repeats a READ from where it was": ([f for t in range(11) for f in (peers(t, READ, 5, length=64 * MTU), ours(t, 0x0D, 5))],
                                                  OURS, "neither gets on"),
    "ours is not answered, and not repeated": ([ours(0, SEND, 5, asks=True)], OURS, "does not repeat"),
    "ours is repeated, and never answered": ([ours(t, SEND, 5, asks=True) for t in range(11)], PEERS, "does not answer"),
    "a NAK that we ignore": ([ours(0, SEND, 5, asks=True), peers(1, ACK, 5, syndrome=SEQUENCE_NAK)], OURS, "does not repeat"),
    "we end in the middle": ([ours(0, WRITE_MIDDLE, 5)], OURS, "asks for"),
    "PSNs that begin anew": ([peers(0, SEND, 0xFFFFFF, asks=True), peers(0, SEND, 0, asks=True), ours(1, ACK, 0)], PEERS, "the peer's turn"),
    "turns, and it is ours": ([ours(0, SEND, 5, asks=True), peers(1, ACK, 5), peers(2, SEND, 9, asks=True), ours(3, ACK, 9)], OURS, "turn"),
    "turns, and it is the peer's": ([peers(0, SEND, 9, asks=True), ours(1, ACK, 9), ours(2, SEND, 5, asks=True), peers(3, ACK, 5)], PEERS, "turn"),
}
SAID = ["client on guest: status 0\nseed 1\nhalt at 10.5, queue pair 17, peer's 99, round 9: nothing came for 4 s\n"
        "requester: 3 requests posted, 0 complete, the next is request 1\nresponder: all 0 receives are complete\nright: 8 requests, 1 halts\n",
        "server on uroce: status 0\nseed 1\nhalt at 10.75, queue pair 99, peer's 17, round 9: the peer says: nothing\n"
        "requester: all 0 requests are complete\nresponder: all 1 receives are complete\nright: 8 requests, 1 halts\n"]


class Stalls(unittest.TestCase):
    def test_whose_it_is(self):
        for name, (seen, expected, word) in CASES.items():
            with self.subTest(name):
                whole = [peers(2, SEND, 6, asks=True) if one == "damaged" else one for one in seen]
                if "damaged" in seen:
                    whole[-1] = whole[-1]._replace(data=whole[-1].data[:-1] + b"\0")
                verdict, why = stalls.whose(whole, 0, 10, MTU)
                self.assertEqual(verdict, expected, why)
                self.assertIn(word, why)

    def test_a_capture_with_holes_proves_nothing(self):
        self.assertEqual(stalls.whose([peers(0, SEND, 5, asks=True), ours(1, ACK, 5)], 3, 10, MTU)[0], OURS)

    def test_who_waits_decides_when_nothing_is_owed(self):
        seen = [peers(0, SEND, 5, asks=True), ours(1, ACK, 5)]
        for uroce, expected in ((True, OURS), (False, PEERS)):
            self.assertEqual(stalls.whose(seen, 0, 10, MTU, (UROCE_QP, PEER_QP), {True: uroce, False: True})[0], expected)

    def test_halts_that_the_ends_tell_of(self):
        [halt] = outcomes.halts(SAID)
        self.assertEqual((halt.time, halt.queue_pairs, halt.waits), (10.75, (99, 17), {True: False, False: True}))

    def test_what_may_be_repeated(self):
        for problem, expected in (("client hangs; it said:\n", True), ("Completion with error: transport retry counter exceeded", True),
                                  ("WRONG: round 3: READ, byte 0", False), ("STALL: nothing came\nTHE OTHER END HAS GIVEN UP: WRONG, round 3", False),
                                  ("slot 3 byte 9 is not what was sent; then it hangs", False), ("the client ended with status 1", False)):
            self.assertEqual(outcomes.is_stall(problem), expected, problem)


if __name__ == "__main__":
    unittest.main()
