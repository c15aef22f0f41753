#!/usr/bin/env python3
"""ibv_asyncwatch, unmodified: the link of a veth pair goes down, comes back and vanishes, and it prints the events.

    tests/programs/asyncwatch_test.py LIBRARY_FOLDER [SANITIZER_RUNTIME]
"""

import os
import select
import signal
import subprocess
import sys
import time
import unittest

import namespaces
import programs

CONFIGURATION = f"""
[[device]]
name = "uroce0"
port = "net_af_packet0,iface={namespaces.LINK}"
addresses = ["192.0.2.1/24"]
"""


class Watch:
    """The program with a terminal to write to, so that each line comes when it is written."""

    def __init__(self, command, environment):
        self.terminal, its_own = os.openpty()
        self.process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=its_own, stderr=its_own)
        os.close(its_own)
        self.said = ""

    def wait_for(self, text):
        """Until it has said it, since the last thing that was waited for."""
        deadline = time.monotonic() + programs.TIME_LIMIT_SECONDS
        while text not in self.said:
            readable, _, _ = select.select([self.terminal], [], [], max(0, deadline - time.monotonic()))
            try:
                more = os.read(self.terminal, 4096).decode() if readable else ""
            except OSError:  # the program has ended
                more = ""
            if not more:
                raise AssertionError(f"it does not say '{text}', but:\n{self.said}")
            self.said += more
        self.said = self.said.partition(text)[2]

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(programs.TIME_LIMIT_SECONDS)
        finally:
            self.process.kill()
            self.process.wait()
            os.close(self.terminal)


class AsyncWatch(unittest.TestCase):
    def test_a_link_goes_down_and_up_and_away(self):
        with namespaces.Namespaces(tcp=False) as net:
            watch = Watch(net.command("left", ["ibv_asyncwatch"]), self.stack.environment(CONFIGURATION))
            try:
                watch.wait_for("async event FD")
                for _ in range(2):
                    namespaces.ip("-n", net.name("right"), "link", "set", namespaces.LINK, "down")
                    watch.wait_for("IBV_EVENT_PORT_ERR (10), port 1")
                    namespaces.ip("-n", net.name("right"), "link", "set", namespaces.LINK, "up")
                    watch.wait_for("IBV_EVENT_PORT_ACTIVE (9), port 1")
                namespaces.ip("-n", net.name("left"), "link", "delete", namespaces.LINK)
                watch.wait_for("IBV_EVENT_PORT_ERR (10), port 1")
                watch.wait_for("IBV_EVENT_DEVICE_FATAL")
            finally:
                watch.end()


if __name__ == "__main__":
    why = namespaces.why_not()
    if why is not None:
        print(f"SKIPPED: {why}")
        sys.exit(programs.SKIPPED)
    programs.main("ibv_asyncwatch")
