#!/usr/bin/env python3
"""Debian's perftest, unmodified: its tools for WRITE, READ, SEND and atomics over a veth pair, in every size, over memif, and between two
programs of one host service.

perftest verifies no data; `uroce perf`, which does, runs over the same links.

    tests/programs/perftest_test.py LIBRARY_FOLDER SANITIZER_RUNTIME UROCE memif|veth|host
"""

import os
import re
import sys
import unittest
from dataclasses import dataclass

import host_service
import namespaces
import programs
import veth

# Far more than any row needs where each process has a CPU.
LIMIT_SECONDS = 300

ALL_SIZES = [1 << i for i in range(1, 24)]

# perftest asks for inline data, and uses ibv_wr_*, only with part numbers that it knows. With the first it does the
# one, with the second both.
INLINE_PART = 4099
EXTENDED_PART = 4115

# What must not be among our counters: nothing here damages, forges or forbids anything.
UNEXPECTED = ("drop_icrc", "drop_bad_ack", "drop_opcode", "drop_partition_key", "drop_wrong_peer", "nak_invalid_request",
              "nak_remote", "retry_exceeded", "cq_overrun", "local_protection_error")

COMPLAINT = re.compile(r"error|fail|couldn't|can't|unable|invalid|mismatch|warning|syndrom", re.I)


@dataclass(frozen=True)
class Row:
    """One run of a tool at both ends. `n`: messages of each size and queue pair."""
    tool: str
    options: str = ""
    n: int = 20
    part: int = 0
    sanitized: bool = False  # also where everything is slow

    @property
    def sizes(self):
        if "atomic" in self.tool:
            return [8]
        size = re.search(r"-s (\d+)", self.options)
        return [int(size[1])] if size else ALL_SIZES

    @property
    def queue_pairs(self):
        count = re.search(r"-q (\d+)", self.options)
        return int(count[1]) if count else 1

    @property
    def inline_bytes(self):
        size = re.search(r"-I (\d+)", self.options)
        return int(size[1]) if size else None

    def command(self):
        sizes = [] if "-s" in self.options.split() or "atomic" in self.tool else ["-a"]
        # -F: the CPU's frequency is none of our business. -x 1: the device's first address. -m: some part numbers
        # make perftest prefer another.
        return [self.tool, "-F", "-x", "1", "-m", "4096", "-n", str(self.n), *sizes, *self.options.split()]

    def __str__(self):
        return f"{self.options or 'plain'}{f', part {self.part}' if self.part else ''}"


# With all sizes perftest itself takes at least five seconds, because it measures the frequency of the CPU anew for each
# line of its table; -C, which the latency tools have, saves them half of that. So these rows are not run over memif, where `uroce perf`
# has every size as well: what a size changes is above the ports.
ROWS = [
    Row("ib_write_bw"),
    Row("ib_write_bw", "-b -q 4 -I 512", n=5, part=INLINE_PART),
    Row("ib_write_bw", "-s 4096 -q 4", n=2000, sanitized=True),
    Row("ib_write_bw", "-s 4096 -q 16", n=500),
    Row("ib_write_bw", "-s 64 -b -I 64", n=5000, part=EXTENDED_PART),
    # What is sent too fast is lost, and perftest does not get over that: the messages fit every queue on the way.
    Row("ib_write_bw", "-c UC -s 4096", n=200, part=EXTENDED_PART),
    Row("ib_read_bw"),
    Row("ib_read_bw", "-e -b -q 4", n=5),
    Row("ib_read_bw", "-s 4096 -q 4 -e", n=2000, part=EXTENDED_PART, sanitized=True),
    Row("ib_send_bw"),
    Row("ib_send_bw", "-e -b -q 4 -I 512", n=5, part=INLINE_PART),
    Row("ib_send_bw", "-s 65536 -q 4", n=200),
    Row("ib_send_bw", "-s 64 -b -I 64", n=5000, part=EXTENDED_PART),
    Row("ib_send_bw", "-s 4096 -e", n=2000, sanitized=True),
    Row("ib_send_bw", "-c UC -s 65536 -t 4", n=8, sanitized=True),
    Row("ib_send_bw", "-s 4096 -q 4 --use-srq", n=2000),
    Row("ib_send_bw", "-c UD -s 2048 -t 16", n=100, part=EXTENDED_PART),
    # To a group: perftest makes one of IPv6.
    Row("ib_send_bw", "-c UD -g -x 0 -s 512 -t 8", n=50),
    Row("ib_write_lat", "-C -I 512", part=INLINE_PART),
    Row("ib_write_lat", "-s 64", n=1000, sanitized=True),
    Row("ib_write_lat", "-s 4096", n=1000, part=EXTENDED_PART),
    Row("ib_read_lat", "-C -e"),
    Row("ib_read_lat", "-s 64", n=2000, part=EXTENDED_PART, sanitized=True),
    Row("ib_send_lat", "-C -e -I 512", part=INLINE_PART),
    Row("ib_send_lat", "-s 64", n=2000),
    Row("ib_send_lat", "-c UC -s 10000", n=500),
    Row("ib_send_lat", "-c UD -s 64", n=500, sanitized=True),
    Row("ib_send_lat", "-s 64 -e", n=2000, part=EXTENDED_PART, sanitized=True),
    Row("ib_atomic_bw", "-A FETCH_AND_ADD -q 4", n=2000, sanitized=True),
    Row("ib_atomic_bw", "-A CMP_AND_SWAP -b", n=2000, part=EXTENDED_PART),
    Row("ib_atomic_lat", "-A FETCH_AND_ADD", n=1000, part=EXTENDED_PART, sanitized=True),
    Row("ib_atomic_lat", "-A CMP_AND_SWAP -e", n=1000),
]
PINGPONG = ["ibv_rc_pingpong", "-c", "-g", "1", "-n", "20000"]
TOOLS = sorted({row.tool for row in ROWS})


class Perftest:
    """The rows over one kind of link; `pair()` makes a link with no host on it."""

    all_sizes = True

    @classmethod
    def setUpClass(cls):
        only = os.environ.get("UROCE_PERFTEST", "")
        sanitized = bool(cls.stack.sanitizer_runtime)
        cls.rows = [row for row in ROWS if row.sanitized >= sanitized and only in f"{row.tool} {row}" and
                    (cls.all_sizes or row.sizes != ALL_SIZES)]

    def rows_of(self, tool):
        for row in self.rows:
            if row.tool == tool:
                with self.subTest(str(row)):
                    self.run_row(row)

    def run_row(self, row):
        with self.pair() as pair:
            pair.more_configuration = f"vendor_part = {row.part}\n[log]\ncounters = true\n"
            server = pair.start_server(row.command())
            client = pair.start_client(row.command())
            ends = {}
            failures = []
            for end, process in (("client", client), ("server", server)):
                try:
                    status, ends[end] = programs.finish(process, LIMIT_SECONDS)
                    failures += [f"{end}: {complaint}" for complaint in complaints(row, end, status, ends[end])]
                except AssertionError as hangs:
                    failures.append(str(hangs))
            if failures:
                said = "\n".join(f"--- {end} said:\n{output}" for end, output in ends.items())
                self.fail("\n".join([" ".join(row.command()), *failures, said]))

    def test_write_bandwidth(self):
        self.rows_of("ib_write_bw")

    def test_read_bandwidth(self):
        self.rows_of("ib_read_bw")

    def test_send_bandwidth(self):
        self.rows_of("ib_send_bw")

    def test_write_latency(self):
        """Both ends spin on memory and poll no completion queue meanwhile: the background thread must turn."""
        self.rows_of("ib_write_lat")

    def test_read_latency(self):
        self.rows_of("ib_read_lat")

    def test_send_latency(self):
        self.rows_of("ib_send_lat")

    def test_atomic_bandwidth(self):
        self.rows_of("ib_atomic_bw")

    def test_atomic_latency(self):
        self.rows_of("ib_atomic_lat")

    def test_uroce_perf_verifies_every_byte(self):
        with self.pair() as pair:
            port = str(pair.port)
            server = pair.start("server", [sys.argv[3], "perf", "--server", "--listen", port])
            programs.wait_until(lambda: programs.listens(pair.port, server.pid), server)
            client = pair.start("client", [sys.argv[3], "perf", "--connect", f"{pair.server_address}:{port}", "--quiet",
                                           "--size", "all", "--measure", "bandwidth", "--iterations", "20",
                                           "--op", "write,read,send,add,swap"])
            for process in (client, server):
                status, output = programs.finish(process, LIMIT_SECONDS)
                self.assertEqual(status, 0, output)


def complaints(row, end, status, output):
    """What is wrong with what one end said."""
    if status != 0:
        yield f"ended with status {status}"
    ours = [line for line in output.splitlines() if line.startswith("uroce:")]
    theirs = [line for line in output.splitlines() if not line.startswith("uroce:")]
    for line in theirs:
        if COMPLAINT.search(line):
            yield line
    for counter in UNEXPECTED:
        if any(f" {counter}" in line for line in ours):
            yield f"counter {counter}"
    table = [(int(size), int(n)) for size, n in re.findall(r"(?m)^ (\d+) +(\d+) +[\d.]+ ", output)]
    if table != expected_table(row, end):
        yield f"not the expected sizes and counts: {table}"
    extended = re.search(r"ibv_wr\* API +: (\w+)", output)
    if not extended or (extended[1] == "ON") != (row.part == EXTENDED_PART):
        yield "not posted by the interface that was meant"
    inline = re.search(r"Max inline data : (\d+)", output)
    if row.inline_bytes is not None and (not inline or int(inline[1]) != row.inline_bytes):
        yield "not as many inline bytes as meant"


def expected_table(row, end):
    whole = [(size, row.n * row.queue_pairs) for size in row.sizes]
    if end == "client" or row.tool in ("ib_write_lat", "ib_send_bw", "ib_send_lat") or "-b" in row.options:
        return whole
    # A server that only serves.
    return whole[-1:] if row.tool.endswith("_bw") else []


class OverMemif(Perftest, unittest.TestCase):
    all_sizes = False

    def pair(self):
        return programs.Pair(self.stack)


class OverVeth(Perftest, unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.net = cls.enterClassContext(namespaces.Namespaces(mtu=4200))

    def pair(self):
        return veth.VethPair(self.stack, self.net)


class OfOneHost(Perftest, unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.service = cls.enterClassContext(host_service.Service(cls.stack))

    def pair(self):
        return host_service.HostPair(self.stack, self.service)

    def test_four_programs_beside_each_other(self):
        """Two of them that end when the others begin do not disturb those."""
        command = [sys.argv[3], "perf", "--size", "64,4096,65536", "--measure", "bandwidth", "--iterations", "2000", "--quiet", "--op",
                   "write,read,send"]
        with self.pair() as first, self.pair() as second:
            ends = []
            for pair in (first, second):
                server = pair.start("server", [sys.argv[3], "perf", "--server", "--listen", str(pair.port)])
                programs.wait_until(lambda pair=pair, server=server: programs.listens(pair.port, server.pid), server)
                ends.append(server)
            ends += [pair.start("client", [*command, "--connect", f"{pair.server_address}:{pair.port}"]) for pair in (first, second)]
            with self.pair() as third:
                for process in (third.start_server(PINGPONG), third.start_client(PINGPONG)):
                    status, output = programs.finish(process, LIMIT_SECONDS)
                    self.assertEqual(status, 0, output)
            for process in ends:
                status, output = programs.finish(process, LIMIT_SECONDS)
                self.assertEqual(status, 0, output)


LINKS = {"memif": OverMemif, "veth": OverVeth, "host": OfOneHost}

if __name__ == "__main__":
    link = LINKS[sys.argv[4]]
    reason = namespaces.why_not() if link is OverVeth else None
    if reason:
        print(f"SKIPPED, no network namespaces here: {reason}")
        sys.exit(programs.SKIPPED)
    programs.main(*TOOLS, only=link.__name__)
