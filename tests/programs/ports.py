"""What the tests of ports share: names and addresses, and the processes of one test."""

import sys
import tempfile
import threading
import unittest
from pathlib import Path

import namespaces
import port_kinds
import programs

UROCE = str(Path(sys.argv[2]).resolve())
LINK = namespaces.LINK
OURS = {"v4": "192.0.2.1", "v6": "2001:db8::1"}
AF_PACKET = f"net_af_packet0,iface={LINK}"


class TestCase(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="uroce-ports-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def need(self, kind):
        reason = port_kinds.why_not(kind)
        if reason:
            print(f"SKIPPED {kind}: {reason}", file=sys.stderr, flush=True)
            self.skipTest(reason)

    def namespaces(self, **options):
        net = namespaces.Namespaces(**options)
        net.__enter__()
        self.addCleanup(net.__exit__)
        return net

    def start(self, command, configuration=None):
        process = self.stack.start(["setpriv", "--pdeathsig", "KILL", *command], configuration)
        self.addCleanup(programs.end, process)
        return process

    def start_server(self, command):
        """A `uroce perf --server`; the process and the TCP port that it tells."""
        process = self.start([*command, "--listen", "0"])
        alarm = threading.Timer(programs.TIME_LIMIT_SECONDS, process.kill)
        alarm.start()
        line = process.stdout.readline()
        alarm.cancel()
        self.assertRegex(line, r"port \d+$", process.args)
        return process, line.split()[-1]

    @staticmethod
    def waits_at_futex(process, thread):
        """Whether the thread of this name sleeps in futex(2), where threads wait that turn pollers."""
        for task in Path(f"/proc/{process.pid}/task").iterdir():
            if (task / "comm").read_text().strip() == thread:
                return (task / "syscall").read_text().split()[0] == "202"
        return False

    def info(self, *command):
        status, output = programs.finish(self.start(command))
        return status, output


def main():
    """programs.main takes LIBRARY_FOLDER and the sanitizer's runtime."""
    sys.argv = [sys.argv[0], sys.argv[1], *sys.argv[3:]]
    programs.main("ip", "setpriv")
