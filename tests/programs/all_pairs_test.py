#!/usr/bin/env python3
"""Ranks of a job that all write into each other's buffers, which they use again and again: programs of one host.

    tests/programs/all_pairs_test.py LIBRARY_FOLDER SANITIZER_RUNTIME ALL_PAIRS ROUNDS
"""

import os
import sys
import unittest

import host_service
import programs

ALL_PAIRS, ROUNDS = os.path.abspath(sys.argv[3]), int(sys.argv[4])
# A round is well below a millisecond on a machine that is not busy.
LIMIT_SECONDS = programs.TIME_LIMIT_SECONDS + ROUNDS / 10


class AllPairs(unittest.TestCase):
    def test_each_byte_is_right(self):
        with host_service.Service(self.stack) as service:
            for ranks in 2, 5:
                with self.subTest(ranks=ranks):
                    job = self.stack.start([ALL_PAIRS, str(ranks), str(ROUNDS)], "", service.environment)
                    status, said = programs.finish(job, LIMIT_SECONDS)
                    self.assertEqual((status, said), (0, f"{ranks} ranks, {ROUNDS} rounds, 0 failed\n"))


if __name__ == "__main__":
    sys.argv = sys.argv[:3]
    programs.main("setpriv")
