#!/usr/bin/env python3
"""A program of a service that names queue pair numbers of others, by the connection manager and in packets.

    tests/programs/numbers_test.py LIBRARY_FOLDER SANITIZER_RUNTIME UROCE CM_NUMBERS
"""

import re
import sys
import unittest
from pathlib import Path

import host_service
import programs

UROCE, CM_NUMBERS = (str(Path(argument).resolve()) for argument in sys.argv[3:5])
PORT = 7471


class Numbers(unittest.TestCase):
    def setUp(self):
        self.service = self.enterContext(host_service.Service(self.stack))

    def start(self, *command):
        process = self.stack.start(["setpriv", "--pdeathsig", "KILL", *command], host_service.COUNTERS, self.service.environment)
        self.addCleanup(programs.end, process)
        return process

    def programs(self):
        return self.service.status(UROCE)["devices"][0]["programs"]

    def test_numbers_of_others_are_refused_at_once(self):
        neighbour = self.start("ibv_rc_pingpong", "-g", "1", "-p", str(programs.free_tcp_port()))
        programs.wait_until(lambda: any(each["queue_pairs"] for each in self.programs()), neighbour)
        theirs, = (each["numbers"] for each in self.programs())
        # One that a queue pair has, or had nearly; one of the same program.
        others = [theirs["first"], theirs["first"] + theirs["count"] - 1]
        # cmtime's simulated queue pairs begin there: the first block is no program's.
        none = 1000
        status, output = programs.finish(self.start(CM_NUMBERS, host_service.ADDRESS, str(PORT), *map(str, [none, *others])))
        self.assertEqual(status, 0, output)
        # Nothing was left to the service to drop.
        self.assertIsNone(neighbour.poll())
        self.assertIn("tx_frames", output)


if __name__ == "__main__":
    programs.main("ibv_rc_pingpong", "setpriv")
