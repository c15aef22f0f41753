#!/usr/bin/python3
"""Runs modules of rdma-core's Python tests and tells line by line, in JSON, what becomes of each test, so that it is
known how far a run came that did not end. Started by pyverbs_test.py with the interpreter that pyverbs was made for.

    tests/programs/pyverbs_run.py FOLDER_OF_TESTS OUTCOMES_FILE MODULE ...
"""

import importlib
import json
import sys
import types
import unittest
from pathlib import Path

FOLDER, OUTCOMES, MODULES = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:]


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
    sys.path[:0] = [str(FOLDER), str(FOLDER / "tests")]
    # The package's own __init__ imports every module, also those of other devices' private interfaces.
    package = types.ModuleType("tests")
    package.__path__ = [str(FOLDER / "tests")]
    sys.modules["tests"] = package
    from args_parser import parser
    sys.argv[1:] = ["--dev", "uroce0", "--gid", "1"]
    parser.parse_args()

    with OUTCOMES.open("w", buffering=1) as file:
        def tell(what, test, why=""):
            file.write(json.dumps({"what": what, "test": test.id(), "why": why}) + "\n")

        tests = [test for module in MODULES
                 for test in tests_in(unittest.defaultTestLoader.loadTestsFromModule(importlib.import_module("tests." + module)))]
        for test in tests:
            tell("found", test)
        result = Told(tell)
        # Class by class, for what a class sets up.
        unittest.TestSuite(tests).run(result)


main()
