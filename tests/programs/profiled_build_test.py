#!/usr/bin/env python3
"""apps/profiled-build: what it refuses, and, with "long", a whole build, which takes minutes.

    tests/programs/profiled_build_test.py [long]
"""

import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
PROFILED_BUILD = TOP / "apps/profiled-build"


def profiled_build(*arguments):
    return subprocess.run([PROFILED_BUILD, *arguments], capture_output=True, text=True)


class Refused(unittest.TestCase):
    def test_without_a_folder_it_says_what_it_wants(self):
        for arguments in ((), ("--nonsense",)):
            done = profiled_build(*arguments)
            self.assertEqual(done.returncode, 2)
            self.assertIn("apps/profiled-build FOLDER", done.stderr)

    def test_a_folder_that_is_there_is_left_alone(self):
        with tempfile.TemporaryDirectory() as folder:
            done = profiled_build(folder)
            self.assertEqual(done.returncode, 2)
            self.assertEqual(done.stderr, f"profiled-build: {folder} is there already\n")
            self.assertEqual(list(Path(folder).iterdir()), [])

    def test_after_a_step_that_failed_no_folder_is_left(self):
        with tempfile.TemporaryDirectory() as folder:
            done = profiled_build(f"{folder}/build", "-Dnonsense=true")
            self.assertEqual(done.returncode, 1)
            self.assertIn("nonsense", done.stderr)
            self.assertIn("step 1 did not end well", done.stderr)
            self.assertEqual(list(Path(folder).iterdir()), [])


class Whole(unittest.TestCase):
    @unittest.skipUnless("long" in sys.argv, "it takes minutes: meson test --suite soak")
    def test_it_ends_with_programs_that_transfer(self):
        with tempfile.TemporaryDirectory() as folder:
            done = profiled_build(f"{folder}/build")
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertRegex(done.stdout, r"(?m)^write +64 KiB .* MiB$")
            told = subprocess.run(["meson", "introspect", "--buildoptions", f"{folder}/build"], capture_output=True, text=True, check=True)
            options = {option["name"]: option["value"] for option in json.loads(told.stdout)}
            self.assertEqual((options["b_pgo"], options["b_lto"]), ("use", True))
            self.assertTrue(list(Path(folder).rglob("poller_poller.cc.gcda")))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
