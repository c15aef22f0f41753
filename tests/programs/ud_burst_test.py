#!/usr/bin/env python3
"""Datagrams between programs of one host wait for a receiver that takes them, and for one that does not up to a bound.

    tests/programs/ud_burst_test.py LIBRARY_FOLDER SANITIZER_RUNTIME UD_BURST UROCE
"""

import os
import signal
import subprocess
import sys
import unittest

import host_service
import programs

UD_BURST, UROCE = (os.path.abspath(path) for path in sys.argv[3:5])
COUNT = 4000
ROUNDS = 3


class Bursts(unittest.TestCase):
    def setUp(self):
        self.service = self.enterContext(host_service.Service(self.stack))

    def start(self, *arguments):
        process = self.stack.start([UD_BURST, *map(str, arguments)], "", self.service.environment, stdin=subprocess.PIPE)
        self.addCleanup(programs.end, process)
        return process

    def receiver(self, count):
        """(process, where it is)"""
        process = self.start("receiver", count)
        return process, programs.next_line(process).split()

    def send(self, sender, count):
        sender.stdin.write(f"{count}\n")
        sender.stdin.flush()
        self.assertEqual(programs.next_line(sender), "sent")

    def received(self, receiver):
        receiver.stdin.write("all is sent\n")
        receiver.stdin.flush()
        said = programs.next_line(receiver)
        self.assertEqual(receiver.wait(programs.TIME_LIMIT_SECONDS), 0)
        return said

    def test_none_is_lost(self):
        for _ in range(ROUNDS):
            receiver, where = self.receiver(COUNT)
            sender = self.start("sender", *where)
            self.send(sender, COUNT)
            self.assertEqual(self.received(receiver), f"received {COUNT} of {COUNT}, wrong 0")

    def test_a_stopped_receiver_holds_up_no_other(self):
        stopped, nowhere = self.receiver(COUNT)
        receiver, where = self.receiver(COUNT)
        sender = self.start("sender", *nowhere, *where)
        self.send(sender, 1)  # they have met
        programs.stop(stopped)
        self.addCleanup(stopped.send_signal, signal.SIGCONT)
        self.send(sender, COUNT - 1)
        self.assertEqual(self.received(receiver), f"received {COUNT} of {COUNT}, wrong 0")
        self.assertIsNone(sender.poll())
        self.tools_show_what_is_lost(sender)

    def tools_show_what_is_lost(self, sender):
        def tool(*words):
            done = subprocess.run([UROCE, *words], capture_output=True, text=True, timeout=programs.TIME_LIMIT_SECONDS, check=True)
            return done.stdout
        self.assertRegex(tool("stat", "--pid", str(sender.pid)), r"\n    port_dropped +[1-9]\d* ")
        [row] = [line.split() for line in tool("status", "--socket", str(self.service.socket)).splitlines() if line.split()[:1] == [str(sender.pid)]]
        self.assertGreater(int(row[-1]), 0)


if __name__ == "__main__":
    programs.main("setpriv")
