#!/usr/bin/env python3
"""Two networks with a router between them, which is a Linux kernel: by routes of our own, and by the kernel's.

    tests/programs/routed_test.py LIBRARY_FOLDER UROCE [SANITIZER_RUNTIME]
"""

import json
import subprocess

import programs
from namespaces import ROUTED_LINK, ROUTED_NETWORKS, SIDES
from ports import UROCE, TestCase, main

GID_INDEX = {"v4": "1", "v6": "2"}


class Routed(TestCase):
    def setUp(self):
        super().setUp()
        self.need("af-packet")
        self.net = self.namespaces()
        self.net.add_router()

    def forwarded(self, family):
        """Packets that the router has passed on."""
        def read(file):
            return subprocess.run(["ip", "netns", "exec", self.net.middle, "cat", f"/proc/net/{file}"], capture_output=True, text=True,
                                  check=True).stdout
        if family == "v6":
            return int(dict(line.split() for line in read("snmp6").splitlines())["Ip6OutForwDatagrams"])
        ip = [line.split() for line in read("snmp").splitlines() if line.startswith("Ip:")]
        return int(dict(zip(*ip))["ForwDatagrams"])

    def expect_traffic(self, family, places):
        """`places`: the options that say where each side is."""
        before = self.forwarded(family)
        gid = ["--gid-index", GID_INDEX[family]]
        server, port = self.start_server(self.net.command("left", [UROCE, "perf", "--server", *places["left"], *gid]))
        figures = self.folder / f"{family}.json"
        status, output = programs.finish(self.start(self.net.command("right", [
            UROCE, "perf", "--connect", f"{self.net.address('left')}:{port}", *places["right"], *gid, "--size", "1,4096,100000",
            "--iterations", "5", "--measure", "bandwidth", "--quiet", "--json", str(figures)])))
        self.assertEqual(status, 0, output)
        status, output = programs.finish(server)
        self.assertEqual(status, 0, output)
        told = json.loads(figures.read_text())
        self.assertEqual(told["path_mtu"], 4096)
        for operation in ("write", "read", "send"):
            for size in (1, 4096, 100000):
                self.assertGreaterEqual(told[f"{operation}.{size}.bytes_verified"], size)
        self.assertGreater(self.forwarded(family), before + 100)

    def test_gateways_and_routes_of_our_own(self):
        def place(side, *ways):
            addresses = [option for prefix, bits in ROUTED_NETWORKS[side] for option in ("--ip", f"{prefix}1/{bits}")]
            return ["--port", f"net_af_packet0,iface={ROUTED_LINK}", *addresses, *ways]
        places = {"left": place("left", "--gateway", "192.0.2.254,2001:db8::254"),
                  "right": place("right", "--routes", "192.0.2.0/24 via 203.0.113.254,2001:db8::/64 via 2001:db8:1::254")}
        for family in ("v4", "v6"):
            with self.subTest(family):
                self.expect_traffic(family, places)

    def test_routes_of_the_kernel(self):
        for side in SIDES:
            for prefix, bits in ROUTED_NETWORKS[side]:
                subprocess.run(["ip", "-n", self.net.name(side), "address", "add", f"{prefix}1/{bits}", "dev", ROUTED_LINK,
                                *(["nodad"] if ":" in prefix else [])], check=True)
        self.net.add_routes()
        places = {side: ["--interface", ROUTED_LINK] for side in SIDES}
        for family in ("v4", "v6"):
            with self.subTest(family):
                self.expect_traffic(family, places)


main()
