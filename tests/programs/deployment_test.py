#!/usr/bin/env python3
"""What configs/ has for machines that run the host service: the units of systemd, the recipe of an image, the manifest of Kubernetes.

    tests/programs/deployment_test.py UROCE
"""

import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

CONFIGS = Path(__file__).resolve().parents[2] / "configs"
INSTALLED = "/usr/local/bin/uroce"
# systemd's measure of what a service could do: 0 nothing, 10 anything.
EXPOSURE_MAX = 2.0


def options_of_serve():
    done = subprocess.run([UROCE, "serve", "--help-all"], capture_output=True, text=True, check=True)
    return set(re.findall(r"--[a-z-]+", done.stdout))


class Units(unittest.TestCase):
    def setUp(self):
        if shutil.which("systemd-analyze") is None:
            print("SKIPPED: systemd-analyze is not installed (Debian's package systemd has it)", file=sys.stderr, flush=True)
            self.skipTest("systemd-analyze is not installed")
        folder = tempfile.TemporaryDirectory(prefix="uroce-units-")
        self.addCleanup(folder.cleanup)
        self.units = []
        for unit in sorted((CONFIGS / "systemd").iterdir()):
            copy = Path(folder.name, unit.name)
            copy.write_text(unit.read_text().replace(INSTALLED, UROCE))
            self.units.append(str(copy))

    def analyze(self, *command):
        done = subprocess.run(["systemd-analyze", *command], capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr

    def test_the_units_are_well_formed(self):
        code, said = self.analyze("verify", "--man=no", *self.units)
        self.assertEqual(code, 0, said)

    def test_the_service_has_little_that_it_could_do(self):
        service = next(unit for unit in self.units if unit.endswith(".service"))
        code, said = self.analyze("security", "--offline=true", service)
        self.assertEqual(code, 0, said)
        self.assertLessEqual(float(re.search(r"exposure level for .*: ([0-9.]+)", said)[1]), EXPOSURE_MAX, said)


class Commands(unittest.TestCase):
    def test_every_file_gives_the_service_options_that_it_has(self):
        known = options_of_serve()
        for file in ("systemd/uroce.service", "container/Containerfile", "kubernetes/daemonset.yaml"):
            text = (CONFIGS / file).read_text()
            lines = [line for line in text.splitlines() if re.search(r"\bserve\b", line) and "--" in line]
            self.assertTrue(lines, file)
            for option in re.findall(r"--(?:config|socket|interface|port|ip|idle-exit)\b", "\n".join(lines)):
                self.assertIn(option, known, file)

    def test_the_configuration_of_the_manifest_is_one(self):
        text = (CONFIGS / "kubernetes/daemonset.yaml").read_text()
        block = re.search(r"serve\.toml: \|\n((?:    .*\n|\n)+)", text)[1]
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
            # An interface that is not there: everything before it was accepted.
            file.write("\n".join(line[4:] for line in block.splitlines()).replace('"eth0"', '"uroce-none"')
                       .replace("/run/uroce/service.sock", f"{file.name}.sock"))
            file.flush()
            done = subprocess.run([UROCE, "serve", "--config", file.name], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertIn("interface uroce-none", done.stderr)


if __name__ == "__main__":
    UROCE = str(Path(sys.argv[1]).resolve())
    unittest.main(argv=[sys.argv[0]], verbosity=2)
