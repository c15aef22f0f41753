#!/usr/bin/env python3
"""A device beside the kernel, on an interface that stays the kernel's: its addresses, its neighbours, its TCP.

    tests/programs/beside_kernel_test.py LIBRARY_FOLDER UROCE [SANITIZER_RUNTIME]
"""

import json
import shutil
import subprocess
import sys
import threading
import time
import unittest

import programs
from kernel_tcp import TCP_CLIENT, TCP_SERVER, sent_digest
from namespaces import SIDES
from ports import LINK, UROCE, TestCase, main

ADDRESSES = {"left": {"v4": "192.0.2.1/24", "v6": "2001:db8::1/64"}, "right": {"v4": "192.0.2.2/24", "v6": "2001:db8::2/64"}}
GID_INDEX = {"v4": "1", "v6": "2"}


class BesideKernel(TestCase):
    def setUp(self):
        super().setUp()
        self.need("af-packet")
        self.net = self.namespaces(tcp=False)
        for side in SIDES:
            for address in ADDRESSES[side].values():
                self.ip(side, "address", "add", address, "dev", LINK, *(["nodad"] if ":" in address else []))

    def ip(self, side, *arguments):
        subprocess.run(["ip", "-n", self.net.name(side), *arguments], check=True)

    def command(self, side, *arguments):
        return self.net.command(side, list(arguments))

    def perf(self, side, *options):
        return self.command(side, UROCE, "perf", "--interface", LINK, *options)

    def expect_success(self, process):
        status, output = programs.finish(process)
        self.assertEqual(status, 0, output)
        return output

    def datagrams_without_listener(self, side):
        """How many datagrams have come to the kernel for which no program listens, so that it says so, if it may."""
        def read(file):
            return subprocess.run(self.command(side, "cat", f"/proc/net/{file}"), capture_output=True, text=True, check=True).stdout
        udp = [line.split() for line in read("snmp").splitlines() if line.startswith("Udp:")]
        udp6 = dict(line.split() for line in read("snmp6").splitlines())
        return int(dict(zip(*udp))["NoPorts"]) + int(udp6["Udp6NoPorts"])

    def until(self, condition, what):
        deadline = time.monotonic() + programs.TIME_LIMIT_SECONDS
        while not condition():
            self.assertLess(time.monotonic(), deadline, what)
            time.sleep(0.02)

    def test_rdma_and_tcp_share_the_interface(self):
        for family in ("v4", "v6"):
            with self.subTest(family):
                server, port = self.start_server(self.perf("left", "--server", "--gid-index", GID_INDEX[family], "--log-counters", "true"))
                receiver = self.start(self.command("left", sys.executable, "-c", TCP_SERVER))
                sender = self.start(self.command("right", sys.executable, "-c", TCP_CLIENT, receiver.stdout.readline().strip()))
                figures = self.folder / "figures.json"
                self.expect_success(self.start(self.perf(
                    "right", "--connect", f"192.0.2.1:{port}", "--gid-index", GID_INDEX[family], "--size", "1,4096,100000", "--iterations", "100",
                    "--measure", "bandwidth", "--quiet", "--json", str(figures))))
                told = json.loads(figures.read_text())
                self.assertEqual(told["path_mtu"], 4096)
                for operation in ("write", "read", "send"):
                    self.assertGreaterEqual(told[f"{operation}.100000.bytes_verified"], 100000)
                self.expect_success(sender)
                said = self.expect_success(receiver)
                self.assertEqual(said.split(), [sent_digest()], said)
                counters = self.expect_success(server)
                self.assertNotIn("rx_not_roce", counters, "the kernel's frames come to us")
                self.assertNotIn("drop_neighbour", counters)
        # Of RoCE's none: there were thousands. By a datagram to the port "discard" the other kernel was made to find
        # its neighbour.
        for side in SIDES:
            self.assertLess(self.datagrams_without_listener(side), 100)

    def test_pollers_that_sleep(self):
        """Frames, doorbells and timers wake them; what comes for the other one of the server's two is handed over."""
        options = ("--mode", "packet", "--poller-idle", "interrupt")
        dedicated = (*options, "--poller", "dedicated", "--poller-per-device", "2")
        server, port = self.start_server(self.perf("left", "--server", *dedicated))
        for poller in "uroce-poll-0", "uroce-poll-1":
            self.until(lambda poller=poller: self.waits_at_futex(server, poller), f"{poller} does not sleep")
        figures = self.folder / "figures.json"
        self.expect_success(self.start(self.perf(
            "right", *options, "--connect", f"192.0.2.1:{port}", "--size", "1,100000", "--iterations", "100", "--quiet", "--json", str(figures))))
        told = json.loads(figures.read_text())
        for operation in ("write", "read", "send"):
            self.assertGreaterEqual(told[f"{operation}.100000.bytes_verified"], 100000)
        self.expect_success(server)
        status, output = self.info(*self.command("left", UROCE, "info", "--interface", LINK, *dedicated))
        self.assertEqual(status, 0, output)
        self.assertRegex(output, r"idle pollers +interrupt: sleep, woken by frames \(2 descriptors\)")

    def test_one_at_a_time(self):
        first, _ = self.start_server(self.perf("left", "--server"))
        status, output = self.info(*self.command("left", UROCE, "info", "--interface", LINK))
        self.assertEqual(status, 1, output)
        told = [line for line in output.splitlines() if line.startswith("uroce: ")]
        self.assertEqual(len(told), 1, output)
        self.assertRegex(told[0], rf"uroce0: interface {LINK}: .*4791.*another process of uroce")
        # However the first one ends, nothing of it is left.
        first.kill()
        first.communicate()
        status, output = self.info(*self.command("left", UROCE, "info", "--interface", LINK))
        self.assertEqual(status, 0, output)

    def test_what_the_kernel_has_is_what_we_have(self):
        status, output = self.info(*self.command("left", UROCE, "info", "--interface", LINK))
        self.assertEqual(status, 0, output)
        mac = json.loads(subprocess.run(["ip", "-n", self.net.name("left"), "-j", "link", "show", LINK], capture_output=True, text=True,
                                        check=True).stdout)[0]["address"]
        for fact in (rf"MAC +{mac}", r"GID 1 +192\.0\.2\.1 ", r"GID 2 +2001:db8::1 ", r"path MTU 4096"):
            self.assertRegex(output, fact)
        self.ip("left", "link", "set", LINK, "mtu", "1500")
        self.ip("left", "address", "del", "192.0.2.1/24", "dev", LINK)
        status, output = self.info(*self.command("left", UROCE, "info", "--interface", LINK))
        self.assertEqual(status, 0, output)
        self.assertRegex(output, r"GID 1 +2001:db8::1 ")
        self.assertIn("path MTU 1024", output)

    @unittest.skipIf(shutil.which("ibv_asyncwatch") is None, "ibv_asyncwatch is not installed")
    def test_addresses_come_and_go(self):
        watch = self.start(self.command("left", "stdbuf", "-oL", "ibv_asyncwatch"), f'[[device]]\ninterface = "{LINK}"\n')
        lines = []
        reader = threading.Thread(target=lambda: lines.extend(iter(watch.stdout.readline, "")), daemon=True)
        reader.start()
        self.until(lambda: any("uroce0" in line for line in lines), "ibv_asyncwatch is not there")

        def changes():
            return sum("GID" in line for line in lines)
        for action in ("add", "del"):
            before = changes()
            self.ip("left", "address", action, "198.51.100.7/24", "dev", LINK)
            self.until(lambda n=before: changes() > n, f"no event after address {action}: {lines}")
        watch.kill()
        reader.join()

    def test_who_is_not_there_is_not_reached(self):
        """The kernel asks in vain, or knows no way."""
        for address in ("192.0.2.77", "203.0.113.1"):
            peer = ("import socket\ns = socket.create_server(('127.0.0.1', 18515))\nprint('ready', flush=True)\nc = s.accept()[0]\n"
                    f"c.recv(100)\nc.sendall(b'0000:000011:000000:' + bytes(10).hex().encode() + b'ffff' + socket.inet_aton('{address}').hex().encode()"
                    " + b'\\0')\nc.recv(100)\nc.sendall(b'done\\0')\nc.recv(1)")
            with self.subTest(address):
                listener = self.start(self.command("left", sys.executable, "-c", peer))
                self.assertEqual(listener.stdout.readline(), "ready\n")
                status, output = programs.finish(self.start(
                    self.command("left", "ibv_rc_pingpong", "-g", "1", "-p", "18515", "127.0.0.1"), f'[[device]]\ninterface = "{LINK}"\n'))
                self.assertNotEqual(status, 0, output)
                self.assertIn("Failed to modify QP to RTR", output)
                listener.kill()
                listener.communicate()

    def test_what_cannot_be_is_told_in_one_line(self):
        cases = [(["nowhere"], [], "interface nowhere: there is none"), (["lo"], [], "interface lo: is no Ethernet"),
                 ([LINK], ["setpriv", "--bounding-set=-net_raw,-net_admin"], "CAP_NET_RAW"),
                 ([LINK, "--ip", "192.0.2.9/24"], [], "--ip: does not go together with an interface"),
                 ([LINK, "--mac", "02:00:00:00:00:09"], [], "--mac: does not go together with an interface")]
        for options, before, words in cases:
            with self.subTest(words):
                status, output = self.info(*self.command("left", *before, UROCE, "info", "--interface", *options))
                self.assertNotEqual(status, 0, output)
                self.assertEqual(len([line for line in output.splitlines() if words in line]), 1, output)


main()
