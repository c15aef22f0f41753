#!/usr/bin/env python3
"""Other people's programs that connect by the connection manager, unmodified, between two of our processes: the rows of
cm_rows.py over a veth pair or memif, some of them beside the kernel, and between two programs of one host service, by its address
or by 127.0.0.1 and ::1; IPv4 and IPv6; and what happens when an end is killed.

    tests/programs/rdmacm_test.py LIBRARY_FOLDER SANITIZER_RUNTIME NOTICE_LIBRARY LEAVING_PROGRAM LINK [REPETITIONS]

LINK is memif, veth, interface, host or local. Rows whose name contains $UROCE_RDMACM are run, when it is set. With REPETITIONS each has to work so many times, while the
CPUs are busy with something else.

Decision: repeated rows of perftest's -R do not wait until the server listens for the second time: the race between its two ends is tried.
"""

import json
import os
import shlex
import sys
import time
import unittest
from pathlib import Path

import cm_rows
import host_service
import namespaces
import programs
from cm_links import (
    ABSENT, BY_ADDRESS, BY_LOOPBACK, CLIENT, ON_LINK, ROUTED, SERVER, HostPair, InterfacePair, MemifPair, VethPair, give_address)
from cm_rows import CM, V4, V6

OF_HOST = sys.argv[5] in ("host", "local")
# Where programs meet by the kernel's TCP as well, other tests may want the port at the same time.
PORT = programs.free_tcp_port() if OF_HOST else 7471
REPETITIONS = int(sys.argv[6]) if len(sys.argv) > 6 else 1
# Far more than any row needs; a request without an answer is sent seven times.
LIMIT_SECONDS = 300
# Of a server whose client has failed, and that may wait for ever.
LEFT_ALONE_SECONDS = 5
# Of a client whose server is killed: 67 ms, as perftest has it without -R. It gives up after dozens of these, and the connection
# manager's are half a second; the client of the guest that is killed (tests/interop) has those.
SHORT_ACK_TIMEOUT = {"UROCE_TEST_ACK_TIMEOUT": "14"}
NEEDED = ["rping", "ucmatose", "udaddy", "cmtime", "rdma_server", "rdma_xserver", "mckey", "ib_send_bw", "qperf"]


class Programs:
    """`pair()` makes a link with no host on it."""

    network = ON_LINK

    @staticmethod
    def families(row):
        return row.families

    def rows(self, begins):
        only = os.environ.get("UROCE_RDMACM", "")
        for row in cm_rows.ROWS:
            for family in self.families(row):
                name = f"{row.name}, {family}"
                if row.name.startswith(begins) and only in name and (self.has_tcp or row.ready == CM):
                    with self.subTest(name):
                        self.run_row(row, family)

    def run_row(self, row, family):
        began = time.monotonic()
        problems = [problem for _ in range(REPETITIONS) if (problem := self.problem_of(row, family))]
        result = f"FAILED {len(problems)} of {REPETITIONS}" if problems else "ok"
        print(f"{result:6} {time.monotonic() - began:5.1f} s  {row.name}, {family}", flush=True)
        self.assertFalse(problems, "\n".join(problems[:3]))

    def problem_of(self, row, family):
        """What went wrong, and all that was said then."""
        with self.pair() as pair:
            complaints, said = [], []

            def judge(who, process, says, fails=False, limit=LIMIT_SECONDS):
                try:
                    status, output = programs.finish(process, limit)
                except AssertionError as hangs:
                    complaints.append(str(hangs))
                    return
                said.append(f"--- {who}: {' '.join(process.args)}\n{output}")
                complaints.extend(cm_rows.complaints(who, status, output, says, fails))

            host = pair.host(SERVER)
            server = host.start_server(self.command(row.server, family), None if row.ready == CM else PORT)
            for _ in range(row.clients):
                client = pair.host(CLIENT).start(self.command(row.client, family), host if row.listens_late and REPETITIONS == 1 else None)
                judge("the client", client, row.client_says, row.client_fails)
            if row.endless:
                if server.poll() is not None:
                    complaints.append(f"the server has ended with status {server.returncode}:\n{programs.said_by(server)}")
            else:
                judge("the server", server, row.server_says, limit=LEFT_ALONE_SECONDS if complaints else LIMIT_SECONDS)
            return "\n".join([*complaints, *said]) if complaints else ""

    def command(self, text, family):
        address = self.network.address
        return shlex.split(text.format(
            server=address(SERVER, family), client=address(CLIENT, family), absent=address(ABSENT, family), port=PORT,
            any=cm_rows.ANY[family], group=cm_rows.GROUP[family]))


class AllPrograms(Programs):
    def test_rping(self):
        self.rows("rping")

    def test_ucmatose(self):
        self.rows("ucmatose")

    def test_udaddy(self):
        self.rows("udaddy")

    def test_cmtime(self):
        self.rows("cmtime")

    def test_synchronous_endpoints(self):
        self.rows("rdma_")

    def test_multicast(self):
        self.rows("mckey")

    def test_perftest(self):
        self.rows("ib_")

    def test_qperf(self):
        self.rows("qperf")

    def test_a_program_that_ends_with_an_open_connection_says_goodbye(self):
        with self.pair() as pair:
            server = pair.host(SERVER).start_server(f"rping -s -a 0.0.0.0 -p {PORT}".split())
            client = pair.host(CLIENT).start([self.leaver, self.network.address(SERVER, V4), str(PORT)])
            status, output = programs.finish(client, LIMIT_SECONDS)
            self.assertEqual(status, 0, output)
            _, output = programs.finish(server, LIMIT_SECONDS)
            self.assertIn("server DISCONNECT EVENT", output)


class OverMemif(AllPrograms, unittest.TestCase):
    has_tcp = False  # to the addresses of our devices

    @staticmethod
    def families(row):
        """rping has both; what else the family of addresses changes is above the ports, and tried over the others."""
        return row.families if row.name.startswith("rping") else row.families[:1]

    def pair(self):
        return MemifPair(self.stack, self.notice)


class OverVeth(AllPrograms, unittest.TestCase):
    has_tcp = True

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.net = cls.enterClassContext(namespaces.Namespaces(mtu=4200))
        # The kernel has the same addresses on another link, and says nothing of them on ours: qperf meets its server by TCP
        # at the address that it then connects to, and getaddrinfo() knows IPv6 only where the host has such an address.
        for side, number in zip(namespaces.SIDES, (SERVER, CLIENT)):
            namespace = cls.net.name(side)
            namespaces.ip("-n", namespace, "link", "set", namespaces.LINK, "arp", "off")
            for family in (V4, V6):
                give_address(namespace, ON_LINK.address(number, family), family, namespaces.TCP_LINK)

    def pair(self):
        return VethPair(self.stack, self.notice, self.net)

    def sent(self, side):
        """Bytes on our link."""
        told = namespaces.ip("-n", self.net.name(side), "-json", "-statistics", "link", "show", namespaces.LINK)
        return json.loads(told)[0]["stats64"]["tx"]["bytes"]

    def test_a_client_notices_a_killed_server(self):
        for tool in ("ib_write_bw", "ib_read_bw"):
            with self.subTest(tool), self.pair() as pair:
                command = f"{tool} -R -F -p {PORT} -s 65536 -D 600"
                host = pair.host(SERVER)
                server = host.start_server(command.split())
                before = self.sent("left") + self.sent("right")
                client = pair.host(CLIENT).start([*command.split(), ON_LINK.address(SERVER, V4)], host, SHORT_ACK_TIMEOUT)
                # So many are messages, whatever is said to connect.
                programs.wait_until(lambda: self.sent("left") + self.sent("right") > before + (10 << 20), client)
                server.kill()
                status, output = programs.finish(client, LIMIT_SECONDS)
                self.assertNotEqual(status, 0, output)
                self.assertIn("error", output)


class BesideTheKernel(Programs, unittest.TestCase):
    """The kernel knows which host is reached by which way."""

    has_tcp = False

    def setUp(self):
        self.net = self.enterContext(namespaces.Namespaces(mtu=4200, tcp=False))
        self.link = namespaces.LINK
        self.network = ON_LINK

    def give_addresses(self):
        for side, number in zip(namespaces.SIDES, (SERVER, CLIENT)):
            for family in (V4, V6):
                give_address(self.net.name(side), self.network.address(number, family), family, self.link)

    def pair(self):
        return InterfacePair(self.stack, self.notice, self.net, self.link)

    def test_on_the_link(self):
        self.give_addresses()
        for begins in ("rping", "udaddy", "ucmatose, no such", "ib_send_bw"):
            self.rows(begins)

    def test_behind_a_router(self):
        self.net.add_router()
        self.link, self.network = namespaces.ROUTED_LINK, ROUTED
        self.give_addresses()
        self.net.add_routes()
        for begins in ("rping of 100 bytes", "udaddy of ten"):
            self.rows(begins)


class OfOneHost(AllPrograms, unittest.TestCase):
    """Programs of one service, by the address that all of them have."""

    has_tcp = False
    network = BY_ADDRESS

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.service = cls.enterClassContext(host_service.Service(cls.stack))

    def pair(self):
        return HostPair(self.stack, self.notice, self.service)

    def expect_success(self, process, says):
        status, output = programs.finish(process, LIMIT_SECONDS)
        self.assertEqual(status, 0, output)
        self.assertRegex(output, says)

    def test_a_port_of_another_program_is_in_use(self):
        with self.pair() as pair:
            for address in ("0.0.0.0", self.network.address(SERVER, V4)):
                holder = pair.host(SERVER).start_server(f"rping -s -a {address} -p {PORT}".split())
                for wanted in (address, "0.0.0.0"):
                    status, output = programs.finish(pair.host(CLIENT).start(f"rping -s -a {wanted} -p {PORT}".split()))
                    self.assertNotEqual(status, 0, output)
                    self.assertIn("Address already in use", output)
                holder.kill()
                holder.wait()

    def test_each_listens_at_an_address_of_its_own(self):
        addresses = ("127.0.0.1", host_service.ADDRESS, host_service.ADDRESS6)
        with self.pair() as pair:
            servers = [pair.host(number).start_server(f"rping -s -v -a {address} -p {PORT}".split())
                       for number, address in enumerate(addresses)]
            for count, (address, server) in enumerate(zip(addresses, servers), 1):
                client = pair.host(CLIENT).start(f"rping -c -v -V -a {address} -p {PORT} -C {count}".split())
                self.expect_success(client, f"ping data: rdma-ping-{count - 1}: ")
                _, output = programs.finish(server)
                self.assertEqual(output.count("server ping data"), count, output)

    def test_three_programs_at_once_connect_to_one(self):
        with self.pair() as pair:
            server = pair.host(SERVER).start_server(f"ucmatose -p {PORT} -c 3 -C 100 -S 5000".split())
            address = self.network.address(SERVER, V4)
            clients = [pair.host(number).start(f"ucmatose -s {address} -p {PORT} -C 100 -S 5000".split()) for number in range(3)]
            for process in (*clients, server):
                self.expect_success(process, "data transfers complete(?s:.*)return status 0")

    def test_a_client_notices_a_killed_server(self):
        for tool in ("ib_write_bw", "ib_read_bw"):
            with self.subTest(tool), self.pair() as pair:
                command = f"{tool} -R -F -p {PORT} -s 65536 -D 600"
                host = pair.host(SERVER)
                server = host.start_server(command.split())
                client = pair.host(CLIENT).start([*command.split(), self.network.address(SERVER, V4)], host, SHORT_ACK_TIMEOUT)
                programs.wait_until(lambda: programs.cpu_seconds(client.pid) > 3, client)
                server.kill()
                status, output = programs.finish(client, LIMIT_SECONDS)
                self.assertNotEqual(status, 0, output)
                self.assertIn("error", output)
                self.assertRegex(output, "uroce0: counters .*tx_frames [0-9]{4}")


class OfOneHostByLoopback(OfOneHost):
    """By 127.0.0.1, which means this host to rdma_cm, and at which the kernel's TCP is as well."""

    has_tcp = True
    network = BY_LOOPBACK


LINKS = {"memif": OverMemif, "veth": OverVeth, "interface": BesideTheKernel, "host": OfOneHost, "local": OfOneHostByLoopback}

if __name__ == "__main__":
    link = LINKS[sys.argv[5]]
    if REPETITIONS > 1:
        programs.keep_busy(link)
    link.notice, link.leaver = (str(Path(path).resolve()) for path in sys.argv[3:5])
    reason = namespaces.why_not() if link in (OverVeth, BesideTheKernel) else None
    if reason:
        print(f"SKIPPED, no network namespaces here: {reason}")
        sys.exit(programs.SKIPPED)
    programs.main(*NEEDED, only=link.__name__)
