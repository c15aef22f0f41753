#!/usr/bin/env python3
"""The host service and the network at the other end of its uplink, which is a Linux kernel without RDMA or another uroce.

    tests/programs/serve_uplink_test.py LIBRARY_FOLDER UROCE [SANITIZER_RUNTIME]
"""

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import host_service
import port_kinds
import programs
from asyncwatch_test import Watch
from namespaces import ROUTED_LINK, ROUTED_NETWORKS, SIDES
from ports import LINK, OURS, UROCE, TestCase, main

MAC = "02:00:00:00:09:01"
THEIRS = {"v4": "192.0.2.2", "v6": "2001:db8::2"}
BITS = {"v4": 24, "v6": 64}
PROGRAMS = 3


def own_device(mac, addresses):
    """One with a port on the link, whose addresses the kernel does not have."""
    quoted = ", ".join(f'"{address}"' for address in addresses)
    return f'[[device]]\nname = "uroce0"\nport = "net_af_packet0,iface={LINK}"\nmac = "{mac}"\naddresses = [{quoted}]\n'


def in_vlan(addresses, vlan):
    return [f"{address}/{BITS[family]}@{vlan}" for family, address in addresses.items()]


class ServedTestCase(TestCase):
    """A service in the left namespace, whose uplink leads to the right one."""

    def setUp(self):
        super().setUp()
        self.need("af-packet")
        self.net = self.namespaces()

    def ip(self, side, *arguments):
        subprocess.run(["ip", "-n", self.net.name(side), *arguments], check=True)

    def give_kernel(self, side, addresses, link=LINK):
        for family, address in addresses.items():
            self.ip(side, "address", "add", f"{address}/{BITS[family]}", "dev", link, *(["nodad"] if family == "v6" else []))

    def serve(self, configuration):
        self.service = host_service.Service(self.stack, configuration, lambda command: self.net.command("left", command))
        self.addCleanup(self.service.close)

    def start_program(self, *command):
        """A program of the service."""
        process = self.stack.start(self.net.command("left", ["setpriv", "--pdeathsig", "KILL", *command]), "", self.service.environment)
        self.addCleanup(programs.end, process)
        return process

    def watch(self):
        """An ibv_asyncwatch of the service, which has begun."""
        watch = Watch(self.net.command("left", ["ibv_asyncwatch"]), self.stack.environment("", self.service.environment))
        self.addCleanup(watch.end)
        watch.wait_for("async event FD")
        return watch

    def expect_verified_traffic(self, gid, *far, before_first_frame=lambda: None):
        """Between a program of the service and `uroce perf` with the options `far` in the right namespace."""
        server = self.start_program(UROCE, "perf", "--server", "--gid-index", gid, "--listen", "0")
        line = server.stdout.readline()
        self.assertRegex(line, r"port \d+$")
        before_first_frame()
        figures = self.folder / "figures.json"
        status, output = programs.finish(self.start(self.net.command("right", [
            UROCE, "perf", "--connect", f"{self.net.address('left')}:{line.split()[-1]}", *far, "--gid-index", gid, "--size", "1,100000",
            "--iterations", "5", "--measure", "bandwidth", "--quiet", "--json", str(figures)])))
        self.assertEqual(status, 0, output)
        status, output = programs.finish(server)
        self.assertEqual(status, 0, output)
        told = json.loads(figures.read_text())
        for operation in ("write", "read", "send"):
            self.assertGreaterEqual(told[f"{operation}.100000.bytes_verified"], 100000)

    def told_by_info(self):
        status, output = programs.finish(self.start_program(UROCE, "info"))
        self.assertEqual(status, 0, output)
        return output


class OwnPort(ServedTestCase):
    """A port with addresses of its own."""

    def setUp(self):
        super().setUp()
        self.give_kernel("right", THEIRS)
        self.serve(own_device(MAC, [f"{address}/{BITS[family]}" for family, address in OURS.items()]))

    def test_it_answers_whatever_its_programs_do(self):
        watches = [self.watch() for _ in range(PROGRAMS)]
        for watch in watches:
            programs.stop(watch.process)
        try:
            for family, address in OURS.items():
                done = subprocess.run(self.net.command("right", ["ping", "-n", "-c", "3", "-i", "0.2", "-W", "20", address]), capture_output=True, text=True)
                self.assertEqual(done.returncode, 0, f"{family}: {done.stdout}{done.stderr}")
            known = json.loads(subprocess.run(["ip", "-n", self.net.name("right"), "-json", "neigh", "show", "dev", LINK], capture_output=True,
                                              text=True, check=True).stdout)
            self.assertEqual({entry["dst"]: entry.get("lladdr") for entry in known if entry["dst"] in OURS.values()},
                             {address: MAC for address in OURS.values()})
        finally:
            for watch in watches:
                watch.process.send_signal(signal.SIGCONT)
        self.assertEqual(self.service.status(UROCE)["programs"], PROGRAMS)

    def test_the_link_is_that_of_all_programs(self):
        watches = [self.watch() for _ in range(PROGRAMS)]
        for _ in range(2):
            for state, event in (("down", "IBV_EVENT_PORT_ERR (10), port 1"), ("up", "IBV_EVENT_PORT_ACTIVE (9), port 1")):
                self.ip("right", "link", "set", LINK, state)
                for watch in watches:
                    watch.wait_for(event)
                self.assertEqual(self.service.status(UROCE)["devices"][0]["up"], state == "up")


class BesideKernel(ServedTestCase):
    """On an interface that stays the kernel's."""

    def setUp(self):
        super().setUp()
        self.give_kernel("left", OURS)
        self.give_kernel("right", THEIRS)
        self.serve(f'[[device]]\nname = "uroce0"\ninterface = "{LINK}"\n')

    def test_addresses_and_mtu_are_those_of_the_kernel(self):
        watches = [self.watch() for _ in range(PROGRAMS)]
        said = self.told_by_info()
        self.assertRegex(said, r"GID 1 +192\.0\.2\.1 ")
        self.assertIn("path MTU 4096", said)
        self.assertNotIn("198.51.100.7", said)
        self.ip("left", "address", "add", "198.51.100.7/24", "dev", LINK)
        for watch in watches:
            watch.wait_for("GID")
        self.assertIn("198.51.100.7", self.told_by_info())
        self.ip("left", "address", "del", "198.51.100.7/24", "dev", LINK)
        for watch in watches:
            watch.wait_for("GID")
        self.assertNotIn("198.51.100.7", self.told_by_info())
        self.ip("left", "link", "set", LINK, "mtu", "1500")
        programs.wait_until(lambda: self.service.status(UROCE)["devices"][0]["mtu"] == 1500, watches[0].process)
        self.assertIn("path MTU 1024", self.told_by_info())


class Resting(ServedTestCase):
    """Beside the kernel, by a poller of its own that sleeps until a frame comes."""

    POLLER = "uroce-poll-0"
    ROUNDS, LOOKS = 2, 10

    def setUp(self):
        super().setUp()
        self.give_kernel("left", OURS)
        self.give_kernel("right", THEIRS)

    def wake_ups(self):
        """How often the poller's thread has gone to sleep since it began."""
        for task in Path(f"/proc/{self.service.process.pid}/task").iterdir():
            if (task / "comm").read_text().strip() == self.POLLER:
                return int(re.search(r"^voluntary_ctxt_switches:\s+(\d+)$", (task / "status").read_text(), re.MULTILINE)[1])
        self.fail(f"the service has no thread {self.POLLER}")

    def expect_rest(self):
        """At most looks, 50 ms apart, the thread is asleep, and it wakes by itself now and then, which keeps its clock right."""
        programs.wait_until(lambda: self.waits_at_futex(self.service.process, self.POLLER), self.service.process)
        before, asleep = self.wake_ups(), 0
        for _ in range(self.LOOKS):
            time.sleep(0.05)
            asleep += self.waits_at_futex(self.service.process, self.POLLER)
        self.assertGreater(asleep, self.LOOKS // 2)
        wake_ups = self.wake_ups() - before
        self.assertGreater(wake_ups, 0)
        self.assertLess(wake_ups, 100 * self.LOOKS)

    def expect_it_sleeps_until_a_frame_comes(self, mode):
        self.serve('[poller]\nmode = "dedicated"\nidle = "interrupt"\n'
                   f'[[device]]\nname = "uroce0"\ninterface = "{LINK}"\nmode = "{mode}"\n')
        for _ in range(self.ROUNDS):
            # What comes first after the rest arrives, as all that follows.
            self.expect_verified_traffic("1", "--interface", LINK, before_first_frame=self.expect_rest)
        counters = self.service.status(UROCE)["devices"][0]["counters"]
        self.assertGreater(counters["rx_frames"], 0)
        self.assertNotIn("port_dropped", counters)

    def test_by_packet_sockets(self):
        self.expect_it_sleeps_until_a_frame_comes("packet")

    def test_by_af_xdp(self):
        if why_not := port_kinds.why_not("af-xdp"):
            self.skipTest(why_not)
        for side in SIDES:
            self.ip(side, "link", "set", LINK, "mtu", "3400")
        self.expect_it_sleeps_until_a_frame_comes("xdp")


class Routed(ServedTestCase):
    """A peer in another network, behind a router."""

    def setUp(self):
        super().setUp()
        self.net.add_router()

    def expect_traffic(self):
        """Both families, between a program of the service and a process on the router's other side."""
        far = ["--port", f"net_af_packet0,iface={ROUTED_LINK}", "--gateway", "203.0.113.254,2001:db8:1::254"]
        far += [option for prefix, bits in ROUTED_NETWORKS["right"] for option in ("--ip", f"{prefix}1/{bits}")]
        for family, gid in (("v4", "1"), ("v6", "2")):
            with self.subTest(family):
                self.expect_verified_traffic(gid, *far)

    def test_a_gateway_of_the_services_own(self):
        addresses = ", ".join(f'"{prefix}1/{bits}"' for prefix, bits in ROUTED_NETWORKS["left"])
        self.serve(f'[[device]]\nname = "uroce0"\nport = "net_af_packet0,iface={ROUTED_LINK}"\naddresses = [{addresses}]\n'
                   'gateway = ["192.0.2.254", "2001:db8::254"]\n')
        self.expect_traffic()

    def test_routes_of_the_kernel(self):
        self.give_kernel("left", {family: f"{prefix}1" for family, (prefix, _) in zip(BITS, ROUTED_NETWORKS["left"])}, ROUTED_LINK)
        for (via, _), (to, bits) in zip(ROUTED_NETWORKS["left"], ROUTED_NETWORKS["right"]):
            self.ip("left", "route", "add", f"{to}/{bits}" if ":" in to else f"{to}0/{bits}", "via", f"{via}254")
        self.serve(f'[[device]]\nname = "uroce0"\ninterface = "{ROUTED_LINK}"\n')
        self.expect_traffic()


class Vlan(ServedTestCase):
    """Addresses in a VLAN; the peer is a process that has a device of its own."""

    VLAN, OTHER = 5, 6
    UNTAGGED = "203.0.113.1"

    def serve_in_vlan(self):
        addresses = [*in_vlan(OURS, self.VLAN), f"{self.UNTAGGED}/24"]
        self.serve(own_device(MAC, addresses))
        self.assertEqual(self.service.status(UROCE)["devices"][0]["addresses"][-3:], addresses)

    def peer_configuration(self):
        return own_device("02:00:00:00:09:02", in_vlan(THEIRS, self.VLAN))

    def start_peer(self, *command):
        return self.start(self.net.command("right", [*command]), self.peer_configuration())

    def perf(self, server, start_client, *options):
        """(exit status, what the client says, its figures)"""
        line = server.stdout.readline()
        self.assertRegex(line, r"port \d+$")
        figures = self.folder / "figures.json"
        server_side = "left" if start_client == self.start_peer else "right"
        status, output = programs.finish(start_client(
            UROCE, "perf", "--connect", f"{self.net.address(server_side)}:{line.split()[-1]}", "--size", "1,4096,100000", "--iterations", "5",
            "--measure", "bandwidth", "--quiet", "--json", str(figures), *options))
        return status, output, json.loads(figures.read_text()) if status == 0 else {}

    def expect_traffic(self):
        for gid in ("1", "2"):
            for server, client in ((self.start_program, self.start_peer), (self.start_peer, self.start_program)):
                with self.subTest(gid=gid, client=client.__name__):
                    serving = server(UROCE, "perf", "--server", "--listen", "0", "--gid-index", gid)
                    status, output, told = self.perf(serving, client, "--gid-index", gid)
                    self.assertEqual(status, 0, output)
                    for operation in ("write", "read", "send"):
                        self.assertGreaterEqual(told[f"{operation}.100000.bytes_verified"], 100000)

    def expect_connections(self):
        """By rdma_cm, from either side."""
        for server, client, to in ((self.start_program, self.start_peer, OURS["v4"]), (self.start_peer, self.start_program, THEIRS["v4"])):
            with self.subTest(to=to):
                listening = server("rping", "-s", "-a", to, "-C", "5", "-V")
                # Nothing tells when it listens; until then it is not there.
                programs.wait_until(lambda: programs.finish(client("rping", "-c", "-a", to, "-C", "5", "-V"))[0] == 0, listening)
                status, output = programs.finish(listening)
                self.assertEqual(status, 0, output)

    def test_programs_meet_the_peer_in_it(self):
        self.serve_in_vlan()
        self.expect_traffic()
        self.expect_connections()

    def test_two_programs_in_it(self):
        self.serve_in_vlan()
        for gid in ("1", "2"):
            server = self.start_program(UROCE, "perf", "--server", "--listen", "0", "--gid-index", gid)
            line = server.stdout.readline()
            status, output = programs.finish(self.start_program(
                UROCE, "perf", "--connect", f"{self.net.address('left')}:{line.split()[-1]}", "--gid-index", gid, "--size", "4096", "--iterations", "5", "--quiet"))
            self.assertEqual(status, 0, output)

    def test_the_same_addresses_in_another_vlan_are_out_of_reach(self):
        self.serve_in_vlan()
        for theirs in (in_vlan(THEIRS, self.OTHER), [f"{address}/{BITS[family]}" for family, address in THEIRS.items()]):
            with self.subTest(theirs[0]):
                self.peer_configuration = lambda theirs=theirs: own_device("02:00:00:00:09:02", theirs)
                server = self.start_program(UROCE, "perf", "--server", "--listen", "0", "--gid-index", "1")
                status, output, _ = self.perf(server, self.start_peer, "--gid-index", "1")
                self.assertEqual(status, 1, output)
                self.assertIn("timed out", output)
                programs.end(server)


class VlanOfKernel(Vlan):
    """The peer is beside an interface of its kernel's, whose frames have tags on the link."""

    def setUp(self):
        super().setUp()
        self.link = self.add_vlan("right")
        self.give_kernel("right", THEIRS, self.link)

    def add_vlan(self, side):
        link = f"{LINK}.{self.VLAN}"
        made = subprocess.run(["ip", "-n", self.net.name(side), "link", "add", "link", LINK, "name", link, "type", "vlan", "id", str(self.VLAN)],
                              capture_output=True, text=True)
        if made.returncode != 0:
            print(f"SKIPPED, no interfaces of VLANs here: {made.stderr.strip()}", file=sys.stderr, flush=True)
            self.skipTest(made.stderr)
        self.ip(side, "link", "set", link, "up")
        return link

    def peer_configuration(self):
        return f'[[device]]\nname = "uroce0"\ninterface = "{self.link}"\n'

    def test_it_answers_in_it(self):
        self.serve_in_vlan()
        for address in OURS.values():
            done = subprocess.run(self.net.command("right", ["ping", "-n", "-c", "1", "-W", "20", address]), capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_a_service_beside_an_interface_of_it(self):
        link = self.add_vlan("left")
        self.give_kernel("left", OURS, link)
        self.serve(f'[[device]]\nname = "uroce0"\ninterface = "{link}"\n')
        self.expect_traffic()
        self.expect_connections()

    test_the_same_addresses_in_another_vlan_are_out_of_reach = None


main()
