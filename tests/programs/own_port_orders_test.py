#!/usr/bin/env python3
"""`uroce fault` and `uroce dump` with processes that have a port of their own, which no service tells of orders.

    tests/programs/own_port_orders_test.py LIBRARY_FOLDER SANITIZER_RUNTIME UROCE FAULT_KEYS
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

import host_service
import programs

UROCE, FAULT_KEYS = sys.argv[3:5]
# Until it is ended.
PINGPONG = ["ibv_rc_pingpong", "-c", "-g", "1", "-s", "3000", "-n", "100000000"]
STATUS_OF_A_DEAD_KEY = "remote access error\n"


def uroce(*words):
    return subprocess.run([UROCE, *map(str, words)], capture_output=True, text=True, timeout=programs.TIME_LIMIT_SECONDS)


class OwnPortTestCase(unittest.TestCase):
    def said(self, *words):
        done = uroce(*words)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout

    def refused(self, *words, naming, status=1):
        done = uroce(*words)
        self.assertEqual((done.returncode, done.stdout), (status, ""))
        self.assertRegex(done.stderr, r"\Auroce [^\n]*\n\Z")
        self.assertIn(naming, done.stderr)

    def folder(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        return Path(folder.name)

    def pair(self):
        """Two programs, each with a port of its own, that send to each other until the test ends."""
        pair = self.enterContext(programs.Pair(self.stack))
        processes = [pair.start_server(PINGPONG), pair.start_client(PINGPONG)]
        programs.wait_until(lambda: self.received(processes[1].pid) > 1000, processes[1])
        return processes

    def received(self, pid):
        """Frames, so far."""
        done = uroce("stat", "--pid", pid, "--json")
        if done.returncode != 0:
            return 0
        [process] = json.loads(done.stdout)["processes"]
        return process["devices"][0]["counters"]["rx_frames"]

    def faults(self, pid):
        return json.loads(self.said("fault", "list", "--client", pid, "--json"))


class Faults(OwnPortTestCase):
    def test_a_process_meets_what_is_ordered_of_it(self):
        server, client = self.pair()
        self.assertEqual(self.faults(client.pid), [])
        first = int(self.said("fault", "add", "--client", client.pid, "--loss", "1%", "--seed", "7"))
        second = int(self.said("fault", "add", "--client", client.pid, "--device", "uroce0", "--duplicate", "5%", "--after", "100s"))
        programs.wait_until(lambda: self.faults(client.pid)[0]["counts"]["lost"] > 2, client)
        listed = self.faults(client.pid)
        self.assertEqual([(fault["id"], fault["state"], fault["counts"]["duplicated"]) for fault in listed],
                         [(first, "active", 0), (second, "waiting", 0)])
        self.assertEqual(listed[0]["rule"], f"client={client.pid},loss=1%,seed=7")
        self.assertIn("lost", self.said("fault", "list", "--client", client.pid))
        self.assertEqual(self.faults(server.pid), [], "only the process that was named meets it")
        self.said("fault", "clear", "--client", client.pid, first)
        self.assertEqual([fault["id"] for fault in self.faults(client.pid)], [second])
        self.said("fault", "clear", "--client", client.pid)
        self.assertEqual(self.faults(client.pid), [])

    def test_a_device_that_fails(self):
        _, client = self.pair()
        self.assertEqual(self.said("fault", "break", "--client", client.pid), "1\n")
        status, output = programs.finish(client)
        self.assertNotEqual(status, 0, output)
        self.assertRegex(output, r"Failed status Work Request Flushed Error \(5\)")

    def test_those_of_the_configuration_are_listed_and_end(self):
        program = self.keys("[faults]\nrules = [\"duplicate=5%,seed=3\", \"ecn=1%\"]\n")
        self.assertEqual([(fault["id"], fault["rule"]) for fault in self.faults(program.pid)], [(1, "duplicate=5%,seed=3"), (2, "ecn=1%")])
        self.assertEqual(self.said("fault", "add", "--client", program.pid, "--loss", "1%"), "3\n")
        self.said("fault", "clear", "--client", program.pid, 1)
        self.assertEqual([fault["id"] for fault in self.faults(program.pid)], [2, 3])

    def keys(self, more=""):
        """The program with keys, when it has said which."""
        configuration = host_service.DEVICE + more
        program = self.stack.start([FAULT_KEYS], configuration, stdin=subprocess.PIPE)
        self.addCleanup(programs.end, program)
        self.keys_of = {}
        for line in program.stdout:
            if line == "ready\n":
                return program
            name, key, address = line.split()
            self.keys_of[name] = (key, address)
        self.fail(program.stderr.read())

    def read_by(self, program, name):
        print(*self.keys_of[name], file=program.stdin, flush=True)
        return program.stdout.readline()

    def test_keys_of_each_kind(self):
        program = self.keys()
        for name in self.keys_of:
            self.assertEqual(self.read_by(program, name), "success\n", name)
        order = ["fault", "break", "--client", program.pid, "--key"]
        region = self.keys_of["region"][0]
        self.refused(*order, region, naming="key: windows are bound over that region")
        for name in ("window1", "window2", "fast"):
            key = self.keys_of[name][0]
            self.assertEqual(self.said(*order, hex(int(key))), "1\n")
            self.assertEqual(self.read_by(program, name), STATUS_OF_A_DEAD_KEY, name)
            self.refused(*order, key, naming=f"has no region or bound window with key {int(key):#x}")
        self.assertEqual(self.read_by(program, "region"), "success\n")
        self.assertEqual(self.said(*order, region), "1\n")
        self.assertEqual(self.read_by(program, "region"), STATUS_OF_A_DEAD_KEY)
        program.stdin.close()
        program.stdin = None
        self.assertEqual(programs.finish(program), (0, "ended\n"))

    def test_keys_of_a_program_of_the_service(self):
        """The same by way of the service."""
        service = self.enterContext(host_service.Service(self.stack))
        program = self.stack.start([FAULT_KEYS], "", service.environment, stdin=subprocess.PIPE)
        self.addCleanup(programs.end, program)
        self.keys_of = {}
        while (line := program.stdout.readline()) != "ready\n":
            self.assertNotEqual(line, "", "it ends")
            name, *rest = line.split()
            self.keys_of[name] = rest
        order = ["fault", "break", "--socket", service.socket, "--client", program.pid, "--key"]
        self.refused(*order, self.keys_of["region"][0], naming="key: windows are bound over that region")
        for name in ("window1", "window2", "fast", "region"):
            self.assertEqual(self.read_by(program, name), "success\n")
            self.assertEqual(self.said(*order, self.keys_of[name][0]), "1\n")
            self.assertEqual(self.read_by(program, name), STATUS_OF_A_DEAD_KEY)

    def test_what_is_refused(self):
        program = self.keys()
        for words, naming in ((["--device", "nope", "--loss", "1%"], "no service listens there"), (["--qp", "77", "--loss", "1%"], "qp: there is no queue pair 77")):
            self.refused("fault", "add", "--socket", "/nowhere", "--client", program.pid, *words, naming=naming)
        self.refused("fault", "break", "--client", program.pid, "--key", "7", naming="has no region or bound window with key 0x7")
        self.refused("fault", "clear", "--client", program.pid, 9, naming=f"process {program.pid}: there is no fault 9")
        for command in ("list", "clear"):
            self.refused("fault", command, "--client", os.getpid(), naming=f"process {os.getpid()} has no device of its own")
        for _ in range(16):
            self.said("fault", "add", "--client", program.pid, "--loss", "1%", "--for", "1ms")
        self.refused("fault", "add", "--client", program.pid, "--loss", "1%", naming="there are 16 faults already")
        programs.stop(program)
        self.refused("fault", "list", "--client", program.pid, naming=f"process {program.pid}: does not answer")
        program.send_signal(signal.SIGCONT)
        self.assertEqual(len(self.faults(program.pid)), 16)


class Dump(OwnPortTestCase):
    def setUp(self):
        if not shutil.which("tshark"):
            self.skipTest("no tshark")
        self.file = self.folder() / "capture.pcapng"

    def tshark(self, *fields):
        names = [word for field in fields for word in ("-e", field)]
        done = subprocess.run(["tshark", "-r", str(self.file), "-T", "fields", *names], capture_output=True, text=True, check=True)
        return [line.split("\t") for line in done.stdout.splitlines()]

    def captured(self, *words):
        done = uroce("dump", *words, self.file)
        self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)

    def test_what_a_process_sends_and_receives(self):
        _, client = self.pair()
        self.captured("--client", client.pid, "--count", 400, "--snaplen", 0)
        packets = self.tshark("frame.interface_name", "frame.packet_flags_direction", "frame.comment")
        self.assertEqual(len(packets), 400)
        self.assertEqual({packet[0] for packet in packets}, {f"uroce0 {client.pid}"})
        self.assertEqual({packet[1] for packet in packets}, {"0x00000001", "0x00000002"})
        self.assertRegex(packets[-1][2], r"^qp 0x[0-9a-f]{6} RTS, ")
        done = uroce("decode", "--summary", "--json", self.file)
        self.assertEqual((done.returncode, json.loads(done.stdout)["findings"]), (0, 0), done.stdout)

    def test_one_capture_at_a_time_and_none_outlives_its_tool(self):
        _, client = self.pair()
        capture = subprocess.Popen([UROCE, "dump", "--client", str(client.pid), str(self.file)], stderr=subprocess.PIPE, text=True)
        programs.wait_until(lambda: self.file.exists() and self.file.stat().st_size > 100_000, client)
        self.refused("dump", "--client", client.pid, self.folder() / "second", naming="another capture of it is under way")
        self.assertTrue(self.has_ring(client.pid))
        capture.kill()
        capture.communicate()
        programs.wait_until(lambda: not self.has_ring(client.pid), client)
        self.captured("--client", client.pid, "--count", 10)

    def has_ring(self, pid):
        folder = Path(f"/proc/{pid}/fd")
        return any("uroce-capture" in os.readlink(folder / name) for name in os.listdir(folder))

    def test_the_end_of_the_process_ends_its_capture(self):
        _, client = self.pair()
        capture = subprocess.Popen([UROCE, "dump", "--client", str(client.pid), str(self.file)], stderr=subprocess.PIPE, text=True)
        programs.wait_until(lambda: self.file.exists() and self.file.stat().st_size > 10_000, client)
        programs.end(client)
        _, said = capture.communicate(timeout=programs.TIME_LIMIT_SECONDS)
        self.assertEqual(capture.returncode, 0, said)
        self.assertGreater(len(self.tshark("frame.number")), 10)

    def test_what_is_refused(self):
        _, client = self.pair()
        self.refused("dump", "--client", client.pid, "--qp", "5", self.file, naming="qp: there is no queue pair 5")
        self.refused("dump", "--client", client.pid, "--device", "no", "--socket", "/nowhere", self.file, naming="no service listens there")
        self.refused("dump", "--wire", "--socket", "/nowhere", self.file, naming="/nowhere: no service listens there")
        self.refused("dump", "--wire", "--client", client.pid, self.file, naming="--client", status=2)
        self.assertFalse(self.file.exists())

    def test_what_a_service_sends_and_receives_outside(self):
        """Two services on a wire; frames between two programs of one of them are not on it."""
        socket = self.folder() / "link"
        services = []
        for role, own in (("server", 1), ("client", 2)):
            configuration = programs.Pair.CONFIGURATION.format(role=role, own=own, socket=socket)
            services.append(self.enterContext(host_service.Service(self.stack, configuration)))
        pair = self.enterContext(programs.Pair(self.stack))
        server = self.stack.start([*PINGPONG, "-p", str(pair.port)], "", services[0].environment)
        pair.processes.append(server)
        programs.wait_until(lambda: programs.listens(pair.port, server.pid), server)
        client = self.stack.start([*PINGPONG, "-p", str(pair.port), "127.0.0.1"], "", services[1].environment)
        pair.processes.append(client)
        self.captured("--wire", "--socket", services[1].socket, "--count", 200, "--snaplen", 0)
        packets = self.tshark("frame.interface_name", "frame.packet_flags_direction", "infiniband.bth.opcode")
        self.assertEqual({packet[0] for packet in packets}, {f"uroce0 {services[1].process.pid}"})
        self.assertEqual({packet[1] for packet in packets if packet[2]}, {"0x00000001", "0x00000002"})
        done = uroce("decode", "--summary", "--json", self.file)
        self.assertEqual((done.returncode, json.loads(done.stdout)["findings"]), (0, 0), done.stdout)
        self.refused("fault", "add", "--client", services[1].process.pid, "--loss", "1%", naming="name its device, no process")


if __name__ == "__main__":
    programs.main("ibv_rc_pingpong")
