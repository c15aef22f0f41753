#!/usr/bin/env python3
"""`uroce dump` captures frames of running programs: tshark reads them with their interfaces, directions and comments, and `uroce decode`
finds nothing wrong with them.

    tests/programs/dump_test.py LIBRARY_FOLDER SANITIZER_RUNTIME UROCE
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

UROCE = sys.argv[3]
# Until they are ended.
PINGPONG = ["ibv_rc_pingpong", "-c", "-g", "1", "-s", "3000", "-n", "100000000"]


class Dump(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.service = cls.enterClassContext(host_service.Service(cls.stack))

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.file = self.folder / "capture.pcapng"

    def command(self, *words):
        return [UROCE, "dump", "--socket", str(self.service.socket), *map(str, words)]

    def dump(self, *words):
        done = subprocess.run(self.command(*words), capture_output=True, text=True, timeout=programs.TIME_LIMIT_SECONDS)
        return done

    def captured(self, *words):
        """What is said when all went well."""
        done = self.dump(*words, self.file)
        self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)
        self.assertRegex(done.stderr, r"\Auroce dump: \d+ packets[^\n]*\n\Z")
        return done.stderr

    def refused(self, *words, naming, status=1):
        done = self.dump(*words)
        self.assertEqual((done.returncode, done.stdout), (status, ""))
        self.assertRegex(done.stderr, r"\Auroce dump: [^\n]*\n\Z")
        self.assertIn(naming, done.stderr)
        self.assertEqual(list(self.folder.iterdir()), [])

    def pair(self):
        """Two programs that send to each other until the test ends; their processes' numbers."""
        pair = self.enterContext(host_service.HostPair(self.stack, self.service))
        self.processes = [pair.start_server(PINGPONG), pair.start_client(PINGPONG)]
        programs.wait_until(lambda: all(program["queue_pairs"] for program in self.running()) and len(self.running()) == 2, self.processes[1])
        self.addCleanup(lambda: [programs.end(process) for process in self.processes])
        return [program["pid"] for program in self.running()]

    def running(self):
        return self.service.status(UROCE)["devices"][0]["programs"]

    def tshark(self, *fields):
        """One list of fields for each packet."""
        names = [word for field in fields for word in ("-e", field)]
        done = subprocess.run(["tshark", "-r", str(self.file), "-T", "fields", *names], capture_output=True, text=True, check=True)
        return [line.split("\t") for line in done.stdout.splitlines()]

    def decoded(self):
        done = subprocess.run([UROCE, "decode", "--summary", "--json", str(self.file)], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout)
        return json.loads(done.stdout)

    def test_tshark_and_decode_read_what_a_program_sends_and_receives(self):
        pids = self.pair()
        self.captured("--client", pids[0], "--count", "400", "--snaplen", "0")
        packets = self.tshark("frame.interface_name", "frame.packet_flags_direction", "frame.comment", "infiniband.bth.opcode", "frame.cap_len", "frame.len")
        self.assertEqual(len(packets), 400)
        self.assertEqual({packet[0] for packet in packets}, {f"uroce0 {pids[0]}"})
        self.assertEqual({packet[1] for packet in packets}, {"0x00000001", "0x00000002"})
        self.assertTrue(all(packet[4] == packet[5] for packet in packets))
        self.assertRegex(packets[-1][2], r"^qp 0x[0-9a-f]{6} RTS, expects request 0x[0-9a-f]{6}, awaits response 0x[0-9a-f]{6}$")
        summary = self.decoded()
        self.assertEqual((summary["frames"], summary["roce"], summary["findings"]), (400, 400, 0))

    def test_filters(self):
        self.pair()
        self.captured("--opcode", "SEND First", "--direction", "in", "--count", "20")
        packets = self.tshark("infiniband.bth.opcode", "frame.packet_flags_direction", "frame.cap_len")
        self.assertEqual(packets, [["0", "0x00000001", "128"]] * 20)
        number = self.tshark("infiniband.bth.destqp")[0][0]
        self.captured("--qp", number, "--count", "100")
        packets = self.tshark("infiniband.bth.destqp", "frame.packet_flags_direction")
        self.assertEqual({packet[0] for packet in packets if packet[1] == "0x00000001"}, {number})
        self.assertEqual(len({packet[0] for packet in packets if packet[1] == "0x00000002"}), 1)

    def test_why_a_frame_was_dropped(self):
        self.pair()
        order = [UROCE, "fault", "add", "--corrupt", "5%", "--seed", "3", "--socket", str(self.service.socket)]
        subprocess.run(order, check=True, capture_output=True)
        self.addCleanup(subprocess.run, [UROCE, "fault", "clear", "--socket", str(self.service.socket)], check=True)
        self.captured("--count", "2000", "--direction", "in")
        self.assertTrue(any("dropped: drop_icrc" in packet[0] for packet in self.tshark("frame.comment")))

    def test_ctrl_c_ends_it_and_what_was_captured_is_there(self):
        self.pair()
        capture = subprocess.Popen(self.command(self.file), stderr=subprocess.PIPE, text=True)
        programs.wait_until(lambda: self.file.exists() and self.file.stat().st_size > 100_000, self.processes[1])
        capture.send_signal(signal.SIGINT)
        _, said = capture.communicate(timeout=programs.TIME_LIMIT_SECONDS)
        self.assertEqual(capture.returncode, 0, said)
        self.assertEqual(len(self.tshark("frame.number")), int(said.split()[2]))

    def test_what_was_before_an_error_is_kept(self):
        pids = self.pair()
        capture = subprocess.Popen(self.command("--last", "200ms", "--client", pids[1], self.file), stderr=subprocess.PIPE, text=True)
        # Until the order has come through.
        programs.wait_until(self.file.exists, self.processes[1])
        time.sleep(0.5)
        self.assertIsNone(capture.poll())
        order = [UROCE, "fault", "add", "--nak", "access:100%", "--client", str(pids[0]), "--socket", str(self.service.socket)]
        subprocess.run(order, check=True, capture_output=True)
        _, said = capture.communicate(timeout=programs.TIME_LIMIT_SECONDS)
        self.assertEqual(capture.returncode, 0, said)
        self.assertIn("up to an error", said)
        self.assertIn("98", {packet[0] for packet in self.tshark("infiniband.aeth.syndrome")}, "remote access error")
        times = [float(packet[0]) for packet in self.tshark("frame.time_relative")]
        self.assertLess(times[-1], 1)

    def test_the_end_of_the_program_ends_its_capture(self):
        pids = self.pair()
        capture = subprocess.Popen(self.command("--client", pids[1], self.file), stderr=subprocess.PIPE, text=True)
        programs.wait_until(lambda: self.file.exists() and self.file.stat().st_size > 10_000, self.processes[1])
        for process in self.processes:
            programs.end(process)
        _, said = capture.communicate(timeout=programs.TIME_LIMIT_SECONDS)
        self.assertEqual(capture.returncode, 0, said)
        self.assertGreater(len(self.tshark("frame.number")), 10)

    def test_what_cannot_be_captured_is_one_line(self):
        self.refused(self.file, naming="no program uses a device of the service")
        self.refused("--qp", "5", self.file, naming="qp: no program has queue pair 5")
        self.refused("--client", os.getpid(), self.file, naming=f"client: process {os.getpid()} uses no device of the service")
        self.refused("--device", "no", self.file, naming="device: the service has no device no")
        self.refused("--opcode", "WALK", self.file, naming="opcode: ", status=2)
        self.refused("--snaplen", "3", self.file, naming="snaplen: ", status=2)
        self.refused("--last", "10", self.file, naming="--last", status=2)
        self.refused(naming="FILE", status=2)
        pids = self.pair()
        self.refused("--client", pids[0], "/nowhere/capture", naming="/nowhere/capture: No such file or directory")
        numbers = self.running()[0]["numbers"]
        self.refused("--qp", numbers["first"] + numbers["count"] - 1, self.file, naming="there is no queue pair")
        done = subprocess.run([UROCE, "dump", "--socket", str(self.folder / "no"), str(self.file)], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (1, f"uroce dump: {self.folder / 'no'}: no service listens there\n"))

    @unittest.skipUnless(os.geteuid() == 0, "mounting wants root")
    def test_a_disk_that_is_full_leaves_a_file_that_can_be_read(self):
        self.pair()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(self.folder)], check=True)
        self.addCleanup(subprocess.run, ["umount", str(self.folder)], check=True)
        done = self.dump("--snaplen", "0", self.file)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, rf"\Auroce dump: {self.file}: No space left on device \(after \d+ packets\)\n\Z")
        self.assertGreater(len(self.tshark("frame.number")), 10)
        self.decoded()


if __name__ == "__main__":
    if not shutil.which("tshark"):
        print("SKIPPED: no tshark")
        sys.exit(programs.SKIPPED)
    programs.main("ibv_rc_pingpong")
