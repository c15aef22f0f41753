#!/usr/bin/env python3
"""`uroce top` in a terminal that tmux makes: what it shows of two running programs, and what its keys do.

    tests/programs/top_test.py LIBRARY_FOLDER SANITIZER_RUNTIME UROCE
"""

import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

import host_service
import programs

UROCE = sys.argv[3]
LONG = ["ib_send_bw", "-F", "-x", "1", "-m", "4096", "-s", "4096", "-q", "3", "-D", "60"]


class Terminal:
    """A terminal of 150 columns with a command in it."""

    def __init__(self, command, lines=24):
        self.folder = tempfile.mkdtemp(prefix="uroce-tmux-")
        self.command = command
        self.lines = lines

    def tmux(self, *words):
        return subprocess.run(["tmux", "-S", f"{self.folder}/socket", "-f", "/dev/null", *words], capture_output=True, text=True,
                              timeout=programs.TIME_LIMIT_SECONDS)

    def __enter__(self):
        # The shell shows how the program ended, and stays.
        made = self.tmux("new-session", "-d", "-s", "it", "-x", "150", "-y", str(self.lines), f"{self.command}; echo ended with $?; read x")
        assert made.returncode == 0, made.stderr
        return self

    def __exit__(self, *_):
        self.tmux("kill-server")
        shutil.rmtree(self.folder)

    def screen(self):
        return self.tmux("capture-pane", "-p", "-t", "it").stdout

    def press(self, *keys):
        self.tmux("send-keys", "-t", "it", *keys)

    def expect(self, pattern):
        """The match, as soon as the screen has it."""
        deadline = time.monotonic() + 20
        while not (found := re.search(pattern, self.screen(), re.M)):
            if time.monotonic() > deadline:
                raise AssertionError(f"no {pattern} in\n{self.screen()}")
            time.sleep(0.05)
        return found


@unittest.skipUnless(shutil.which("tmux"), "tmux is not installed")
class Top(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        service = cls.enterClassContext(host_service.Service(cls.stack))
        pair = cls.enterClassContext(host_service.HostPair(cls.stack, service))
        cls.server = pair.start_server(LONG)
        cls.client = pair.start_client(LONG)

    def numbers(self):
        done = subprocess.run([UROCE, "qp", "list", "--json", "--pid", str(self.client.pid)], capture_output=True, text=True, check=True)
        return [row["number"] for row in json.loads(done.stdout)]

    def test_rates_sorting_filtering_and_opening(self):
        with Terminal(f"{UROCE} top --device uroce0") as terminal:
            row = rf"^ *{self.client.pid} ib_send_bw +0x[0-9a-f]+ RC +RTS +"
            # Bytes and messages per second of a queue pair that sends.
            terminal.expect(row + r"[0-9.]+[KMG] +[0-9.]+K? ")
            terminal.expect(r"BYTES/Sv")
            terminal.press("s")
            terminal.expect(r"MSG/Sv")
            terminal.press("r")
            terminal.expect(r"MSG/S\^")
            terminal.press("S")
            terminal.expect(r"BYTES/S\^")
            number = self.numbers()[1]
            terminal.press("/", *f"{number:#x}", "Enter")
            terminal.expect(rf"^filter: {number:#x}$")
            # It, and its peer, whose row names it.
            terminal.expect(r" 2 of 6 queue pairs")
            terminal.press("Escape")
            terminal.expect(r" 6 of 6 queue pairs")
            terminal.press("/", *str(self.client.pid), "BSpace", str(self.client.pid)[-1], "Enter")
            terminal.expect(r" 3 of 6 queue pairs")
            terminal.press("Down", "j", "k", "Enter")
            opened = terminal.expect(rf"^queue pair (0x[0-9a-f]+) of process {self.client.pid} ib_send_bw")
            self.assertIn(int(opened[1], 16), self.numbers())
            terminal.expect(r"^  unanswered +\d+  packets: ")
            terminal.press("Escape", "c")
            terminal.expect(r"^    tx_bytes +\d+ +[0-9.]+[KMG] ")
            terminal.press("c", "h")
            terminal.expect(r"^Enter +open the selected queue pair")
            terminal.press("h", "p")
            terminal.expect(r", paused$")
            terminal.press("q")
            terminal.expect(r"^ended with 0$")

    def test_a_small_terminal(self):
        with Terminal(f"{UROCE} top", lines=4) as terminal:
            terminal.expect(r"ib_send_bw")
            terminal.press("NPage", "PPage", "g", "q")
            terminal.expect(r"^ended with 0$")

    def test_no_terminal(self):
        done = subprocess.run([UROCE, "top"], capture_output=True, text=True, stdin=subprocess.DEVNULL)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertEqual(done.stderr, "uroce top: this is no terminal; 'uroce stat --watch' writes to anything\n")
        with Terminal(f"TERM=nonsense {UROCE} top") as terminal:
            terminal.expect(r"uroce top: the terminal \(TERM\) is not known here")
            terminal.expect(r"^ended with 1$")


if __name__ == "__main__":
    programs.main("ib_send_bw")
