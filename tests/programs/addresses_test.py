#!/usr/bin/env python3
"""Addresses of devices as programs see them: the zone of a link-local address chooses the link, rdma_cm says it of each end,
and every GID has a network interface, the same for verbs and in /sys/class/infiniband.

    tests/programs/addresses_test.py LIBRARY_FOLDER SANITIZER_RUNTIME UROCE CM_ADDRESSES GID_ENTRIES
"""

import re
import shutil
import subprocess
import sys
import time
import unittest
from pathlib import Path

import host_service
import namespaces
import ordinary
import programs

UROCE, CM_ADDRESSES, GID_ENTRIES = (str(Path(argument).resolve()) for argument in sys.argv[3:6])
LINKS = ("uroce-e0", "uroce-e1")
DEVICES = dict(zip(LINKS, ("first", "second")))
TWO_DEVICES = "".join(f'[[device]]\nname = "{name}"\ninterface = "{link}"\n' for link, name in DEVICES.items())
PORT = 7471


class TwoLinks(namespaces.Namespaces):
    """Two hosts with two links between them, and link-local addresses alone."""

    def __init__(self):
        super().__init__(tcp=False)
        self.address = {}  # by (side, link)

    def _make(self):
        super()._make()
        for link in LINKS:
            self.join(link, 1500)
            for side in namespaces.SIDES:
                self.address[side, link] = self.give_address(side, link)

    def give_address(self, side, link):
        """Made of the MAC, as GID 0 is."""
        namespaces.ip("-n", self.name(side), "link", "set", link, "down", "addrgenmode", "eui64")
        namespaces.ip("-n", self.name(side), "link", "set", link, "up")
        while True:
            said = namespaces.ip("-n", self.name(side), "-6", "-o", "address", "show", "dev", link, "scope", "link", "-tentative")
            if found := re.search(r"inet6 (fe80::[0-9a-f:]+)/", said):
                return found[1]
            time.sleep(0.05)


class Started(unittest.TestCase):
    def start(self, command, configuration=None, more=None, **options):
        process = self.stack.start(["setpriv", "--pdeathsig", "KILL", *command], configuration, more, **options)
        self.addCleanup(programs.end, process)
        return process

    def said(self, command, configuration=None, more=None):
        status, output = programs.finish(self.start(command, configuration, more))
        self.assertEqual(status, 0, output)
        return output.strip()


@unittest.skipIf(namespaces.why_not(), namespaces.why_not())
class Zones(Started):
    @classmethod
    def setUpClass(cls):
        cls.net = cls.enterClassContext(TwoLinks())

    def serve(self):
        """A service with both devices."""
        return self.enterContext(host_service.Service(self.stack, TWO_DEVICES, lambda command: self.net.command("left", command)))

    def check_zones(self, configuration, environment=None):
        def ask(*arguments):
            return self.said(self.net.command("left", [CM_ADDRESSES, *arguments]), configuration, environment)

        left = {link: self.net.address["left", link] for link in LINKS}
        right = {link: self.net.address["right", link] for link in LINKS}
        for link in LINKS:
            other = LINKS[1 - LINKS.index(link)]
            here, there = f"{left[link]}%{link}", f"{right[link]}%{link}"
            for bound in (here, left[link]):
                self.assertEqual(ask("bind", bound).split()[:2], [DEVICES[link], here])
            self.assertEqual(ask("resolve", there), f"{DEVICES[link]} {here} {there}")
            self.assertEqual(ask("resolve", there, here), f"{DEVICES[link]} {here} {there}")
            # The other host's is on no other link, nor is ours.
            self.assertEqual(ask("resolve", f"{right[link]}%{other}"), "RDMA_CM_EVENT_ADDR_ERROR")
            self.assertEqual(ask("bind", f"{left[link]}%{other}"), "ENODEV")
            self.assertEqual(ask("bind", f"{left[link]}%lo"), "ENODEV")
            self.assertEqual(ask("resolve", f"{right[link]}%lo"), "ENODEV")
            self.assertEqual(ask("resolve", f"{right[link]}%{other}", here), "EINVAL")
            group = f"ff02::4711%{link}"
            self.assertEqual(ask("resolve", group), f"{DEVICES[link]} {here} {group}")
            self.assertEqual(ask("join", group, here).split()[:2], [DEVICES[link], here])
            self.assertEqual(ask("join", f"ff02::4711%{other}", here), "EINVAL")

    def test_of_devices_of_its_own(self):
        self.check_zones(TWO_DEVICES)

    def test_of_devices_of_a_service(self):
        self.check_zones("", self.serve().environment)

    @unittest.skipUnless(shutil.which("rping"), "rping is not installed (Debian's package rdmacm-utils has it)")
    def test_connections_by_each_link(self):
        service = self.serve()
        for link in LINKS:
            with self.subTest(link):
                server = self.start(self.net.command("right", ["rping", "-s", "-a", "::", "-p", str(PORT), "-C", "3"]), TWO_DEVICES)
                for _ in range(100):
                    status, output = programs.finish(self.start(self.net.command("left", [
                        "rping", "-c", "-v", "-C", "3", "-p", str(PORT), "-a", f"{self.net.address['right', link]}%{link}"]), "", service.environment))
                    if status == 0:
                        break
                    self.assertIsNone(server.poll(), output)
                    time.sleep(0.1)  # it does not listen yet
                self.assertEqual(output.count("ping data: rdma-ping"), 3, output)
                self.assertEqual(programs.finish(server)[0], 0)


class ThisHost(Started):
    """127.0.0.1 is a device before a destination says which, where it can be no other."""

    def bound(self, service):
        return self.said([CM_ADDRESSES, "bind", "127.0.0.1"], "", service.environment).split()[:2]

    def test_device_inside_the_host(self):
        self.assertEqual(self.bound(self.enterContext(host_service.Service(self.stack))), ["uroce0", "127.0.0.1"])

    def test_two_devices(self):
        second = host_service.DEVICE.replace("uroce0", "uroce1").replace("loopback0", "loopback3").replace(".1/", ".2/").replace(":1/", ":2/")
        self.assertEqual(self.bound(self.enterContext(host_service.Service(self.stack, host_service.DEVICE + second))), ["-", "127.0.0.1"])

    @unittest.skipIf(namespaces.why_not(), namespaces.why_not())
    def test_device_that_others_reach(self):
        with namespaces.Namespaces(tcp=False) as net:
            within = lambda command: net.command("left", command)  # noqa: E731
            namespaces.ip("-n", net.name("left"), "address", "add", "203.0.113.1/24", "dev", namespaces.LINK)
            service = self.enterContext(host_service.Service(self.stack, f'[[device]]\nname = "uroce0"\ninterface = "{namespaces.LINK}"\n', within))
            said = self.said(within([CM_ADDRESSES, "bind", "127.0.0.1"]), "", service.environment)
            self.assertEqual(said.split()[:2], ["-", "127.0.0.1"])


class GidEntries(Started):
    """(GID, interface) by index, of a device."""

    def entries(self, said, device="uroce0"):
        lines = [line.split() for line in said.splitlines() if line.startswith(f"{device} ")]
        entries = {}
        for _, index, gid, kind, interface, file_kind, file_interface in (line for line in lines if len(line) == 7):
            self.assertEqual((kind, interface), (file_kind, file_interface), said)
            self.assertEqual(kind, "RoCE_v2")
            entries[int(index)] = gid, interface
        (_, types, _, ndevs), = ([line[0], int(line[2]), line[3], int(line[4])] for line in lines if len(line) == 5)
        self.assertEqual(types, ndevs)
        self.assertGreater(types, max(entries), "each GID has its files")
        self.assertEqual(len({gid for gid, _ in entries.values()}), len(entries), f"a GID twice:\n{said}")
        return entries

    def run_program(self, *options, within=lambda command: command, more=None):
        return self.said(within([UROCE, "run", *options, "--", GID_ENTRIES]), "", more)

    def shown(self):
        """Whether `uroce run` can show files here."""
        output = self.said([UROCE, "info", "--port", "loopback0"], "")
        return "not shown" not in next(line for line in output.splitlines() if "device files" in line)

    def setUp(self):
        if not self.shown():
            self.skipTest("there are no device files here")

    def test_of_a_device_without_an_interface(self):
        entries = self.entries(self.run_program("--port", "loopback0", "--name", "uroce0", "--ip", "127.0.0.1/32,192.0.2.1/24"))
        self.assertEqual([gid for gid, _ in entries.values()][1:], ["::ffff:127.0.0.1", "::ffff:192.0.2.1"])
        self.assertEqual(entries[1][1], "lo", "the kernel's interface with that address")

    def test_of_a_service_without_an_interface(self):
        service = self.enterContext(host_service.Service(self.stack))
        entries = self.entries(self.run_program(more=service.environment))
        self.assertEqual([gid for gid, _ in entries.values()][1:], [f"::ffff:{host_service.ADDRESS}", host_service.ADDRESS6])

    @unittest.skipIf(namespaces.why_not(), namespaces.why_not())
    def test_beside_the_kernel_and_of_a_service_there(self):
        with TwoLinks() as net:
            link = LINKS[0]
            address = net.address["left", link]
            for more in ("203.0.113.1/24", "2001:db8::1/64"):
                namespaces.ip("-n", net.name("left"), "address", "add", more, "dev", link, *(["nodad"] if ":" in more else []))
            within = lambda command: net.command("left", command)  # noqa: E731
            expected = [(address, link), ("::ffff:203.0.113.1", link), ("2001:db8::1", link)]
            entries = self.entries(self.run_program("--interface", link, "--name", "uroce0", within=within))
            self.assertEqual(list(entries.values()), expected)
            self.assertEqual(list(entries), [0, 1, 2], "indexes in a row")
            service = self.enterContext(host_service.Service(self.stack, f'[[device]]\nname = "uroce0"\ninterface = "{link}"\n', within))
            entries = self.entries(self.run_program(within=within, more=service.environment))
            self.assertEqual(list(entries.values()), expected)
            # An address that comes takes the next index, which has its files already.
            program = self.start(within([UROCE, "run", "--", GID_ENTRIES, "again"]), "", service.environment, stdin=subprocess.PIPE)
            while not program.stdout.readline().startswith("uroce0 types"):
                pass
            namespaces.ip("-n", net.name("left"), "address", "add", "203.0.113.9/24", "dev", link)
            time.sleep(0.5)
            said = program.communicate("")[0]
            self.assertEqual(self.entries(said)[3], ("::ffff:203.0.113.9", link))
            # In another network namespace the interface is not there, whatever has its index.
            entries = self.entries(self.run_program(within=lambda command: net.command("right", command), more=service.environment))
            self.assertNotIn(link, [interface for _, interface in entries.values()])


if __name__ == "__main__":
    programs.main("ip", "setpriv")
