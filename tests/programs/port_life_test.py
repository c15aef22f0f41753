#!/usr/bin/env python3
"""Two processes on one link, and links and peers that vanish.

    tests/programs/port_life_test.py LIBRARY_FOLDER UROCE [SANITIZER_RUNTIME]
"""

import json
import subprocess
import sys
import time

import programs
from port_kinds import has_af_xdp
from ports import AF_PACKET, LINK, OURS, UROCE, TestCase, main

# A switch in a namespace, and the interfaces of its second port.
BRIDGE, BRIDGE_PORT, BEHIND = "uroce-bridge", "uroce-near", "uroce-far"


class SecondProcess(TestCase):
    """Two processes on one interface, each for itself, and never both for one address."""

    def setUp(self):
        super().setUp()
        self.need("af-packet")
        self.net = self.namespaces(tcp=False)

    def command(self, *arguments):
        return self.net.command("left", [UROCE, *arguments])

    def expect_refused(self, what, *options):
        status, output = self.info(*self.command("info", *options))
        self.assertNotEqual(status, 0, output)
        told = [line for line in output.splitlines() if line.startswith("uroce: ")]
        self.assertEqual(told, [f"uroce: uroce0: {options[1].split(',')[0]}: another process uses {what}"])

    def expect_open(self, *options):
        status, output = self.info(*self.command("info", *options))
        self.assertEqual(status, 0, output)

    def test_an_address_has_one_process_at_a_time(self):
        addresses = ["--ip", f"{OURS['v4']}/24", "--ip", f"{OURS['v6']}/64"]
        first, _ = self.start_server(self.command("perf", "--server", "--port", AF_PACKET, *addresses))
        other_mac = ["--mac", "02:00:00:00:00:07"]
        for driver in ("net_af_packet0", "net_af_packet5", "net_pcap0", *(["net_af_xdp0"] if has_af_xdp() else [])):
            with self.subTest(driver):
                port = ["--port", f"{driver},iface={LINK}"]
                self.expect_refused(f"{OURS['v4']} on interface {LINK}", *port, *addresses)
                self.expect_refused(f"{OURS['v6']} on interface {LINK}", *port, *addresses[2:], *other_mac)
        self.assertIsNone(first.poll())
        self.expect_open("--port", AF_PACKET, "--ip", "192.0.2.2/24")
        # The same at the other end of the cable, or in another namespace, is not ours to find out.
        status, output = self.info(*self.net.command("right", [UROCE, "info", "--port", AF_PACKET, *addresses]))
        self.assertEqual(status, 0, output)
        first.kill()
        first.wait()
        self.expect_open("--port", AF_PACKET, *addresses)

    def test_a_name_of_the_interface_is_not_the_interface(self):
        address = ["--ip", f"{OURS['v4']}/24"]
        self.start_server(self.command("perf", "--server", "--port", AF_PACKET, *address))
        for change in (["down"], ["name", "uroce-renamed"], ["up"]):
            name = "uroce-renamed" if change == ["up"] else LINK
            subprocess.run(["ip", "-n", self.net.name("left"), "link", "set", name, *change], check=True)
        self.expect_refused(f"{OURS['v4']} on interface uroce-renamed",
                            "--port", "net_af_packet0,iface=uroce-renamed", *address)

    def test_without_an_address_it_is_the_mac(self):
        self.start_server(self.command("perf", "--server", "--port", AF_PACKET))
        self.expect_refused(f"the MAC on interface {LINK}", "--port", AF_PACKET)
        self.expect_open("--port", AF_PACKET, "--mac", "02:00:00:00:00:07")

    def test_a_tap_has_one_process(self):
        self.need("tap")
        tap = ["--port", "net_tap0,iface=uroce-tap"]
        first, _ = self.start_server(self.command("perf", "--server", *tap, "--ip", "192.0.2.1/24"))
        self.expect_refused("tap uroce-tap", *tap, "--ip", "192.0.2.2/24")
        self.expect_refused("192.0.2.1 on interface uroce-tap", "--port", "net_af_packet0,iface=uroce-tap",
                            "--ip", "192.0.2.1/24")
        first.kill()
        first.wait()
        self.expect_open(*tap, "--ip", "192.0.2.2/24")


class Vanishing(TestCase):
    """Whatever goes, both processes end soon, by themselves, with a line that says why."""

    def start_endless(self, server, client, host):
        server, port = self.start_server(server)
        client = self.start([*client, "--connect", f"{host}:{port}", "--duration", "600", "--size", "4096", "--quiet"])
        time.sleep(1.5)
        self.assertIsNone(client.poll(), "it should be at work")
        return server, client

    def expect_end(self, *processes):
        for process in processes:
            status, output = programs.finish(process)
            self.assertEqual(status, 1, output)
            told = [line for line in output.splitlines() if line.startswith("uroce")]
            self.assertIn(len(told), (1, 2), output)

    def test_an_interface_is_deleted(self):
        self.need("af-packet")
        net = self.namespaces()
        perf = [UROCE, "perf", "--port", AF_PACKET]
        ends = self.start_endless(net.command("left", [*perf, "--server", "--ip", "192.0.2.1/24"]),
                                  net.command("right", [*perf, "--ip", "192.0.2.2/24"]), net.address("left"))
        subprocess.run(["ip", "-n", net.name("left"), "link", "delete", LINK], check=True)
        self.expect_end(*reversed(ends))

    def test_the_owner_of_a_tap_is_killed(self):
        self.need("tap")
        net = self.namespaces(tcp=False)
        tap, packet = "net_tap0,iface=uroce-tap", "net_af_packet0,iface=uroce-tap"
        server, client = self.start_endless(
            net.command("left", [UROCE, "perf", "--server", "--port", tap, "--ip", "192.0.2.1/24"]),
            net.command("left", [UROCE, "perf", "--port", packet, "--mac", "02:00:00:00:00:02", "--ip", "192.0.2.2/24"]),
            "127.0.0.1")
        server.kill()
        self.expect_end(client)

    def vhost_ends(self):
        path = self.folder / "vhost.sock"
        return self.start_endless([UROCE, "perf", "--server", "--port", f"net_vhost0,iface={path}", "--ip", "192.0.2.1/24"],
                                  [UROCE, "perf", "--port", f"net_virtio_user0,path={path}", "--ip", "192.0.2.2/24"],
                                  "127.0.0.1")

    def test_either_end_of_vhost_is_killed(self):
        for which in (0, 1):
            with self.subTest(killed=("vhost", "virtio-user")[which]):
                ends = self.vhost_ends()
                ends[which].kill()
                self.expect_end(ends[1 - which])
                ends[which].communicate()

    def bridge(self, net):
        """Puts a bridge into the left namespace, between the link and a new interface, whose name it returns. A
        switch that forwards nothing loses what both ends' links carry: a link alone that goes down may hold back what
        is sent, and then nothing need be lost."""
        left = net.name("left")
        made = subprocess.run(["ip", "-n", left, "link", "add", BRIDGE, "type", "bridge"], capture_output=True, text=True)
        if made.returncode != 0:
            print(f"SKIPPED bridge: {made.stderr.strip()}", file=sys.stderr, flush=True)
            self.skipTest("no bridge: " + made.stderr.strip())
        subprocess.run(["ip", "-n", left, "link", "add", BRIDGE_PORT, "mtu", str(net.mtu),
                        "type", "veth", "peer", "name", BEHIND, "mtu", str(net.mtu)], check=True)
        for link in (LINK, BRIDGE_PORT):
            subprocess.run(["ip", "-n", left, "link", "set", link, "master", BRIDGE], check=True)
        for link in (BRIDGE, BRIDGE_PORT, BEHIND):
            subprocess.run(["ip", "-n", left, "link", "set", link, "addrgenmode", "none", "up"], check=True)
        return BEHIND

    def test_a_path_that_comes_and_goes_loses_messages_of_ud_and_uc(self):
        self.need("af-packet")
        net = self.namespaces()
        left, right = "02:00:00:00:00:01", "02:00:00:00:00:02"
        behind = f"net_af_packet0,iface={self.bridge(net)}"
        away = [["-n", net.name("left"), "link", "set", BRIDGE_PORT, "nomaster"],
                ["-n", net.name("right"), "link", "set", LINK, "down"]]
        back = [["-n", net.name("left"), "link", "set", BRIDGE_PORT, "master", BRIDGE],
                ["-n", net.name("right"), "link", "set", LINK, "up"]]
        for service in ("ud", "uc"):
            with self.subTest(service):
                server, port = self.start_server(net.command("left", [
                    UROCE, "perf", "--port", behind, "--server", "--ip", "192.0.2.1/24", "--mac", left,
                    "--neighbour", f"192.0.2.2={right}"]))
                path = self.folder / f"{service}.json"
                client = self.start(net.command("right", [
                    UROCE, "perf", "--port", AF_PACKET, "--connect", f"{net.address('left')}:{port}",
                    "--ip", "192.0.2.2/24", "--mac", right, "--neighbour", f"192.0.2.1={left}",
                    "--service", service, "--op", "send", "--size", "1000",
                    "--measure", "bandwidth", "--duration", "3", "--json", str(path)]))
                deadline = time.monotonic() + programs.TIME_LIMIT_SECONDS
                while client.poll() is None and time.monotonic() < deadline:
                    for goes, comes in zip(away, back):
                        subprocess.run(["ip", *goes], check=True)
                        time.sleep(0.1)
                        subprocess.run(["ip", *comes], check=True)
                        time.sleep(0.3)
                for process in (client, server):
                    status, output = programs.finish(process)
                    self.assertEqual(status, 0, output)
                figures = json.loads(path.read_text())
                self.assertEqual(figures["send.1000.received"] + figures["send.1000.lost"], figures["send.1000.messages"])
                self.assertGreater(figures["send.1000.received"], 0)
                self.assertGreater(figures["send.1000.lost"], 0)


main()
