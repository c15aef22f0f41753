#!/usr/bin/env python3
"""A port of two interfaces, one of which is taken away while messages are under way.

    tests/programs/bonding_test.py LIBRARY_FOLDER UROCE [SANITIZER_RUNTIME]
"""

import json
import subprocess
import sys
import time
from pathlib import Path

import programs
from namespaces import SIDES
from ports import LINK, UROCE, TestCase, main

SECOND, BRIDGE = "uroce-second", "uroce-bridge"
CONFIGURATION = Path(__file__).resolve().parents[2] / "configs/bonding.toml"


class Bonding(TestCase):
    """The bond is on the left; on the right its two wires end in a bridge, as in a switch."""

    def setUp(self):
        super().setUp()
        self.need("af-packet")
        self.net = self.namespaces(mtu=1500)
        left, right = (self.net.name(side) for side in SIDES)
        subprocess.run(["ip", "link", "add", SECOND, "netns", left, "type", "veth", "peer", "name", SECOND, "netns", right], check=True)
        self.ip("right", "link", "add", BRIDGE, "type", "bridge")
        for link in LINK, SECOND:
            self.ip("right", "link", "set", link, "master", BRIDGE, "up")
        self.ip("left", "link", "set", SECOND, "up")
        self.ip("right", "link", "set", BRIDGE, "up")
        self.ip("right", "address", "add", "192.0.2.2/24", "dev", BRIDGE)
        self.configuration = self.folder / "bonding.toml"
        self.configuration.write_text(CONFIGURATION.read_text().replace("eth0", LINK).replace("eth1", SECOND))

    def ip(self, side, *arguments):
        return subprocess.run(["ip", "-n", self.net.name(side), *arguments], check=True, capture_output=True, text=True).stdout

    def sent_by(self, link):
        told = json.loads(self.ip("left", "-s", "-json", "link", "show", link))[0]
        return told["stats64"]["tx"]["packets"]

    def until_sending_by(self, link):
        deadline, before = time.monotonic() + programs.TIME_LIMIT_SECONDS, self.sent_by(link)
        while self.sent_by(link) < before + 1000:
            self.assertLess(time.monotonic(), deadline, f"nothing is sent by {link}")
            time.sleep(0.02)

    def test_connections_outlive_a_member(self):
        server, port = self.start_server(self.net.command("right", [UROCE, "perf", "--server", "--interface", BRIDGE, "--mode", "packet"]))
        figures = self.folder / "figures.json"
        client = self.start(self.net.command("left", [
            UROCE, "perf", "--config", str(self.configuration), "--connect", f"{self.net.address('right')}:{port}", "--op", "write",
            "--size", "4096", "--measure", "bandwidth", "--duration", "4", "--quiet", "--json", str(figures)]))
        # One after the other goes, and the first comes back.
        self.until_sending_by(LINK)
        self.ip("left", "link", "set", LINK, "down")
        self.until_sending_by(SECOND)
        self.ip("left", "link", "set", LINK, "up")
        self.ip("left", "link", "delete", SECOND)
        self.until_sending_by(LINK)
        for process in client, server:
            status, output = programs.finish(process)
            self.assertEqual(status, 0, output)
        self.assertGreater(json.loads(figures.read_text())["write.4096.bytes_verified"], 0)

    def test_the_port_is_down_when_all_are(self):
        info = self.net.command("left", [UROCE, "info", "--config", str(self.configuration)])
        status, output = self.info(*info)
        self.assertEqual(status, 0, output)
        self.assertRegex(output, r"port 1 +active, path MTU 1024")
        for link in LINK, SECOND:
            self.ip("left", "link", "set", link, "down")
        status, output = self.info(*info)
        self.assertEqual(status, 0, output)
        self.assertRegex(output, r"port 1 +down")


main()
