#!/usr/bin/python3
"""Runs modules of rdma-core's Python tests and tells line by line, in JSON, what becomes of each test, so that it is
known how far a run came that did not end. Started by pyverbs_test.py with the interpreter that pyverbs was made for.

    tests/programs/pyverbs_run.py FOLDER_OF_TESTS OUTCOMES_FILE MODULE ...

test_rdmacm forks two processes that are to be one host, with one address and a device that their parent has opened. With us a
process has its devices for itself: pyverbs_hosts.py makes the two meet as two hosts.
"""

import importlib
import json
import sys
import unittest
from pathlib import Path

import pyverbs_hosts


class Told(unittest.TestResult):
    def __init__(self, tell):
        super().__init__()
        self.tell = tell

    def startTest(self, test):
        super().startTest(test)
        self.tell("started", test)

    def addSuccess(self, test):
        self.tell("passed", test)

    def addSkip(self, test, reason):
        self.tell("skipped", test, reason)

    def addError(self, test, error):
        self.tell("failed", test, self._exc_info_to_string(error, test))

    addFailure = addError

    def addSubTest(self, test, subtest, error):
        if error is not None:
            self.tell("failed", test, self._exc_info_to_string(error, test))


def tests_in(suite):
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from tests_in(test)
        else:
            yield test


def main():
    folder, outcomes, modules = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:]
    pyverbs_hosts.make_package(folder)
    from args_parser import parser
    sys.argv[1:] = ["--dev", "uroce0", "--gid", "1"]
    parser.parse_args()
    if "test_rdmacm" in modules:
        pyverbs_hosts.make_two_hosts(outcomes.parent)

    with outcomes.open("w", buffering=1) as file:
        def tell(what, test, why=""):
            file.write(json.dumps({"what": what, "test": test.id(), "why": why}) + "\n")

        tests = [test for module in modules
                 for test in tests_in(unittest.defaultTestLoader.loadTestsFromModule(importlib.import_module("tests." + module)))]
        for test in tests:
            tell("found", test)
        result = Told(tell)
        # Class by class, for what a class sets up.
        unittest.TestSuite(tests).run(result)


if __name__ == "__main__":  # and not where multiprocessing imports it
    main()
