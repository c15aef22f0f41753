#!/usr/bin/env python3
"""Whatever a program was told of is acknowledged to its peer, however the program leaves right after.

    tests/programs/last_ack_test.py LIBRARY_FOLDER SANITIZER_RUNTIME LAST_ACK LINK [ROUNDS]

LINK is memif or veth. Each round is a process that receives and leaves; its sender is the same all the time.
"""

import os
import subprocess
import sys
import unittest

import namespaces
import port_kinds
import programs
from veth import VethPair

LAST_ACK, LINK = os.path.abspath(sys.argv[3]), sys.argv[4]
ROUNDS = int(sys.argv[5]) if len(sys.argv) > 5 else 5
# So few answers in a row that another message need not be answered at once.
FEW_ANSWERS = 20
SUCCESS = "success"


class WithInput:
    """The stack, whose programs can be told something."""

    def __init__(self, stack):
        self.stack = stack

    def start(self, command, configuration):
        return subprocess.Popen(command, env=self.stack.environment(configuration), stdin=subprocess.PIPE,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


class LastAck(unittest.TestCase):
    def setUp(self):
        if LINK == "veth":
            if reason := port_kinds.why_not("af-packet"):
                print(f"SKIPPED veth: {reason}", file=sys.stderr, flush=True)
                self.skipTest(reason)
            net = namespaces.Namespaces()
            net.__enter__()
            self.addCleanup(net.__exit__)
            self.pair = VethPair(self.stack, net)
        else:
            self.pair = programs.Pair(self.stack)
        self.pair.stack = WithInput(self.stack)
        self.addCleanup(self.pair.__exit__)
        self.sender = self.start("server", "sender")
        self.assertEqual(programs.next_line(self.sender), "open")

    def start(self, role, *arguments):
        return self.pair.start(role, [LAST_ACK, *arguments])

    @staticmethod
    def tell(process, words):
        process.stdin.write(words + "\n")
        process.stdin.flush()

    def one_round(self, leaving, hearing, answered, unanswered):
        """What the sender says of its last message."""
        receiver = self.start("client", "receiver", leaving, hearing)
        messages = f"{answered} {unanswered}"
        self.tell(self.sender, f"{messages} {programs.next_line(receiver)}")
        self.tell(receiver, f"{messages} {programs.next_line(self.sender)}")
        self.assertEqual(programs.next_line(receiver), "ready")
        self.tell(self.sender, "go")
        status = programs.next_line(self.sender)
        if leaving == "sleep":
            self.assertIsNone(receiver.poll())
            receiver.kill()
        receiver.communicate(timeout=programs.TIME_LIMIT_SECONDS)
        return status

    def repeat(self, leaving="exit", hearing="poll", answered=0, unanswered=1):
        statuses = [self.one_round(leaving, hearing, answered, unanswered) for _ in range(ROUNDS)]
        self.assertEqual(statuses, [SUCCESS] * ROUNDS)

    def test_of_a_program_that_exits(self):
        self.repeat("exit")

    def test_of_a_program_that_becomes_another(self):
        self.repeat("exec")

    def test_of_a_program_that_aborts(self):
        self.repeat("abort")

    def test_of_a_program_that_is_killed(self):
        self.repeat("kill")

    def test_of_a_program_that_sleeps(self):
        self.repeat("sleep")

    def test_heard_of_by_an_event(self):
        self.repeat(hearing="event")

    def test_heard_of_by_the_extended_interface(self):
        self.repeat(hearing="start_poll")

    def test_of_several_messages(self):
        self.repeat(unanswered=3)
        self.repeat(hearing="start_poll", unanswered=3)

    def test_after_a_few_that_were_answered(self):
        self.repeat(answered=FEW_ANSWERS)


if __name__ == "__main__":
    needed = ["ip"] if LINK == "veth" else []
    sys.argv = sys.argv[:3]
    programs.main(*needed)
