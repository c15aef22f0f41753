"""What the tests of ports share: what this machine can have, and the processes of one test."""

import os
import socket
import sys
import tempfile
import threading
import unittest
from pathlib import Path

import namespaces
import programs

UROCE = str(Path(sys.argv[2]).resolve())
LINK = namespaces.LINK
OURS = {"v4": "192.0.2.1", "v6": "2001:db8::1"}
AF_PACKET = f"net_af_packet0,iface={LINK}"
NO_NAMESPACES = namespaces.why_not()


def has_af_xdp():
    try:
        socket.socket(44, socket.SOCK_RAW).close()  # AF_XDP
    except OSError:
        return False
    return True


def why_not(kind):
    """Why this machine cannot have ports of that kind, or None."""
    if kind in ("af-packet", "af-xdp", "tap", "pcap") and NO_NAMESPACES:
        return f"no network namespaces: {NO_NAMESPACES}"
    if kind == "af-xdp" and not has_af_xdp():
        return "this kernel has no AF_XDP sockets"
    if kind == "tap" and not os.access("/dev/net/tun", os.R_OK | os.W_OK):
        return "/dev/net/tun is missing"
    return None


class TestCase(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="uroce-ports-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def need(self, kind):
        reason = why_not(kind)
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
        self.addCleanup(self.end, process)
        return process

    @staticmethod
    def end(process):
        if process.poll() is None:
            process.kill()
        if not process.stdout.closed:
            process.communicate()

    def start_server(self, command):
        """A `uroce perf --server`; the process and the TCP port that it tells."""
        process = self.start([*command, "--listen", "0"])
        alarm = threading.Timer(programs.TIME_LIMIT_SECONDS, process.kill)
        alarm.start()
        line = process.stdout.readline()
        alarm.cancel()
        self.assertRegex(line, r"port \d+$", process.args)
        return process, line.split()[-1]

    def info(self, *command):
        status, output = programs.finish(self.start(command))
        return status, output


def main():
    """programs.main takes LIBRARY_FOLDER and the sanitizer's runtime."""
    sys.argv = [sys.argv[0], sys.argv[1], *sys.argv[3:]]
    programs.main("ip", "setpriv")
