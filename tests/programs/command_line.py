"""Runs the program uroce, sys.argv[1], and checks how it refuses."""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

UROCE = os.path.abspath(sys.argv[1])
EMBEDDED = str(pathlib.Path(__file__).resolve().parents[2] / 'configs/embedded.toml')
NAMES = ('UROCE_CONFIG', 'UROCE_CONFIG_TEXT', 'UROCE_LOG')
ENVIRONMENT = {key: value for key, value in os.environ.items() if key not in NAMES}


def uroce(*arguments, **more):
    environment = dict(ENVIRONMENT, **more.pop('env', {}))
    return subprocess.run([UROCE, *arguments], capture_output=True, text=True, timeout=120, env=environment, **more)


class TestCase(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def file(self, name, text):
        path = self.folder / name
        path.write_text(text)
        return str(path)

    def refused(self, *arguments, naming, status=2):
        """One line on standard error that names every one of `naming`, nothing on standard output."""
        run = uroce(*arguments)
        self.assertEqual(run.returncode, status, run)
        self.assertEqual(run.stdout, '', run)
        self.assertEqual(len(run.stderr.splitlines()), 1, run.stderr)
        self.assertTrue(run.stderr.startswith('uroce'), run.stderr)
        for name in naming:
            self.assertIn(name, run.stderr)
