#!/usr/bin/env python3
"""Programs of a service that end without a word, and programs that fork.

    tests/programs/ending_test.py LIBRARY_FOLDER SANITIZER_RUNTIME UROCE ENDED_PEERS FORKED_CHILD
"""

import os
import signal
import subprocess
import sys
import time
import unittest
from pathlib import Path

import host_service
import namespaces
import programs

UROCE, ENDED_PEERS, FORKED_CHILD = (str(Path(argument).resolve()) for argument in sys.argv[3:6])
PYTHON = "/usr/bin/python3"  # pyverbs is made for this one
PORT = "7471"
WITHIN_SECONDS = 5


class TestCase(unittest.TestCase):
    def setUp(self):
        self.service = self.enterContext(host_service.Service(self.stack))

    def start(self, *command):
        process = self.stack.start(["setpriv", "--pdeathsig", "KILL", *command], "", self.service.environment)
        self.addCleanup(programs.end, process)
        return process

    def programs(self):
        return self.service.status(UROCE)["devices"][0]["programs"]

    def wait_for(self, condition, what):
        deadline = time.monotonic() + programs.TIME_LIMIT_SECONDS
        while not condition():
            self.assertLess(time.monotonic(), deadline, what)
            time.sleep(0.05)

    def wait_for_programs(self, count):
        self.wait_for(lambda: len(self.programs()) == count, f"not {count} programs")


class Ending(TestCase):
    HOWS = "kill", "int", "term", "abort", "_exit", "exit", "fork", "clone"

    def test_the_peer_is_disconnected_however_a_program_ends(self):
        server = self.start(ENDED_PEERS, "server", host_service.ADDRESS, PORT, str(len(self.HOWS)))
        self.assertEqual(server.stdout.readline(), "listens\n")
        for number, how in enumerate(self.HOWS):
            with self.subTest(how=how):
                client = self.start(ENDED_PEERS, "client", host_service.ADDRESS, PORT, how)
                self.assertEqual(server.stdout.readline(), f"{number}: disconnected\n")
                # Nothing of it is left, although a child of it may live on. The server ends behind the last one.
                self.wait_for_programs(1 if number + 1 < len(self.HOWS) else 0)
                programs.end(client)
        self.assertEqual(programs.finish(server), (0, ""))

    def test_an_idle_rping_server_ends(self):
        server = self.start("rping", "-s", "-a", host_service.ADDRESS, "-p", PORT)
        self.wait_for(lambda: any(each["ports"] for each in self.programs()), "rping does not listen")
        client = self.start("rping", "-c", "-a", host_service.ADDRESS, "-p", PORT, "-C", "2000000")
        self.wait_for(lambda: sum(each["queue_pairs"] for each in self.programs()) >= 2, "rping does not connect")
        os.kill(client.pid, signal.SIGSTOP)
        time.sleep(0.3)
        client.kill()
        began = time.monotonic()
        _, said = programs.finish(server, WITHIN_SECONDS + 1)
        self.assertLess(time.monotonic() - began, WITHIN_SECONDS)
        self.assertIn("DISCONNECT", said)

    def test_what_it_had_is_free_at_once(self):
        for how in "kill", "fork":
            server = self.start(ENDED_PEERS, "server", host_service.ADDRESS, PORT, "1")
            self.assertEqual(server.stdout.readline(), "listens\n", how)
            self.start(ENDED_PEERS, "client", host_service.ADDRESS, PORT, how)
            self.assertEqual(server.stdout.readline(), "0: disconnected\n")
            self.assertEqual(programs.finish(server), (0, ""))


class EndingElsewhere(unittest.TestCase):
    """The peer is a program of another host."""

    ADDRESSES = {"left": "192.0.2.1", "right": "192.0.2.2"}

    def setUp(self):
        if os.geteuid() != 0:
            self.skipTest("network namespaces need root")
        self.net = self.enterContext(namespaces.Namespaces(tcp=False))
        self.services = {}
        for side, address in self.ADDRESSES.items():
            configuration = f'[[device]]\nname = "uroce0"\nport = "net_af_packet0,iface={namespaces.LINK}"\naddresses = ["{address}/24"]\n'
            self.services[side] = self.enterContext(
                host_service.Service(self.stack, configuration, lambda command, side=side: self.net.command(side, command)))

    def start(self, side, *command):
        process = self.stack.start(self.net.command(side, ["setpriv", "--pdeathsig", "KILL", *command]), "", self.services[side].environment)
        self.addCleanup(programs.end, process)
        return process

    def test_the_peer_is_disconnected(self):
        hows = "kill", "_exit", "fork"
        server = self.start("right", ENDED_PEERS, "server", self.ADDRESSES["right"], PORT, str(len(hows)))
        self.assertEqual(server.stdout.readline(), "listens\n")
        for number, how in enumerate(hows):
            client = self.start("left", ENDED_PEERS, "client", self.ADDRESSES["right"], PORT, how)
            self.assertEqual(server.stdout.readline(), f"{number}: disconnected\n", how)
            programs.end(client)
        self.assertEqual(programs.finish(server), (0, ""))


class Forking(TestCase):
    def test_a_child_has_a_device_of_its_own(self):
        for had in "none", "closed", "open":
            with self.subTest(had=had):
                self.assertEqual(programs.finish(self.start(FORKED_CHILD, had, "1")), (0, "8 rounds each\n"))
                self.wait_for_programs(0)

    def test_processes_of_python(self):
        if subprocess.run([PYTHON, "-c", "import pyverbs.device"], stderr=subprocess.DEVNULL, check=False).returncode != 0:
            self.skipTest("python3-pyverbs is not installed")
        script = str(Path(__file__).with_name("pyverbs_processes.py"))
        self.assertEqual(programs.finish(self.start(PYTHON, script)), (0, "4 children\n"))
        self.wait_for_programs(0)


if __name__ == "__main__":
    programs.main("rping", "setpriv")
