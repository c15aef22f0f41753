#!/usr/bin/env python3
"""What each kind of port carries: told by `uroce info`, and proved by RC traffic between two processes.

Every file in configs/ is run as its own header says. Then what is not in a header: the kernel as a neighbour, and input
that no port can be made of. (port_life_test.py: two processes on one link, and what vanishes.)

    tests/programs/ports_test.py LIBRARY_FOLDER UROCE [SANITIZER_RUNTIME]
"""

import json
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
import unittest
from pathlib import Path

import namespaces
import programs
from port_kinds import has_af_xdp
from ports import AF_PACKET, LINK, OURS, UROCE, TestCase, main

CONFIGS = Path(__file__).resolve().parents[2] / "configs"
KERNELS = {"v4": "192.0.2.9", "v6": "2001:db8::9"}
GID_INDEX = {"v4": "1", "v6": "2"}


class Scenario:
    """What the header of a configuration file says: commands that prepare, one or two that run."""

    def __init__(self, path, folder):
        text = path.read_text()
        self.commands = [line[4:] for line in text.splitlines() if line.startswith("#   ")]
        self.folder = folder
        for file in CONFIGS.glob("*.toml"):
            (folder / file.name).write_text(self.moved(file.read_text()))

    def moved(self, text):
        """The same with names that no other run has: namespaces, sockets, and where the configuration lies."""
        text = text.replace("/tmp/uroce-", f"{self.folder}/").replace("configs/", f"{self.folder}/")
        for side in namespaces.SIDES:
            text = re.sub(rf"(netns|netns add|netns exec|-n) {side}\b", rf"\1 {namespaces.Namespaces.name(side)}", text)
        return text

    def preparation(self):
        return [self.moved(command) for command in self.commands if command.startswith("ip ") and "uroce perf" not in command]

    def runs(self):
        return [self.moved(command).replace("uroce perf", f"{UROCE} perf").split()
                for command in self.commands if "uroce perf" in command]


# The ends of the link, what `uroce info` says of a server's port, and RDMA's path MTU.
EXPECTED = {
    "af-packet": (4096, [r"link MTU +4200, frames up to 4218 bytes: the MTU of interface uroce-veth", r"queues +1 of 1",
                         r"port 1 +active, path MTU 4096"]),
    "af-xdp": (2048, [r"link MTU +3400, .*: AF_XDP has one page", r"port 1 +active, path MTU 2048"]),
    "tap": (1024, [r"link MTU +1500, .*: net_tap carries no longer frames", r"queues +1 of 16", r"port 1 +active, path MTU 1024"]),
    "vhost": (4096, [r"link MTU +4200, .*: as configured; at most 9000", r"MAC +02:00:00:00:02:01", r"port 1 +active",
                     r"far end +not connected"]),
    "memif-server": (4096, [r"link MTU +4200, .*: as configured; at most 8174 \(bsize=8192\)", r"queues +1 of 255",
                            r"port 1 +active", r"far end +not connected"]),
    "embedded": (4096, [r"far end +in this process"]),
    "net-ring": (4096, [r"far end +in this process"]),
}


class Configurations(TestCase):
    """Each file by its header, over IPv4 and over IPv6."""

    def test_all_are_known(self):
        with_commands = {p.stem for p in CONFIGS.glob("*.toml") if "#   uroce perf" in p.read_text()
                         or "uroce perf --server" in p.read_text()}
        self.assertEqual(with_commands, set(EXPECTED))

    def expect_traffic(self, commands, family, path_mtu):
        figures = self.folder / f"{family}.json"
        options = ["--size", "1,4096,100000", "--iterations", "5", "--measure", "bandwidth", "--quiet"]
        # The embedded devices have IPv4 addresses only.
        gid = [] if family == "v4" else ["--gid-index", GID_INDEX["v6"]]
        server = None
        client = commands[-1]
        if len(commands) == 2:
            server, port = self.start_server([*commands[0], *gid])
            at = client.index("--connect") + 1
            client = [*client[:at], f"{client[at]}:{port}", *client[at + 1:]]
        status, output = programs.finish(self.start([*client, *gid, *options, "--json", str(figures)]))
        self.assertEqual(status, 0, output)
        if server:
            status, output = programs.finish(server)
            self.assertEqual(status, 0, output)
        told = json.loads(figures.read_text())
        self.assertEqual(told["path_mtu"], path_mtu)
        for operation in ("write", "read", "send"):
            for size in (1, 4096, 100000):
                self.assertGreaterEqual(told[f"{operation}.{size}.bytes_verified"], size)

    def expect(self, name, families=("v4", "v6")):
        self.need(name)
        scenario = Scenario(CONFIGS / f"{name}.toml", self.folder)
        path_mtu, facts = EXPECTED[name]
        namespaces.remove_stale()
        self.addCleanup(lambda: [subprocess.run(["ip", "netns", "delete", namespaces.Namespaces.name(side)], check=False,
                                                stderr=subprocess.DEVNULL) for side in namespaces.SIDES])
        for command in scenario.preparation():
            done = subprocess.run(["sh", "-e", "-c", command], capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, f"{command}: {done.stderr}")
        commands = scenario.runs()
        server = commands[0]
        where = server[:server.index(UROCE)]
        status, output = self.info(*where, UROCE, "info", "--config", str(self.folder / f"{name}.toml"))
        self.assertEqual(status, 0, output)
        for fact in facts:
            self.assertRegex(output, fact)
        for family in families:
            with self.subTest(family):
                self.expect_traffic(commands[-2:] if "--server" in server else commands[:1], family, path_mtu)

    def test_af_packet(self):
        self.expect("af-packet")

    def test_af_xdp(self):
        self.expect("af-xdp")

    def test_tap(self):
        self.expect("tap")

    def test_vhost(self):
        self.expect("vhost")

    def test_memif(self):
        self.expect("memif-server", ["v4"])

    def test_embedded(self):
        self.expect("embedded", ["v4"])

    def test_net_ring(self):
        self.expect("net-ring", ["v4"])


class KernelNeighbour(TestCase):
    """At the other end of the veth pair is only the kernel."""

    def setUp(self):
        super().setUp()
        self.need("af-packet")
        self.net = self.namespaces(tcp=False)
        self.configuration = (f'[[device]]\nport = "{AF_PACKET}"\n'
                              f'addresses = ["{OURS["v4"]}/24", "{OURS["v6"]}/64"]\n')
        self.ip("right", "address", "add", f"{KERNELS['v4']}/24", "dev", LINK)
        self.ip("right", "address", "add", f"{KERNELS['v6']}/64", "dev", LINK, "nodad")
        self.ip("left", "link", "set", "lo", "up")

    def ip(self, side, *arguments):
        done = subprocess.run(["ip", "-n", self.net.name(side), *arguments], capture_output=True, text=True, check=True)
        return done.stdout

    def until(self, condition, what):
        deadline = time.monotonic() + programs.TIME_LIMIT_SECONDS
        while not condition():
            self.assertLess(time.monotonic(), deadline, what)
            time.sleep(0.02)

    def serve(self):
        command = self.net.command("left", [UROCE, "perf", "--server", "--port", AF_PACKET,
                                            "--ip", f"{OURS['v4']}/24", "--ip", f"{OURS['v6']}/64"])
        return self.start_server(command)

    def test_the_kernel_finds_us(self):
        self.serve()
        mac = json.loads(self.ip("left", "-j", "link", "show", LINK))[0]["address"]
        for family, address in OURS.items():
            # Whatever goes there, the kernel must first know where that is.
            send = f"import socket; socket.socket(socket.AF_INET{'6' if family == 'v6' else ''}, " \
                   f"socket.SOCK_DGRAM).sendto(b'', ('{address}', 9))"
            subprocess.run(self.net.command("right", [sys.executable, "-c", send]), check=True)
            self.until(lambda a=address: f'"lladdr":"{mac}"' in self.ip("right", "-j", "neigh", "show", a), address)

    @unittest.skipIf(shutil.which("ping") is None, "ping is not installed")
    def test_the_kernel_pings_us(self):
        self.serve()
        for address in OURS.values():
            for size in ("0", "56", "4000"):
                with self.subTest(address=address, size=size):
                    # Answered is answered: a lost one is asked again until the time is up.
                    ping = ["ping", "-n", "-c", "1", "-w", str(programs.TIME_LIMIT_SECONDS), "-s", size, address]
                    done = subprocess.run(self.net.command("right", ping), capture_output=True, text=True)
                    self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                    self.assertIn(f"{int(size) + 8} bytes from {address}", done.stdout)

    def test_our_addresses_are_taken(self):
        """The kernel asks whether a host has the address before it uses it, and hears that one has."""
        self.serve()
        self.ip("right", "address", "add", f"{OURS['v6']}/64", "dev", LINK)
        self.until(lambda: "dadfailed" in self.ip("right", "address", "show", "dev", LINK), "dadfailed")

    def test_who_has_our_address_too_is_told_of(self):
        """The kernel had it before us, and answers when we ask whether a host has it."""
        mac = json.loads(self.ip("right", "-j", "link", "show", LINK))[0]["address"]
        for address, length in ((OURS["v4"], 24), (OURS["v6"], 64)):
            with self.subTest(address):
                self.ip("right", "address", "add", f"{address}/{length}", "dev", LINK, *(["nodad"] if ":" in address else []))
                server, _ = self.start_server(self.net.command("left", [
                    UROCE, "perf", "--server", "--port", AF_PACKET, "--ip", f"{address}/{length}", "--gid-index", "1"]))
                alarm = threading.Timer(programs.TIME_LIMIT_SECONDS, server.kill)
                alarm.start()
                said = server.stderr.readline()
                alarm.cancel()
                self.assertIn(f"uroce0: {address} is also used by {mac}", said)
                server.kill()
                server.communicate()

    def pingpong_with(self, family, address):
        """Output of an ibv_rc_pingpong that was told of a peer at that address; there is none."""
        gid = socket.inet_pton(socket.AF_INET6, address if family == "v6" else f"::ffff:{address}").hex()
        peer = ("import socket\ns = socket.create_server(('127.0.0.1', 18515))\nprint('ready', flush=True)\nc = s.accept()[0]\n"
                f"c.recv(100)\nc.sendall(b'0000:000011:000000:{gid}\\0')\nc.recv(100)\nc.sendall(b'done\\0')\nc.recv(1)")
        listener = self.start(self.net.command("left", [sys.executable, "-c", peer]))
        self.assertEqual(listener.stdout.readline(), "ready\n")
        command = ["ibv_rc_pingpong", "-g", GID_INDEX[family], "-p", "18515", "127.0.0.1"]
        status, output = programs.finish(self.start(self.net.command("left", command), self.configuration))
        self.assertNotEqual(status, 0, output)
        listener.kill()
        listener.communicate()
        return output

    @unittest.skipIf(shutil.which("ibv_rc_pingpong") is None, "ibv_rc_pingpong is not installed")
    def test_we_find_the_kernel(self):
        for family, address in KERNELS.items():
            with self.subTest(family):
                self.assertIn("retry counter exceeded", self.pingpong_with(family, address))

    @unittest.skipIf(shutil.which("ibv_rc_pingpong") is None, "ibv_rc_pingpong is not installed")
    def test_an_address_that_no_host_answers_for_is_not_reached(self):
        self.assertIn("Failed to modify QP to RTR", self.pingpong_with("v4", "192.0.2.77"))


class BadInput(TestCase):
    def expect_line(self, words, *command):
        status, output = self.info(*command)
        self.assertNotEqual(status, 0, output)
        told = [line for line in output.splitlines() if line.startswith("uroce: ")]
        self.assertEqual(len(told), 1, output)
        for word in words:
            self.assertIn(word, told[0])

    def test_what_cannot_be_opened_is_told_in_one_line(self):
        self.need("af-packet")
        net = self.namespaces(tcp=False)
        unprivileged = ["setpriv", "--bounding-set=-net_raw,-net_admin"]
        cases = [
            ([], ["--port", "net_af_packet0,iface=nowhere"], ["net_af_packet0", "'nowhere'"]),
            ([], ["--port", "net_pcap0,iface=nowhere"], ["net_pcap0", "'nowhere'"]),
            ([], ["--port", AF_PACKET, "--mtu", "9000"], ["mtu 9000", "at most 4200", f"interface {LINK}"]),
            ([], ["--port", "net_tap0,iface=uroce-tap", "--mtu", "4200"], ["mtu 4200", "at most 1500"]),
            ([], ["--port", f"net_vhost0,iface={self.folder}/no/such.sock"], ["net_vhost0", "no/such.sock"]),
            ([], ["--port", f"net_virtio_user0,path={self.folder}/nobody.sock"], ["net_virtio_user0", "nobody.sock"]),
            ([], ["--port", "net_virtio_user0,path=x,server=1"], ["net_virtio_user0", "'server'"]),
            (unprivileged, ["--port", AF_PACKET], ["net_af_packet0", "CAP_NET_RAW"]),
            (unprivileged, ["--port", "net_tap0,iface=uroce-tap"], ["net_tap0", "CAP_NET_ADMIN"]),
        ]
        if has_af_xdp():
            cases += [([], ["--port", "net_af_xdp0,iface=nowhere"], ["net_af_xdp0", "'nowhere'"]),
                      (unprivileged, ["--port", f"net_af_xdp0,iface={LINK}"], ["net_af_xdp0", "CAP_NET_RAW"])]
        for before, options, words in cases:
            with self.subTest(options=options, before=before):
                self.expect_line(words, *net.command("left", [*before, UROCE, "info", *options, "--ip", "192.0.2.1/24"]))

    def test_an_interface_that_is_down_is_a_port_that_is_down(self):
        self.need("af-packet")
        net = self.namespaces(tcp=False)
        for state, seen in (("down", "down"), ("up", "active")):
            subprocess.run(["ip", "-n", net.name("left"), "link", "set", LINK, state], check=True)
            status, output = self.info(*net.command("left", [UROCE, "info", "--port", AF_PACKET]))
            self.assertEqual(status, 0, output)
            self.assertRegex(output, rf"port 1 +{seen},")


class Vlan(TestCase):
    """Addresses in VLANs, over an interface whose kernel takes the tags out of the frames."""

    def ends(self, client_vlan, family="v4"):
        self.need("af-packet")
        net = self.namespaces()
        server, port = self.start_server(net.command("left", [
            UROCE, "perf", "--server", "--port", AF_PACKET, "--ip", "192.0.2.1/24@7", "--ip", "2001:db8::1/64@7",
            "--gid-index", GID_INDEX[family]]))
        client = net.command("right", [
            UROCE, "perf", "--connect", f"{net.address('left')}:{port}", "--port", AF_PACKET,
            "--ip", f"192.0.2.2/24@{client_vlan}", "--ip", f"2001:db8::2/64@{client_vlan}",
            "--log-counters", "true", "--op", "write,send", "--size", "1,4096,10000", "--iterations", "5", "--measure", "bandwidth", "--quiet",
            "--gid-index", GID_INDEX[family]])
        return server, client

    def test_two_in_one_talk(self):
        for family in ("v4", "v6"):
            with self.subTest(family):
                server, client = self.ends(7, family)
                status, output = programs.finish(self.start(client))
                self.assertEqual(status, 0, output)
                self.assertIn("path MTU 4096", output)
                status, output = programs.finish(server)
                self.assertEqual(status, 0, output)
                self.doCleanups()

    def test_two_in_different_ones_do_not(self):
        server, client = self.ends(8)
        status, output = programs.finish(self.start(client))
        self.assertEqual(status, 1, output)
        self.assertIn("timed out", output)
        # The server resolved the client, in its own VLAN.
        self.assertRegex(output, r"counters .*drop_vlan [1-9]")
        status, output = programs.finish(server)
        self.assertEqual(status, 1, output)


main()
