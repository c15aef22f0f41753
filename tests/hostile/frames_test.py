#!/usr/bin/env python3
"""Frames that are nearly right, to a victim that has connections open: none of them ends it, or costs another host its service.

    tests/hostile/frames_test.py LIBRARY_FOLDER SANITIZER_RUNTIME UROCE HOST LISTENER FRAME_VICTIM [SCENARIO ...]
"""

import os
import random
import re
import subprocess
import sys
import tempfile
import unittest

import attacks
import mutation
import scenario
from attacker import MAC
from attacks import FRAMES_OF_A_ROUND
from network import ADDRESSES
from scenario import times

REACHED = ("drop_icrc", "drop_opcode", "drop_pad", "drop_transport_version", "drop_unknown_qp", "drop_partition_key", "drop_qp_state",
           "drop_sequence", "drop_bad_ack", "duplicate_request", "requests_executed", "nak_invalid_request_sent")


def seed():
    chosen = int(os.environ.get("UROCE_HOSTILE_SEED", "0")) or random.randrange(1, 1 << 32)
    print(f"UROCE_HOSTILE_SEED={chosen}", file=sys.stderr, flush=True)
    return random.Random(chosen)


def unreached(said):
    """What was never reached was not tested."""
    counters = dict(re.findall(r"(\w+) (\d+)", said.rpartition("counters ")[2]))
    print(counters, file=sys.stderr, flush=True)
    return [name for name in REACHED if int(counters.get(name, 0)) == 0]


class Frames(scenario.Scenario):
    """To a target, over a link of the kernel."""

    def test_mutated_frames(self):
        chosen = seed()
        self.suffer(lambda attacker: attacks.mutated_frames(attacker, chosen), times(20_000, 1_000_000) // FRAMES_OF_A_ROUND)
        self.assertEqual(unreached(self.victim.said()), [])


class InProcess(unittest.TestCase):
    """To a device at one end of a wire inside the process; at the other end is the attacker."""

    FIRST_PSN = 1000

    def run_frames(self, port, far_port):
        ends = ((MAC, ADDRESSES["attacker"], "2001:db8::66"), (bytes.fromhex("020000000001"), ADDRESSES["victim"], "2001:db8::1"))
        mutations = mutation.Mutations(seed(), ends, [])
        with tempfile.TemporaryFile("w+b") as said:
            victim = subprocess.Popen([sys.argv[6], port, far_port], env=self.stack.environment(), stdin=subprocess.PIPE,
                                      stdout=subprocess.PIPE, stderr=said)
            self.addCleanup(victim.kill)
            numbers = [int(number) for number in re.findall(rb"\d+", victim.stdout.readline())]
            mutations.queue_pairs = [(number, self.FIRST_PSN) for number in numbers[-1:] * 6 + numbers]
            for number in range(times(20_000, 1_000_000)):
                if number % 250 == 0:
                    mutations.psn = 0
                try:
                    victim.stdin.write(mutation.pack([mutations.next()]))
                except BrokenPipeError:
                    break
            out, _ = victim.communicate(timeout=scenario.programs.TIME_LIMIT_SECONDS)
            said.seek(0)
            self.assertEqual(victim.returncode, 0, said.read().decode(errors="replace"))
        self.assertEqual(unreached(out.decode()), [])

    def test_over_loopback(self):
        self.run_frames("loopback0", "loopback1")

    def test_over_a_ring(self):
        self.run_frames("net_ring0", "net_ring1")

    def test_over_memif(self):
        with tempfile.TemporaryDirectory(prefix="uroce-hostile-") as folder:
            end = f"id=0,socket={folder}/link,socket-abstract=no,bsize=8192"
            self.run_frames(f"net_memif0,role=server,{end}", f"net_memif1,role=client,{end}")


if __name__ == "__main__":
    scenario.main(in_namespaces="InProcess" not in sys.argv)
