"""What the scenarios share: a victim, an attacker that has learned its address, and the question whether the victim still serves.

Decision: assertions are about service, not speed: a host is served within SERVED_SECONDS. Tests run on busy machines. Cost: an attack
that makes everything five times slower passes.

UROCE_HOSTILE=long makes each attack as long as the suite `soak` has it.
"""

import os
import sys
import time
import unittest

import network
import victims
from attacker import Attacker
from network import ADDRESSES
from victims import programs

LONG = os.environ.get("UROCE_HOSTILE") == "long"
# What a friend's run may take: a process, two connections, two transfers. It is a second or two on an idle machine; where
# what made these tests is not mended it is minutes, or for ever.
SERVED_SECONDS = 30
# More than any attack is allowed to make a victim hold.
GROWTH_MAX = 64 << 20


def times(short, long):
    return long if LONG else short


class Scenario(unittest.TestCase):
    """At the end of each scenario the victim must serve, must not have grown, and must stop as it was told to."""

    BESIDE_KERNEL = False  # the victim: on an interface whose address is the kernel's

    @classmethod
    def setUpClass(cls):
        cls.net = network.Network(kernels=("victim",) if cls.BESIDE_KERNEL else ())
        cls.net.__enter__()
        cls.addClassCleanup(cls.net.__exit__)

    def setUp(self):
        self.victim = self.start_victim()
        self.addCleanup(self.victim.end)
        sock = self.net.packet_socket("attacker")
        self.addCleanup(sock.close)
        self.attacker = Attacker(sock, ADDRESSES["victim"], [ADDRESSES["attacker"]])
        self.expect_served()
        self.memory = self.victim.memory()

    def start_victim(self):
        return victims.start_target(self.stack, self.net, sys.argv[3], self.BESIDE_KERNEL)

    def start_friend(self):
        """A program that ends well when it was served."""
        return victims.start_friend(self.stack, self.net, sys.argv[4])

    def say(self, what):
        print(f"{self._testMethodName}: {what}", file=sys.stderr, flush=True)

    def expect_life(self, where=""):
        if not self.victim.lives():
            self.fail(f"the victim is dead {where}; it said:\n{self.victim.said()}")

    def expect_served(self, meanwhile=lambda: None):
        """A friend is served, while `meanwhile` goes on again and again."""
        friend = self.start_friend()
        self.addCleanup(friend.end)
        began = time.monotonic()
        while friend.lives() and time.monotonic() < began + SERVED_SECONDS:
            meanwhile()
            self.attacker.pump(0.01)
        served = not friend.lives()
        status, said = friend.end()
        self.expect_life()
        self.assertTrue(served, f"a friend is not served within {SERVED_SECONDS} s; it said:\n{said}")
        self.assertEqual(status, 0, said)
        self.say(f"a friend was served in {time.monotonic() - began:.2f} s")

    def suffer(self, attack, steps=1):
        """So many steps of the attack at least; then friends are served while it goes on, and, the attacker being silent, still."""
        attack = attack(self.attacker)
        for step in range(steps):
            next(attack)
            self.expect_life(f"after {step} steps")
        for _ in range(times(1, 20)):
            self.expect_served(lambda: next(attack))
        for connection in self.attacker.connections.values():
            connection.policy = "silence"
        self.expect_untouched()

    def expect_no_growth(self):
        growth = self.victim.memory() - self.memory
        self.say(f"the victim grew by {growth >> 10} KiB")
        self.assertLess(growth, GROWTH_MAX + (self.stack.kept_kib() << 10))

    def expect_clean_end(self):
        status, said = self.victim.end()
        self.assertEqual(status, 0, said)
        self.assertNotIn("Sanitizer", said)

    def expect_untouched(self):
        self.expect_served()
        self.expect_no_growth()
        self.expect_clean_end()


def main(in_namespaces=True):
    """MODULE LIBRARY_FOLDER SANITIZER_RUNTIME UROCE HOST LISTENER FRAME_VICTIM [SCENARIO ...]"""
    if in_namespaces and (why := network.why_not()):
        print(f"SKIPPED, it takes root and network namespaces: {why}")
        sys.exit(programs.SKIPPED)
    unittest.TestCase.stack = programs.Stack(sys.argv[1], sys.argv[2])
    unittest.main(module="__main__", argv=[sys.argv[0], *sys.argv[7:]], verbosity=2)
