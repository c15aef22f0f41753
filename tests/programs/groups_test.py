#!/usr/bin/env python3
"""Multicast groups behind what forwards them only to members: a bridge that snoops IGMP and MLD and has a querier, as switches
do, and an interface that filters MACs, as NICs do. Beside the kernel, and with ports of our own, which have to be found by
neighbour discovery as well.

    tests/programs/groups_test.py LIBRARY_FOLDER UROCE MEMBER [SANITIZER_RUNTIME]
"""

import json
import subprocess
import sys
import threading
import time
from pathlib import Path

import host_service
import programs
from namespaces import LINK, RELAYED_LINK, SIDES

MEMBER = str(Path(sys.argv[3]).resolve())
del sys.argv[3]
from ports import TestCase, main  # noqa: E402  (it reads the arguments)

BRIDGE = "uroce-bridge"
FILTERED_LINK = "uroce-filtered"
GROUPS = {"v4": "239.1.2.3", "v6": "ff0e::1:2"}
AS_GID = {"v4": "::ffff:239.1.2.3", "v6": "ff0e::1:2"}
GID_INDEX = {"v4": "1", "v6": "2"}
# Of the querier, in hundredths of a second. What no report has named for MEMBERSHIP is forgotten.
SHORT = {"mcast_query_interval": 100, "mcast_startup_query_interval": 100, "mcast_query_response_interval": 50,
         "mcast_last_member_interval": 50, "mcast_membership_interval": 300}
MEMBERSHIP_SECONDS = 3
LONG_MEMBERSHIP = 60000
# The versions of IGMP and MLD that the querier speaks.
OLDER, NEWER = (2, 1), (3, 2)


class Groups(TestCase):
    def setUp(self):
        super().setUp()
        self.need("af-packet")
        self.net = self.namespaces(mtu=1500, tcp=False)

    def ip(self, place, *arguments):
        done = subprocess.run(["ip", "-n", self.net.name(place), *arguments], capture_output=True, text=True, check=False)
        return done.stderr.strip() if done.returncode != 0 else ""

    def must(self, place, *arguments):
        self.assertEqual(self.ip(place, *arguments), "", arguments)

    def skip_without(self, complaint, what):
        """A kernel may not have it."""
        if complaint:
            print(f"SKIPPED {what}: {complaint}", file=sys.stderr, flush=True)
            self.skipTest(f"the kernel has no {what}: {complaint}")

    def until(self, condition, what):
        deadline = time.monotonic() + programs.TIME_LIMIT_SECONDS
        while not condition():
            self.assertLess(time.monotonic(), deadline, what)
            time.sleep(0.05)

    # ---- The network

    def add_bridge(self):
        """Between RELAYED_LINK of both sides."""
        ends = self.net.add_relay()
        options = [word for name, value in SHORT.items() for word in (name, str(value))]
        self.skip_without(self.ip("middle", "link", "add", BRIDGE, "type", "bridge", "mcast_snooping", "1", "mcast_querier", "1", *options),
                          "bridge with a querier")
        for end in ends.values():
            self.must("middle", "link", "set", end, "master", BRIDGE)
        self.must("middle", "link", "set", BRIDGE, "up")
        # Without an address of its own it asks no IPv6 hosts.
        self.must("middle", "address", "add", "fe80::b/64", "dev", BRIDGE, "nodad")
        self.ends = ends

    def set_bridge(self, **options):
        words = [word for name, value in options.items() for word in (name, str(value))]
        self.must("middle", "link", "set", BRIDGE, "type", "bridge", *words)

    def set_versions(self, versions):
        self.set_bridge(mcast_igmp_version=versions[0], mcast_mld_version=versions[1])

    def members(self, side="right"):
        """The groups that the bridge forwards to that side."""
        done = subprocess.run(["ip", "netns", "exec", self.net.middle, "bridge", "-j", "mdb", "show", "dev", BRIDGE], capture_output=True,
                              text=True, check=True)
        return {entry["grp"] for table in json.loads(done.stdout) for entry in table.get("mdb", []) if entry["port"] == self.ends[side]}

    def give_kernel_addresses(self, links):
        for own, side in enumerate(SIDES, 1):
            for address in (f"192.0.2.{own}/24", f"2001:db8::{own}/64"):
                self.must(side, "address", "add", address, "dev", links[side], *(["nodad"] if ":" in address else []))

    # ---- Devices and programs

    @staticmethod
    def beside(link, mode="packet"):
        return f'[[device]]\ninterface = "{link}"\nmode = "{mode}"\n'

    @staticmethod
    def own(port, side, link):
        own = 1 + SIDES.index(side)
        return f'[[device]]\nport = "{port}0,iface={link}"\naddresses = ["192.0.2.{own}/24", "2001:db8::{own}/64"]\n'

    def program(self, side, configuration, *words, more=None):
        process = self.stack.start(self.net.command(side, ["setpriv", "--pdeathsig", "KILL", MEMBER, *words]), configuration, more,
                                   stdin=subprocess.PIPE)
        self.addCleanup(programs.end, process)
        return process

    def said(self, process, word):
        alarm = threading.Timer(programs.TIME_LIMIT_SECONDS, process.kill)
        alarm.start()
        line = process.stdout.readline().strip()
        alarm.cancel()
        if line != word:
            process.kill()
            self.fail(f"{process.args}: {line!r} in place of {word!r}\n{programs.said_by(process)}")

    def member(self, family, configuration, more=None):
        process = self.program("right", configuration, "receive", GID_INDEX[family], AS_GID[family], "3", more=more)
        self.said(process, "member")
        return process

    def expect_delivery(self, family, member, configuration):
        """What the left side sends comes to the member."""
        sender = self.program("left", configuration, "send", GID_INDEX[family], AS_GID[family])
        self.said(member, "received")
        status, output = self.end(sender)
        self.assertEqual(status, 0, output)

    @staticmethod
    def end(process):
        process.stdin.close()
        process.stdin = None
        return programs.finish(process)

    def leave(self, member):
        member.stdin.write("\n")
        member.stdin.flush()
        self.said(member, "left")

    def expect_membership(self, family, right, left, more=None):
        """The switch learns of it, is answered as long as it lasts, and learns of its end."""
        group = GROUPS[family]
        self.assertNotIn(group, self.members())
        member = self.member(family, right, more)
        self.until(lambda: group in self.members(), "the switch does not learn of the member")
        time.sleep(2 * MEMBERSHIP_SECONDS)
        self.until(lambda: group in self.members(), "the switch's questions are not answered")
        self.expect_delivery(family, member, left)
        # From here on it learns only by being told in time. A report sets the time anew.
        self.set_bridge(mcast_membership_interval=LONG_MEMBERSHIP)
        time.sleep(2)
        self.leave(member)
        self.until(lambda: group not in self.members(), "the switch does not learn that the member has left")
        status, output = self.end(member)
        self.assertEqual(status, 0, output)
        self.set_bridge(mcast_membership_interval=SHORT["mcast_membership_interval"])

    def expect_found(self, address):
        """By the kernel of the left side, which asks by neighbour discovery."""
        def answered():
            return subprocess.run(self.net.command("left", ["ping", "-6", "-c", "1", "-W", "1", address]), capture_output=True,
                                  check=False).returncode == 0
        self.until(answered, f"{address} is not found")

    # ---- The tests

    def test_switch_beside_the_kernel(self):
        self.add_bridge()
        self.give_kernel_addresses({side: RELAYED_LINK for side in SIDES})
        device = self.beside(RELAYED_LINK)
        for family in GROUPS:
            with self.subTest(family):
                self.expect_membership(family, device, device)

    def test_switch_with_ports_of_our_own(self):
        self.add_bridge()
        for versions, port, families in ((OLDER, "net_af_packet", ("v4", "v6")), (NEWER, "packet", ("v4", "v6"))):
            self.set_versions(versions)
            for family in families:
                with self.subTest(port=port, family=family):
                    self.expect_membership(family, self.own(port, "right", RELAYED_LINK), self.own(port, "left", RELAYED_LINK))

    def test_switch_and_programs_of_a_service(self):
        """The group is the device's as long as one of its programs is a member; a program that is killed is none."""
        self.add_bridge()
        self.give_kernel_addresses({side: RELAYED_LINK for side in SIDES})
        device = self.beside(RELAYED_LINK)
        group = GROUPS["v4"]
        with host_service.Service(self.stack, device, lambda command: self.net.command("right", command)) as service:
            first, second = (self.member("v4", "", service.environment) for _ in range(2))
            self.until(lambda: group in self.members(), "the switch does not learn of the members")
            self.expect_delivery("v4", first, device)
            self.said(second, "received")
            self.set_bridge(mcast_membership_interval=LONG_MEMBERSHIP)
            time.sleep(2)
            self.leave(first)
            time.sleep(2)
            self.assertIn(group, self.members())
            second.kill()
            self.until(lambda: group not in self.members(), "the switch does not learn that the last member is gone")

    def test_address_of_our_own_behind_a_switch(self):
        """Neighbour discovery asks the solicited-node group, which the switch forwards to its members only."""
        self.add_bridge()
        self.give_kernel_addresses({side: RELAYED_LINK for side in SIDES})
        self.must("right", "address", "flush", "dev", RELAYED_LINK)
        for versions in OLDER, NEWER:
            with self.subTest(versions):
                self.set_versions(versions)
                device = self.program("right", self.own("net_af_packet", "right", RELAYED_LINK), "idle", "0")
                self.said(device, "ready")
                self.until(lambda: "ff02::1:ff00:2" in self.members(), "the switch does not learn of the solicited-node group")
                time.sleep(2 * MEMBERSHIP_SECONDS)
                self.until(lambda: "ff02::1:ff00:2" in self.members(), "the switch's questions are not answered")
                self.must("left", "neigh", "flush", "dev", RELAYED_LINK)
                self.expect_found("2001:db8::2")
                status, output = self.end(device)
                self.assertEqual(status, 0, output)
                self.until(lambda: "ff02::1:ff00:2" not in self.members(), "the group stays without a member")

    def test_interface_that_filters(self):
        self.skip_without(self.ip("right", "link", "add", FILTERED_LINK, "link", LINK, "type", "macvlan", "mode", "bridge"), "macvlan")
        self.must("right", "link", "set", FILTERED_LINK, "addrgenmode", "none", "up")
        sender = self.own("packet", "left", LINK)
        for port in "net_af_packet", "packet":
            with self.subTest(port):
                member = self.member("v4", self.own(port, "right", FILTERED_LINK))
                self.expect_delivery("v4", member, sender)
                self.must("left", "address", "add", "2001:db8::9/64", "dev", LINK, "nodad")
                self.expect_found("2001:db8::2")
                self.must("left", "address", "del", "2001:db8::9/64", "dev", LINK)
                self.leave(member)
                self.assertEqual(self.end(member)[0], 0)
        for address in ("192.0.2.2/24", "2001:db8::2/64"):
            self.must("right", "address", "add", address, "dev", FILTERED_LINK, *(["nodad"] if ":" in address else []))
        for family in GROUPS:
            with self.subTest("beside the kernel", family=family):
                member = self.member(family, self.beside(FILTERED_LINK))
                self.expect_delivery(family, member, sender)
                self.leave(member)
                self.assertEqual(self.end(member)[0], 0)


main()
