#!/usr/bin/env python3
"""Debian's perftest, unmodified, meets each fault that can be ordered: it ends well, or with the completion status that the fault is
for, and the counter that names the fault says how many packets met it.

    tests/programs/faults_test.py LIBRARY_FOLDER SANITIZER_RUNTIME UROCE FAULT_EVENTS
"""

import json
import re
import subprocess
import sys
import time
import unittest

import host_service
import programs

UROCE = sys.argv[3]
SEND = ["ib_send_bw", "-F", "-x", "1", "-m", "4096", "-s", "4096", "-n", "500"]
WRITE = ["ib_write_bw", "-F", "-x", "1", "-m", "4096", "-s", "4096", "-n", "500"]

# The tool, what is ordered, and the count that it is found in.
SURVIVED = [(SEND, "--loss 1% --seed 7", "lost"), (WRITE, "--loss 1% --seed 7", "lost"), (SEND, "--delay 50us --jitter 20us", "delayed"),
            (WRITE, "--reorder 5%", "reordered"), (SEND, "--duplicate 5%", "duplicated"), (WRITE, "--corrupt 1%", "corrupted"),
            (WRITE, "--ecn 5%", "marked"), (SEND, "--rate 1Gbit", "delayed")]
# Refusals that end a connection: the tool, the status at the end that asked (enum ibv_wc_status).
ENDED = [(WRITE, "access", 10), (WRITE, "invalid", 9), (SEND, "operational", 11)]

# A line each, and no fault is left.
REFUSED = [("--device nope --loss 1%", 1, "the service has no device nope"), ("--qp 77 --loss 1%", 1, "no program has queue pair 77"),
           ("--client 1 --loss 1%", 1, "process 1 uses no device of the service"), ("--loss 101%", 2, "loss: must be above 0%"),
           ("--loss 0%", 2, "loss: must be above 0%"), ("--lose 1%", 2, "--lose"), ("", 2, "nothing to do"),
           ("--device uroce0", 2, "nothing to do"), ("--delay 5", 2, "delay: must be a time"), ("--nak never:1%", 2, "nak: must be rnr"),
           ("--jitter 1us --loss 1%", 2, "jitter: must not be more than delay"), ("--loss 1%,device=uroce0", 2, "must have no comma")]


class Faults(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.service = cls.enterClassContext(host_service.Service(cls.stack))

    def tearDown(self):
        self.order("clear")

    def order(self, *words):
        """What is printed."""
        done = self.try_order(*words)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout

    def try_order(self, *words):
        return subprocess.run([UROCE, "fault", *words, "--socket", str(self.service.socket)], capture_output=True, text=True,
                              timeout=programs.TIME_LIMIT_SECONDS)

    def faults(self):
        return json.loads(self.order("list", "--json"))

    def counts(self):
        """Of the only fault."""
        [fault] = self.faults()
        return fault["counts"]

    def run_pair(self, command, more=""):
        """(status, output) of client and server."""
        with host_service.HostPair(self.stack, self.service) as pair:
            pair.more_configuration = host_service.COUNTERS + more
            server = pair.start_server(command)
            client = pair.start_client(command)
            return programs.finish(client), programs.finish(server)

    def test_what_is_survived(self):
        for command, ordered, count in SURVIVED:
            with self.subTest(tool=command[0], fault=ordered):
                self.order("add", "--device", "uroce0", *ordered.split())
                ends = self.run_pair(command)
                for status, output in ends:
                    self.assertEqual(status, 0, output)
                counts = self.counts()
                self.assertGreater(counts[count], 0)
                self.assertGreaterEqual(counts["seen"], 500)
                said = sum(int(n) for _, output in ends for n in re.findall(rf" fault_{count} (\d+)", output))
                self.assertEqual(said, counts[count])
                self.order("clear")

    def test_a_receiver_that_is_not_ready(self):
        self.order("add", "--device", "uroce0", "--nak", "rnr:2%")
        for status, output in self.run_pair(SEND):
            self.assertEqual(status, 0, output)
        self.assertGreater(self.counts()["refused"], 0)

    def test_what_ends_a_connection(self):
        for command, kind, expected in ENDED:
            with self.subTest(kind):
                self.order("add", "--device", "uroce0", "--nak", f"{kind}:10%", "--seed", "3")
                (status, output), _ = self.run_pair(command)
                self.assertNotEqual(status, 0, output)
                self.assertRegex(output, rf"[Ss]tatus {expected}\b")
                self.assertEqual(self.counts()["refused"], 1)
                self.order("clear")

    def test_an_outage(self):
        self.order("add", "--device", "uroce0", "--loss", "100%", "--for", "300ms")
        for status, output in self.run_pair(SEND):
            self.assertEqual(status, 0, output)
        [fault] = self.faults()
        self.assertEqual(fault["state"], "over")
        self.assertGreater(fault["counts"]["lost"], 0)

    def test_a_running_program(self):
        with host_service.HostPair(self.stack, self.service) as pair:
            command = [*SEND[:-2], "-D", "1"]
            server = pair.start_server(command)
            client = pair.start_client(command)
            programs.wait_until(lambda: len(self.service.status(UROCE)["devices"][0]["programs"]) == 2, client)
            device = self.service.status(UROCE)["devices"][0]
            pids = [program["pid"] for program in device["programs"]]
            numbers = [program["numbers"]["first"] for program in device["programs"]]
            id_of_client = int(self.order("add", "--client", str(pids[0]), "--duplicate", "5%"))
            done = self.try_order("add", "--qp", str(numbers[0]), "--loss", "1%")
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            self.assertIn(f"qp: there is no queue pair {numbers[0]}\n", done.stderr)
            self.order("add", "--device", "uroce0", "--loss", "1%", "--after", "100s")
            programs.wait_until(lambda: self.faults()[0]["counts"]["duplicated"] > 0, client)
            self.assertEqual([(fault["state"], fault["programs"]) for fault in self.faults()], [("active", 1), ("waiting", 2)])
            self.order("clear", str(id_of_client))
            self.assertEqual([fault["counts"]["seen"] for fault in self.faults()], [0])
            for process in (client, server):
                status, output = programs.finish(process)
                self.assertEqual(status, 0, output)

    def test_one_queue_pair(self):
        with host_service.HostPair(self.stack, self.service) as pair:
            # What it says of its queue pair comes at once.
            command = ["stdbuf", "-oL", "ibv_rc_pingpong", "-c", "-g", "1", "-n", "1000000"]
            server = pair.start_server(command)
            client = pair.start_client(command)
            line = ""
            while "local address" not in line:
                line = client.stdout.readline()
                self.assertNotEqual(line, "")
            number = int(re.search(r"QPN 0x([0-9a-f]+)", line)[1], 16)
            self.order("add", "--qp", str(number), "--delay", "10us")
            programs.wait_until(lambda: self.counts()["delayed"] > 10, client)
            for process in (client, server):
                programs.end(process)
        deadline = time.monotonic() + programs.TIME_LIMIT_SECONDS
        while self.faults():
            self.assertLess(time.monotonic(), deadline, "it ends with its program")

    def broken(self, *words):
        """(status, output) of client and server, in the middle of whose ping-pong something is broken."""
        with host_service.HostPair(self.stack, self.service) as pair:
            pair.more_configuration = host_service.COUNTERS
            command = ["stdbuf", "-oL", "ibv_rc_pingpong", "-c", "-g", "1", "-n", "100000000"]
            server = pair.start_server(command)
            client = pair.start_client(command)
            line = ""
            while "remote address" not in line:
                line = client.stdout.readline()
                self.assertNotEqual(line, "")
                number = re.search(r"local address.*QPN 0x([0-9a-f]+)", line)
                if number:
                    number_of_client = int(number[1], 16)
            # It says its peer's address before its queue pair is in RTS.
            programs.wait_until(lambda: programs.sent_messages(UROCE, client) > 0, client)
            self.assertEqual(self.order("break", *(word.format(qp=number_of_client, pid=client.pid) for word in words)), "1\n")
            outcome = programs.finish(client)
            programs.end(server)
            return outcome

    def test_what_is_broken_at_once(self):
        for words in (["--qp", "{qp}"], ["--client", "{pid}"], ["--device", "uroce0", "--client", "{pid}"]):
            with self.subTest(words):
                status, output = self.broken(*words)
                self.assertNotEqual(status, 0, output)
                self.assertRegex(output, r"Failed status Work Request Flushed Error \(5\)")
                self.assertEqual(self.faults(), [])
        for words, expected in ((["--qp", "77"], 1), (["--device", "nope"], 1), (["--client", "1"], 1), ([], 2), (["--qp", "x"], 2),
                                (["--qp", "77", "--client", "1"], 2), (["--overflow"], 2), (["--client", "1", "--overflow"], 2),
                                (["--qp", "77", "--overflow"], 1), (["--key", "7"], 2), (["--key", "x", "--client", "1"], 2)):
            done = self.try_order("break", *words)
            self.assertEqual((done.returncode, done.stdout), (expected, ""), done.stderr)
            self.assertRegex(done.stderr, r"\Auroce fault break: [^\n]*\n\Z")
        self.assertEqual(self.order("break", "--device", "uroce0"), "0\n")

    def test_events_of_what_is_broken(self):
        program = self.stack.start([sys.argv[4]], "", self.service.environment)
        self.addCleanup(programs.end, program)
        number = re.fullmatch(r"queue pair (\d+)\n", program.stdout.readline())[1]
        self.order("break", "--qp", number)
        self.assertEqual(program.stdout.readline(), "event: QP failed\n")
        self.assertEqual(program.stdout.readline(), "receive 7: Work Request Flushed Error\n")
        self.order("break", "--client", str(program.pid))
        status, output = programs.finish(program)
        self.assertEqual((status, output), (0, "event: device failed\n"))

    def test_a_completion_queue_that_overflows(self):
        program = self.stack.start([sys.argv[4]], '[log]\nlevel = "info"\nformat = "json"\n', self.service.environment)
        self.addCleanup(programs.end, program)
        number = re.fullmatch(r"queue pair (\d+)\n", program.stdout.readline())[1]
        self.assertEqual(self.order("break", "--qp", number, "--overflow"), "1\n")
        said = [program.stdout.readline() for _ in range(4)]
        # Events come on a thread of their own.
        self.assertEqual([line for line in said if line.startswith("event")], ["event: CQ error\n", "event: QP failed\n"])
        flushed, overflowed = (line for line in said if not line.startswith("event"))
        self.assertEqual(flushed, "receive 7: Work Request Flushed Error\n")
        handle = re.fullmatch(r"completion queue ([1-9]\d*) has overflowed\n", overflowed)[1]
        line = json.loads(program.stderr.readline())
        self.assertEqual((line["queue_pair"], line["completion_queue"]), (int(number), int(handle)))
        self.assertIn("a completion queue was full", line["reason"])

    def test_a_key_that_is_invalidated(self):
        """The peer's WRITEs are refused from then on."""
        with host_service.HostPair(self.stack, self.service) as pair:
            command = ["stdbuf", "-oL", *WRITE[:-2], "-D", "100"]
            server = pair.start_server(command)
            client = pair.start_client(command)
            key, line = None, ""
            while not line.startswith("---") or key is None:
                line = server.stdout.readline()
                self.assertNotEqual(line, "")
                if line.strip().startswith("local address") and (found := re.search(r"RKey (0x[0-9a-f]+)", line)):
                    key = found[1]
            for wrong, process in (("0x7", server.pid), (key, 1)):
                done = self.try_order("break", "--key", wrong, "--client", str(process))
                self.assertEqual((done.returncode, done.stdout), (1, ""))
                self.assertRegex(done.stderr, r"\Auroce fault break: [^\n]*(key|client): [^\n]*\n\Z")
            self.assertEqual(self.order("break", "--key", key, "--client", str(server.pid)), "1\n")
            status, output = programs.finish(client)
            self.assertNotEqual(status, 0, output)
            self.assertRegex(output, r"[Ss]tatus 10\b")
            programs.end(server)

    def test_of_the_configuration_and_the_environment(self):
        with host_service.HostPair(self.stack, self.service) as pair:
            environment = self.service.environment | {"UROCE_FAULT": "ecn=5%"}
            port = ["-p", str(pair.port)]
            server = self.stack.start([*SEND, *port], host_service.COUNTERS + "[faults]\nrules = [\"duplicate=5%,seed=3\"]\n", environment)
            pair.processes.append(server)
            programs.wait_until(lambda: programs.listens(pair.port, server.pid), server)
            client = self.stack.start([*SEND, *port, "127.0.0.1"], "", self.service.environment)
            pair.processes.append(client)
            for process in (client, server):
                status, output = programs.finish(process)
                self.assertEqual(status, 0, output)
            self.assertRegex(output, r" fault_duplicated [1-9]")
            self.assertRegex(output, r" fault_marked [1-9]")

    def test_what_is_refused(self):
        for words, expected, complaint in REFUSED:
            with self.subTest(words):
                done = self.try_order("add", *words.split())
                self.assertEqual((done.returncode, done.stdout), (expected, ""), done.stderr)
                self.assertRegex(done.stderr, r"\Auroce fault[^\n]*\n\Z")
                self.assertIn(complaint, done.stderr)
        self.assertEqual(self.faults(), [])
        done = self.try_order("clear", "7")
        self.assertEqual((done.returncode, done.stderr), (1, f"uroce fault clear: {self.service.socket}: there is no fault 7\n"))
        done = subprocess.run([UROCE, "fault", "list", "--socket", "/nowhere"], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (1, "uroce fault list: /nowhere: no service listens there\n"))
        done = subprocess.run([UROCE, "run", "--fault", "qp=3,loss=1%", "--", "true"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 2)
        self.assertIn("--fault", done.stderr)

    def test_there_are_sixteen_at_most(self):
        for _ in range(16):
            self.order("add", "--loss", "1%")
        done = self.try_order("add", "--loss", "1%")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("there are 16 faults already", done.stderr)


if __name__ == "__main__":
    programs.main("ib_send_bw", "ib_write_bw", "ibv_rc_pingpong")
