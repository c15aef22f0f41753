#!/usr/bin/env python3
"""Devices of the host service come and go while programs are at work: `uroce reload`, over veth pairs in network namespaces.

    tests/programs/uplinks_test.py LIBRARY_FOLDER UROCE [SANITIZER_RUNTIME]
"""

import os
import sys
import time
import unittest

import asyncwatch_test
import host_service
import namespaces
import programs

UROCE = os.path.abspath(sys.argv[2])
LINK, MORE = namespaces.LINK, "uroce-more"
LOCAL = '[[device]]\nname = "local"\nport = "loopback0"\naddresses = ["192.0.2.1/24"]\n'
# How long a pingpong is that devices come and go beside.
ITERATIONS, LOCAL_ITERATIONS = 8000, 25000


def device(name, link, network, own):
    """Beside no kernel's addresses: 198.18.0.0/15 is for tests (RFC 2544)."""
    return (f'[[device]]\nname = "{name}"\nport = "net_af_packet_{name},iface={link}"\nmac = "02:00:00:00:{network:02}:{own:02}"\n'
            f'addresses = ["198.18.{network}.{own}/24"]\n')


NEAR, FAR = device("near", LINK, 1, 1), device("far", LINK, 1, 2)
MORE_NEAR, MORE_FAR = device("more", MORE, 2, 1), device("other", MORE, 2, 2)


class Uplinks(unittest.TestCase):
    def setUp(self):
        self.net = namespaces.Namespaces()
        self.net.__enter__()
        self.addCleanup(self.net.__exit__)
        self.net.join(MORE, 4200)

    def serve(self, configuration):
        service = host_service.Service(self.stack, configuration, within=lambda command: self.net.command("left", command))
        self.addCleanup(service.close)
        return service

    def reload(self, service, *devices, complaint=""):
        self.assertEqual(service.reload(UROCE, "".join(devices)), complaint and f"uroce reload: {service.socket}: {complaint}\n")

    def devices(self, service):
        return {entry["name"]: entry for entry in service.status(UROCE)["devices"]}

    def start(self, side, command, configuration="", service=None):
        process = self.stack.start(["setpriv", "--pdeathsig", "KILL", *self.net.command(side, command)], configuration,
                                   service.environment if service else None)
        self.addCleanup(programs.end, process)
        return process

    def pingpong(self, device_name, iterations):
        return ["ibv_rc_pingpong", "-c", "-g", "1", "-d", device_name, "-n", str(iterations), "-p", "18515"]

    def listening(self, service, device_name, iterations):
        server = self.start("left", self.pingpong(device_name, iterations), service=service)
        programs.wait_until(lambda: programs.listens(18515, server.pid), server)
        return server

    def across(self, service, near, far, far_configuration, iterations):
        """A program of the service, and one behind its uplink."""
        server = self.listening(service, near, iterations)
        return server, self.start("right", [*self.pingpong(far, iterations), self.net.address("left")], far_configuration)

    def expect_success(self, ends, iterations):
        for process in reversed(ends):
            status, output = programs.finish(process, 4 * programs.TIME_LIMIT_SECONDS)
            self.assertEqual(status, 0, output)
            self.assertIn(f"{iterations} iters in", output)
            self.assertNotIn("invalid data", output)

    def test_a_program_works_while_another_uplink_comes_and_goes(self):
        service = self.serve(NEAR)
        # A fast machine is done with few of them before a device has come and gone twice.
        for iterations in (ITERATIONS << (2 * i) for i in range(5)):
            if self.works_while_another_comes_and_goes(service, iterations):
                return
        self.fail("the pingpongs were too short")

    def works_while_another_comes_and_goes(self, service, iterations):
        """False: too short to tell."""
        ends = self.across(service, "near", "far", FAR, iterations)
        times, rates, queue_pairs = 0, set(), set()
        while ends[1].poll() is None:
            self.reload(service, NEAR, MORE_NEAR)
            self.assertEqual(list(self.devices(service)), ["near", "more"])
            self.reload(service, NEAR)
            for program in self.devices(service)["near"]["programs"]:
                queue_pairs.add(program["queue_pairs"])
                rates.add(min(program[f"{unit}_{way}_per_s"] > 0 for unit in ("frames", "bytes") for way in ("sent", "received")))
            times += 1
        self.expect_success(ends, iterations)
        return times > 1 and 1 in queue_pairs and True in rates

    def test_an_uplink_that_is_added_leads_outside(self):
        service = self.serve(LOCAL)
        for _ in range(2):
            self.reload(service, LOCAL, MORE_NEAR)
            self.expect_success(self.across(service, "more", "other", MORE_FAR, 1000), 1000)
            self.reload(service, LOCAL)

    def test_two_programs_of_the_host_work_while_another_device_comes_and_goes(self):
        self.expect_work_on_the_host(kept=LOCAL)

    def test_two_programs_of_the_host_work_while_their_own_device_comes_and_goes(self):
        """They have a channel to each other."""
        self.expect_work_on_the_host(kept="")

    def expect_work_on_the_host(self, kept):
        service = self.serve(LOCAL + NEAR)
        # A fast machine is done with few of them before a device has come and gone twice.
        for iterations in (LOCAL_ITERATIONS << (2 * i) for i in range(5)):
            if self.times_while_they_work(service, kept, iterations) > 1:
                return
        self.fail("the pingpongs were too short")

    def times_while_they_work(self, service, kept, iterations):
        ends = [self.listening(service, "local", iterations)]
        ends.append(self.start("left", [*self.pingpong("local", iterations), "127.0.0.1"], service=service))
        times = 0
        while ends[1].poll() is None:
            # Long enough for them to begin, and to come back before the device goes again.
            time.sleep(1)
            self.reload(service, kept, MORE_NEAR)
            self.assertEqual("local" in self.devices(service), bool(kept))
            self.reload(service, LOCAL, NEAR)
            times += 1
        self.expect_success(ends, iterations)
        return times

    def watch(self, service, device_name):
        watch = asyncwatch_test.Watch(self.net.command("left", ["ibv_asyncwatch", "-d", device_name]),
                                      self.stack.environment("", service.environment))
        self.addCleanup(watch.end)
        watch.wait_for("async event FD")
        return watch

    def test_the_programs_of_a_device_come_back_with_it(self):
        service = self.serve(NEAR + MORE_NEAR)
        watch = self.watch(service, "more")
        numbers = self.devices(service)["more"]["programs"][0]["numbers"]
        for _ in range(2):
            self.reload(service, NEAR)
            watch.wait_for("IBV_EVENT_PORT_ERR (10), port 1")
            self.reload(service, NEAR, MORE_NEAR)
            watch.wait_for("IBV_EVENT_PORT_ACTIVE (9), port 1")
            self.assertEqual([program["numbers"] for program in self.devices(service)["more"]["programs"]], [numbers])
        # Receive another MTU for the device. Expect: it is opened anew.
        self.reload(service, NEAR, MORE_NEAR + "mtu = 2000\n")
        watch.wait_for("IBV_EVENT_PORT_ERR (10), port 1")
        watch.wait_for("IBV_EVENT_PORT_ACTIVE (9), port 1")
        self.assertEqual(self.devices(service)["more"]["mtu"], 2000)

    def test_an_interface_goes_and_comes_back(self):
        self.expect_return_of_an_interface(MORE_NEAR)

    def test_an_interface_of_the_kernel_goes_and_comes_back(self):
        self.expect_return_of_an_interface(f'[[device]]\nname = "more"\ninterface = "{MORE}"\n')

    def expect_return_of_an_interface(self, more):
        left = self.net.name("left")
        mac = "02:00:00:00:02:01"

        def configure():
            namespaces.ip("-n", left, "link", "set", MORE, "address", mac)
            namespaces.ip("-n", left, "address", "add", "198.18.3.1/24", "dev", MORE)

        configure()
        service = self.serve(NEAR + more)
        watch = self.watch(service, "more")
        namespaces.ip("-n", left, "link", "delete", MORE)
        watch.wait_for("IBV_EVENT_PORT_ERR (10), port 1")
        # Receive the configuration again. Expect: what can be seen from the service stays.
        self.reload(service, NEAR, more, complaint=f"more: there is no interface {MORE}")
        self.assertEqual({name: entry["up"] for name, entry in self.devices(service).items()}, {"near": True, "more": False})
        self.expect_success(self.across(service, "near", "far", FAR, 1000), 1000)
        self.net.join(MORE, 4200)
        configure()
        self.reload(service, NEAR, more)
        watch.wait_for("IBV_EVENT_PORT_ACTIVE (9), port 1")
        self.assertTrue(self.devices(service)["more"]["up"])
        self.assertIsNone(service.process.poll())

    def test_a_mistake_changes_nothing(self):
        service = self.serve(NEAR)
        ends = self.across(service, "near", "far", FAR, ITERATIONS)
        mistakes = [
            (NEAR + '[[device]]\nname = "none"\nport = "net_af_packet_none,iface=none0"\n', "none: net_af_packet_none: "),
            (MORE_NEAR + device("twice", MORE, 2, 1), "twice: address 198.18.2.1 is more's already"),
            (NEAR + MORE_NEAR + "[service]\nprogram = 1\n", "service.program: unknown key"),
            (NEAR + MORE_NEAR + "mut = 1\n", "device.mut: unknown key"),
            (NEAR + MORE_NEAR + "[[device]\n", "serve.toml:"),
        ]
        while ends[1].poll() is None:
            for configuration, naming in mistakes:
                complaint = service.reload(UROCE, configuration)
                self.assertIn(naming, complaint)
                self.assertEqual(len(complaint.splitlines()), 1, complaint)
                self.assertEqual(list(self.devices(service)), ["near"])
        self.expect_success(ends, ITERATIONS)


if __name__ == "__main__":
    why = namespaces.why_not()
    if why is not None:
        print(f"SKIPPED: {why}")
        sys.exit(programs.SKIPPED)
    sys.argv = [sys.argv[0], sys.argv[1], *sys.argv[3:]]
    programs.main("ibv_rc_pingpong", "ibv_asyncwatch")
