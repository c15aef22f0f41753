#!/usr/bin/env python3
"""apps/quickstart in the build folder that it uses, where everything is built already; and that what it builds in one where
nothing is would be all that is installed.

    tests/programs/quickstart_test.py BUILD_FOLDER
"""

import json
import subprocess
import sys
import unittest
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
QUICKSTART = TOP / "apps/quickstart"
HUGEPAGES = Path("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages")


class Quickstart(unittest.TestCase):
    def test_it_builds_every_program_that_is_installed(self):
        told = subprocess.run(["meson", "introspect", "--installed", BUILD], capture_output=True, text=True, check=True).stdout
        programs = {str(Path(built).relative_to(BUILD)) for built, to in json.loads(told).items() if "/bin/" in to or "/libexec/" in to}
        self.assertIn("apps/uroce", programs)
        # The libraries that `uroce run` shows to programs.
        for built in programs | {"lib/verbs/libibverbs.so.1", "lib/verbs/librdmacm.so.1"}:
            self.assertIn(built, self.ninja("query") + self.ninja("inputs"))

    @staticmethod
    def ninja(tool):
        done = subprocess.run(["ninja", "-C", BUILD, "-t", tool, "uroce-programs"], capture_output=True, text=True, check=True)
        return done.stdout.replace("|", "").split()

    def test_it_ends_with_verified_transfers(self):
        if BUILD != str(TOP / "build"):
            self.skipTest(f"it builds in {TOP}/build")
        pages = HUGEPAGES.read_text() if HUGEPAGES.exists() else None
        try:
            done = subprocess.run([QUICKSTART], capture_output=True, text=True, timeout=240)
        finally:
            if pages is not None and HUGEPAGES.read_text() != pages:
                HUGEPAGES.write_text(pages)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("All transfers above were verified", done.stdout)
        self.assertRegex(done.stdout, r"(?m)^\[5/5\] transfers between two devices")
        self.assertRegex(done.stdout, r"(?m)^write +64 KiB .* MiB$")

    def test_it_has_no_options(self):
        done = subprocess.run([QUICKSTART, "--nonsense"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 2)
        self.assertIn("apps/quickstart", done.stdout)


if __name__ == "__main__":
    BUILD = str(Path(sys.argv[1]).resolve())
    unittest.main(argv=sys.argv[:1], verbosity=2)
