#!/usr/bin/env python3
"""Other people's programs that connect by the connection manager, unmodified, between two of our processes: the rows of
cm_rows.py over a veth pair or memif, IPv4 and IPv6, and what happens when an end is killed.

    tests/programs/rdmacm_test.py LIBRARY_FOLDER SANITIZER_RUNTIME NOTICE_LIBRARY LEAVING_PROGRAM memif|veth

Rows whose name contains $UROCE_RDMACM are run, when it is set.
"""

import json
import os
import shlex
import sys
import time
import unittest
from pathlib import Path

import cm_rows
import namespaces
import programs
from cm_rows import CM, V4, V6

PORT = 7471
# Far more than any row needs; what meets nobody asks seven times.
LIMIT_SECONDS = 300
# Of a server whose client has failed, and that may wait for ever.
LEFT_ALONE_SECONDS = 5
NETWORK = {V4: "192.0.2.{}", V6: "2001:db8::{}"}
SERVER, CLIENT, NOBODY = 1, 2, 99
NEEDED = ["rping", "ucmatose", "udaddy", "cmtime", "rdma_server", "rdma_xserver", "mckey", "ib_send_bw", "qperf"]


def address(number, family):
    return NETWORK[family].format(number)


class Host:
    """An end of the link: a program at a time, with a device of its own. `port`: what DPDK makes it of."""

    def __init__(self, pair, number, port):
        self.pair = pair
        self.number = number
        self.port = port
        self.sign = Path(pair.folder, f"ready-{number}")

    def configuration(self):
        addresses = ", ".join(f'"{address(self.number, family)}/{length}"' for family, length in ((V4, 24), (V6, 64)))
        return (f'[[device]]\nname = "uroce0"\nport = "{self.port}"\nmac = "02:00:00:00:02:{self.number:02}"\n'
                f'addresses = [{addresses}]\nmtu = 4200\n[log]\ncounters = true\n')

    def start(self, command, waits_for=None):
        """`waits_for`: the server that each connection has to wait for."""
        self.sign.unlink(missing_ok=True)
        more = {"LD_PRELOAD": str(self.pair.notice), "UROCE_TEST_READY": str(self.sign)}
        if waits_for is not None:
            more["UROCE_TEST_PEER"] = str(waits_for.sign)
        process = self.pair.stack.start(self.pair.placed(self.number, command), self.configuration(), more)
        self.pair.processes.append(process)
        return process

    def start_server(self, command, ready):
        """Returns when it can be connected to."""
        process = self.start(command)
        programs.wait_until(self.sign.exists if ready == CM else lambda: programs.listens(PORT, process.pid), process)
        return process


class Pair(programs.Pair):
    """Two hosts on a memif link."""

    clients_at_once = False  # an end of a memif is one process's

    def __init__(self, stack, notice):
        super().__init__(stack)
        self.notice = notice

    def host(self, number):
        role = "server" if number == SERVER else "client"
        return Host(self, number, f"net_memif0,role={role},id=0,socket={self.folder}/link,socket-abstract=no,bsize=8192")

    def placed(self, number, command):
        return command


class VethPair(Pair):
    """Two hosts on a veth pair, one of which may be several."""

    clients_at_once = True

    def __init__(self, stack, notice, net):
        super().__init__(stack, notice)
        self.net = net

    def host(self, number):
        return Host(self, number, f"net_af_packet0,iface={namespaces.LINK}")

    def placed(self, number, command):
        return self.net.command("left" if number == SERVER else "right", command)


class Programs:
    """`pair()` makes a link with nobody on it."""

    def rows(self, begins):
        only = os.environ.get("UROCE_RDMACM", "")
        for row in cm_rows.ROWS:
            for family in row.families:
                name = f"{row.name}, {family}"
                if row.name.startswith(begins) and only in name and (self.has_tcp or row.ready == CM):
                    with self.subTest(name):
                        self.run_row(row, family)

    def run_row(self, row, family):
        began = time.monotonic()
        problem = self.problem_of(row, family)
        print(f"{'FAILED' if problem else 'ok':6} {time.monotonic() - began:5.1f} s  {row.name}, {family}", flush=True)
        self.assertFalse(problem, problem)

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
            server = host.start_server(self.command(row.server, family), row.ready)
            at_once = row.clients if pair.clients_at_once else 1
            for first in range(0, row.clients, at_once):
                clients = [pair.host(number).start(self.command(row.client, family, number), host if row.listens_late else None)
                           for number in range(CLIENT, CLIENT + at_once)]
                for client in clients:
                    judge("the client", client, row.client_says, row.client_fails)
            if row.endless:
                if server.poll() is not None:
                    complaints.append(f"the server has ended with status {server.returncode}:\n{programs.said_by(server)}")
            else:
                judge("the server", server, row.server_says, limit=LEFT_ALONE_SECONDS if complaints else LIMIT_SECONDS)
            return "\n".join([*complaints, *said]) if complaints else ""

    @staticmethod
    def command(text, family, client=CLIENT):
        return shlex.split(text.format(
            server=address(SERVER, family), client=address(client, family), nobody=address(NOBODY, family), port=PORT,
            any=cm_rows.ANY[family], group=cm_rows.GROUP[family]))

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
            server = pair.host(SERVER).start_server(f"rping -s -a 0.0.0.0 -p {PORT}".split(), CM)
            client = pair.host(CLIENT).start([self.leaver, address(SERVER, V4), str(PORT)])
            status, output = programs.finish(client, LIMIT_SECONDS)
            self.assertEqual(status, 0, output)
            _, output = programs.finish(server, LIMIT_SECONDS)
            self.assertIn("server DISCONNECT EVENT", output)


class OverMemif(Programs, unittest.TestCase):
    has_tcp = False  # to the addresses of our devices

    def pair(self):
        return Pair(self.stack, self.notice)


class OverVeth(Programs, unittest.TestCase):
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
            for family, length in ((V4, 24), (V6, 64)):
                namespaces.ip("-n", namespace, "address", "add", f"{address(number, family)}/{length}", "nodad",
                              "dev", namespaces.TCP_LINK)

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
                server = host.start_server(command.split(), CM)
                before = self.sent("left") + self.sent("right")
                client = pair.host(CLIENT).start([*command.split(), address(SERVER, V4)], host)
                # So many are messages, whatever is said to connect.
                programs.wait_until(lambda: self.sent("left") + self.sent("right") > before + (10 << 20), client)
                server.kill()
                status, output = programs.finish(client, LIMIT_SECONDS)
                self.assertNotEqual(status, 0, output)
                self.assertIn("error", output)


LINKS = {"memif": OverMemif, "veth": OverVeth}

if __name__ == "__main__":
    link = LINKS[sys.argv[5]]
    link.notice, link.leaver = (str(Path(path).resolve()) for path in sys.argv[3:5])
    reason = namespaces.why_not() if link is OverVeth else None
    if reason:
        print(f"SKIPPED, no network namespaces here: {reason}")
        sys.exit(programs.SKIPPED)
    programs.main(*NEEDED, only=link.__name__)
