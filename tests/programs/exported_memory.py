"""A host service that exports memory, and those that use it; for tests with the arguments
LIBRARY_FOLDER SANITIZER_RUNTIME UROCE MEMORY_CLIENT STRANGER NVMF_HOST WRITER.
"""

import random
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

import host_service
import programs

UROCE, CLIENT, STRANGER, NVMF_HOST, WRITER = sys.argv[3:8]


def eventually(condition, what):
    deadline = time.monotonic() + programs.TIME_LIMIT_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {programs.TIME_LIMIT_SECONDS} s: {what}")
        time.sleep(0.02)


class Exporting(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="uroce-mem-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.service = None
        self.random = random.Random(1)

    def table(self, name, file=None, **keys):
        keys = {"name": name, "file": str(file or self.folder / name), **keys}
        return "[[memory]]\n" + "".join(f'{key} = {value if isinstance(value, int) else chr(34) + value + chr(34)}\n' for key, value in keys.items())

    def serve(self, tables, ready=("uroce mem serve",)):
        """A service with these tables; returns when the programs beside it serve."""
        self.said = self.folder / "said"
        with open(self.said, "w", encoding="utf-8") as errors:
            self.service = host_service.Service(self.stack, host_service.DEVICE + tables, errors=errors)
        self.addCleanup(self.stop)
        if "uroce mem serve" in ready:
            self.wait_for_memory()

    def stop(self):
        if self.service is not None:
            self.service.close()
            self.service = None

    def environment(self):
        return self.stack.environment("", self.service.environment)

    def mem(self, *arguments, **more):
        return subprocess.run([UROCE, "mem", *map(str, arguments)], capture_output=True, timeout=programs.TIME_LIMIT_SECONDS,
                              env=self.environment(), **more)

    def wait_for_memory(self):
        eventually(lambda: self.mem("list").returncode == 0, "the memory server answers")

    def works(self, *arguments, **more):
        done = self.mem(*arguments, **more)
        self.assertEqual((done.returncode, done.stderr), (0, b""), arguments)
        return done.stdout

    def refused(self, *arguments, naming, status=1, **more):
        done = self.mem(*arguments, **more)
        self.assertEqual((done.returncode, done.stdout), (status, b""), done)
        self.assertEqual(done.stderr.count(b"\n"), 1, done.stderr)
        self.assertTrue(done.stderr.startswith(b"uroce"), done.stderr)
        self.assertIn(naming, done.stderr.decode())

    def client(self, *arguments):
        """The example program: (exit status, output)"""
        return programs.finish(self.stack.start([CLIENT, host_service.ADDRESS, *map(str, arguments)], "", self.service.environment))

    def companions(self, words="mem serve"):
        """Processes of the service that were started with these words."""
        return [pid for pid in programs.descendants_of(self.service.process.pid)
                if words in programs.command_line_of(pid)]

    def file(self, name, content):
        path = self.folder / name
        path.write_bytes(content)
        return path

    def reload(self, tables):
        # As an editor does: a reader finds the old file or the new one.
        (self.service.folder / "new.toml").write_text(host_service.DEVICE + tables)
        (self.service.folder / "new.toml").rename(self.service.folder / "serve.toml")
        return subprocess.run([UROCE, "reload", "--socket", str(self.service.socket)], capture_output=True, text=True,
                              timeout=programs.TIME_LIMIT_SECONDS)
