#!/usr/bin/env python3
"""`uroce stat` and `uroce qp` show what running programs count; what cannot be read is one line.

    tests/programs/stat_test.py LIBRARY_FOLDER SANITIZER_RUNTIME UROCE
"""

import contextlib
import fcntl
import json
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import time
import unittest
from pathlib import Path

import host_service
import programs

UROCE = sys.argv[3]
LONG = ["ib_send_bw", "-F", "-x", "1", "-m", "4096", "-s", "4096", "-D", "60"]
MAGIC = 0x545345636F727505


def ask(*words):
    return subprocess.run([UROCE, *words], capture_output=True, text=True, timeout=programs.TIME_LIMIT_SECONDS)


def process_of(pid):
    """What is said of a process."""
    done = ask("stat", "--json", "--pid", str(pid))
    assert done.returncode == 0, done.stderr
    [process] = json.loads(done.stdout)["processes"]
    return process


class Running(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.service = cls.enterClassContext(host_service.Service(cls.stack))
        cls.pair = cls.enterClassContext(host_service.HostPair(cls.stack, cls.service))
        cls.server = cls.pair.start_server(LONG)
        cls.client = cls.pair.start_client(LONG)
        programs.wait_until(lambda: programs.sent_messages(UROCE, cls.client) > 1000, cls.client)

    def test_counters_and_queue_pairs(self):
        before, server = process_of(self.client.pid), process_of(self.server.pid)
        self.assertEqual(before["program"], "ib_send_bw")
        self.assertTrue(before["answers"])
        [device] = before["devices"]
        self.assertEqual((device["name"], device["queue_pairs"], device["link_up"]), ("uroce0", 1, True))
        self.assertEqual(device["counters"]["tx_frames"], sum(poller["tx_frames"] for poller in device["pollers"]))
        [ours], [theirs] = before["queue_pairs"], server["queue_pairs"]
        self.assertEqual((ours["destination"], theirs["destination"]), (theirs["number"], ours["number"]))
        self.assertEqual((ours["type"], ours["state"], ours["peer"]), ("RC", "RTS", host_service.ADDRESS))
        self.assertEqual(ours["sent_bytes"], 4096 * ours["sent_messages"])
        self.assertEqual(theirs["received_bytes"], 4096 * theirs["received_messages"])
        self.assertGreater(ours["round_trip_ns"], 0)
        time.sleep(0.1)
        after = process_of(self.client.pid)
        self.assertGreater(after["devices"][0]["counters"]["tx_bytes"], device["counters"]["tx_bytes"])
        self.assertGreater(after["queue_pairs"][0]["sent_messages"], ours["sent_messages"])

    def test_latencies(self):
        def samples(end, stage):
            return sum(one["samples"] for one in process_of(end.pid)["devices"][0]["latencies"] if one["stage"] == stage)
        for end, stage in ((self.client, "wire_to_ack"), (self.client, "post_to_wire"), (self.server, "receive_to_completion")):
            programs.wait_until(lambda at=end, of=stage: samples(at, of) > 0, end)
        for one in process_of(self.client.pid)["devices"][0]["latencies"]:
            self.assertLessEqual(one["p50_ns"], one["p99_ns"])
            self.assertLessEqual(one["p99_ns"], one["max_ns"])
            self.assertEqual(one["samples"] > 0, one["max_ns"] > 0)
            # To within the width of a bucket.
            self.assertLessEqual(one["sum_ns"], one["samples"] * one["max_ns"])
        self.assertRegex(ask("stat", "--pid", str(self.client.pid)).stdout, r"\n    wire_to_ack +send +\d+ +[0-9.]+ .* us: .*\(1 of 16\)\n")

    def test_tables(self):
        everything = ask("stat", "--device", "uroce0").stdout
        for end in (self.client, self.server):
            self.assertIn(f"process {end.pid} ib_send_bw\n", everything)
        of_client = ("--pid", str(self.client.pid))
        table = ask("stat", "--qps", *of_client)
        self.assertEqual((table.returncode, table.stderr), (0, ""))
        self.assertRegex(table.stdout, r"\n    tx_frames +\d+  frames: Given to the port\n")
        self.assertNotIn("drop_icrc", table.stdout)
        self.assertIn("drop_icrc", ask("stat", "--all", *of_client).stdout)
        number = process_of(self.client.pid)["queue_pairs"][0]["number"]
        shown = ask("qp", "show", hex(number), *of_client)
        self.assertEqual((shown.returncode, shown.stderr), (0, ""))
        self.assertIn(f"queue pair {number:#x} of process {self.client.pid} ib_send_bw, device uroce0", shown.stdout)
        self.assertRegex(shown.stdout, r"\n  sent_bytes +[1-9]\d+  bytes: ")
        [row] = json.loads(ask("qp", "show", str(number), "--json", *of_client).stdout)
        self.assertEqual((row["number"], row["pid"]), (number, self.client.pid))
        self.assertIn(f"{number:#x} uroce0", ask("qp", "list").stdout)

    def test_regions(self):
        """ib_send_bw registers one buffer, for both of its ends to write to."""
        client = process_of(self.client.pid)
        [device] = client["devices"]
        [region] = [row for row in client["regions"] if row["kind"] == "user"]
        self.assertEqual((region["device"], region["bound"]), ("uroce0", True))
        self.assertGreaterEqual(region["bytes"], 2 * 4096)
        self.assertIn("local_write", region["rights"])
        self.assertEqual(len(client["regions"]), device["regions"])
        self.assertEqual(device["region_kinds"]["user"], {"regions": 1, "bytes": region["bytes"]})
        self.assertEqual(sum(kind["regions"] for kind in device["region_kinds"].values()), device["regions"])
        table = ask("stat", "--regions", "--pid", str(self.client.pid)).stdout
        self.assertRegex(table, rf"\n  0x{region['key']:08x} uroce0 +user +{region['domain']} +{region['address']:#x} +{region['bytes']}  local_write")
        self.assertNotIn("local_write", ask("stat", "--pid", str(self.client.pid)).stdout)

    def test_watching(self):
        with subprocess.Popen([UROCE, "stat", "--watch", "0.2", "--pid", str(self.client.pid)], stdout=subprocess.PIPE, text=True) as watching:
            rates = []
            for line in watching.stdout:
                rates += re.findall(r"^    tx_frames +\d+ +(\S+)  frames", line)
                if len(rates) == 2:
                    break
            watching.kill()
        self.assertTrue(all(rate != "0" for rate in rates), rates)

    def test_a_stopped_process(self):
        os.kill(self.client.pid, signal.SIGSTOP)
        try:
            # The signal may take a moment.
            programs.wait_until(lambda: not process_of(self.client.pid)["answers"], self.client)
            stopped = process_of(self.client.pid)
            self.assertGreater(stopped["devices"][0]["counters"]["tx_frames"], 0)
            self.assertRegex(ask("stat", "--pid", str(self.client.pid)).stdout, r"does not answer: .* those of \d+ s ago")
        finally:
            os.kill(self.client.pid, signal.SIGCONT)
        self.assertTrue(process_of(self.client.pid)["answers"])

    def test_what_a_process_says_of_itself_is_not_believed(self):
        """Another user's process may show what it likes to the superuser."""
        [place] = [f"/proc/{self.client.pid}/fd/{number}" for number in os.listdir(f"/proc/{self.client.pid}/fd")
                   if os.readlink(f"/proc/{self.client.pid}/fd/{number}").startswith("/memfd:uroce-statistics")]
        content = bytearray(Path(place).read_bytes())
        started = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
        struct.pack_into("<Q", content, 24, started)
        struct.pack_into("64s", content, 32, b"\x1b[2Jharmless\n" + b"x" * 60)
        content[4096 + 192:4096 + 392] = b"\xff" * 200           # numbers of the device
        content[108:112] = b"\xff" * 4                           # what was answered
        content[140:152] = b"\xff" * 12                          # how many rows, queue pairs and regions
        content[152:160] = b"\xff" * 8                           # when
        content[-168:] = b"\xff" * 168
        content[-168 * 4096 - 40:-168 * 4096] = b"\xff" * 40      # the last region
        descriptor = memory(bytes(content), len(content), 2 | 4)
        shown = ask("stat", "--qps", "--regions", "--pid", str(os.getpid()))
        os.close(descriptor)
        self.assertEqual((shown.returncode, shown.stderr), (0, ""))
        self.assertIn(rf"process {os.getpid()} \x1b[2Jharmless\x0axxx", shown.stdout)
        self.assertIn("does not answer", shown.stdout)
        self.assertTrue(shown.stdout.isprintable() or set(filter(lambda c: not c.isprintable(), shown.stdout)) == {"\n"})

    def test_retries_are_those_of_a_fault(self):
        number = process_of(self.client.pid)["queue_pairs"][0]["number"]
        fault = [UROCE, "fault"], ["--socket", str(self.service.socket)]
        subprocess.run([*fault[0], "add", "--client", str(self.server.pid), "--loss", "2%", *fault[1]], check=True, stdout=subprocess.DEVNULL)
        def retransmitted():
            return json.loads(ask("qp", "show", str(number), "--json", "--pid", str(self.client.pid)).stdout)[0]["retransmitted"]
        def lost():
            return process_of(self.server.pid)["devices"][0]["counters"]["fault_lost"]
        programs.wait_until(lambda: lost() > 0, self.client)
        # Probes of a peer that is late, as on a machine with more to do than CPUs, are retransmissions without a loss.
        before = retransmitted()
        programs.wait_until(lambda: lost() > 100 and retransmitted() > before, self.client)
        subprocess.run([*fault[0], "clear", *fault[1]], check=True)

    def test_a_killed_process_leaves_nothing(self):
        with host_service.HostPair(self.stack, self.service) as pair:
            server = pair.start_server(LONG)
            programs.wait_until(lambda: ask("stat", "--pid", str(server.pid)).returncode == 0, server)
            server.kill()
            server.wait()
            gone = ask("stat", "--pid", str(server.pid))
            self.assertEqual((gone.returncode, gone.stdout), (1, ""))
            self.assertIn(f"there is no process {server.pid}\n", gone.stderr)
            self.assertNotIn(server.pid, [process["pid"] for process in json.loads(ask("stat", "--json").stdout)["processes"]])


class Logged(unittest.TestCase):
    def test_a_queue_pair_that_fails(self):
        """Nothing reaches the peer any more: the line says of which queue pair, and why."""
        with host_service.Service(self.stack) as service, host_service.HostPair(self.stack, service) as pair:
            pair.more_configuration = '[log]\nlevel = "info"\nformat = "json"\n'
            server = pair.start_server(LONG)
            client = pair.start_client(LONG)
            programs.wait_until(lambda: ask("stat", "--pid", str(client.pid)).returncode == 0 and process_of(client.pid)["queue_pairs"] and
                                process_of(client.pid)["queue_pairs"][0]["sent_messages"] > 0, client)
            [queue_pair] = process_of(client.pid)["queue_pairs"]
            subprocess.run([UROCE, "fault", "add", "--client", str(server.pid), "--loss", "100%", "--socket", str(service.socket)], check=True,
                           stdout=subprocess.DEVNULL)
            _, said = client.communicate(timeout=programs.TIME_LIMIT_SECONDS)
            lines = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
            [failed] = [line for line in lines if "reason" in line]
            self.assertEqual((failed["queue_pair"], failed["from"], failed["to"]), (queue_pair["number"], "RTS", "ERR"))
            self.assertEqual((failed["peer_queue_pair"], failed["peer_address"]), (queue_pair["destination"], host_service.ADDRESS))
            self.assertEqual((failed["level"], failed["device"], failed["pid"]), ("info", "uroce0", client.pid))
            self.assertIn("retries were used up", failed["reason"])
            self.assertIn(f"queue pair {queue_pair['number']:#x}: RTS to ERR: retries were used up", failed["message"])
            # What was ordered is only for "debug".
            self.assertEqual([line for line in lines if line.get("to") in ("INIT", "RTR", "RTS")], [])


EAL = '[[device]]\nname = "ring"\nport = "net_ring0"\naddresses = ["192.0.2.1/24"]\n[eal]\narguments = ["--telemetry"]\n'


class Telemetry(unittest.TestCase):
    def socket_of(self, pid):
        """DPDK's telemetry socket of a process, or None."""
        opened = set()
        for descriptor in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                opened.add(os.readlink(f"/proc/{pid}/fd/{descriptor}"))
        for line in Path("/proc/net/unix").read_text().splitlines():
            words = line.split()
            if "dpdk_telemetry" in words[-1] and f"socket:[{words[6]}]" in opened:
                return words[-1]
        return None

    def test_what_dpdk_tells(self):
        process = self.stack.start(["ib_send_bw", "-F", "-x", "1", "-p", "18777"], EAL)
        try:
            programs.wait_until(lambda: self.socket_of(process.pid), process)
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as asking:
                asking.connect(self.socket_of(process.pid))
                asking.settimeout(programs.TIME_LIMIT_SECONDS)
                room = json.loads(asking.recv(1024))["max_output_len"]
                def ask_dpdk(what):
                    asking.send(what.encode())
                    return json.loads(asking.recv(room))
                programs.wait_until(lambda: ask_dpdk("/uroce/devices") == {"/uroce/devices": ["ring"]}, process)
                counters = ask_dpdk("/uroce/counters,ring")["/uroce/counters"]
                self.assertEqual(set(counters), set(process_of(process.pid)["devices"][0]["counters"]))
                self.assertIsNone(ask_dpdk("/uroce/counters,none")["/uroce/counters"])
        finally:
            process.kill()
            programs.finish(process)


def memory(content, bytes_, seals):
    """A descriptor of what looks like statistics."""
    descriptor = os.memfd_create("uroce-statistics", os.MFD_ALLOW_SEALING | os.MFD_CLOEXEC)
    os.write(descriptor, content)
    os.truncate(descriptor, bytes_)
    fcntl.fcntl(descriptor, 1033, seals)  # F_ADD_SEALS
    return descriptor


class Refused(unittest.TestCase):
    def expect_line(self, line, *words, status=1):
        done = ask(*words)
        self.assertEqual((done.returncode, done.stdout), (status, ""), done.stderr)
        self.assertRegex(done.stderr, rf"\Auroce {words[0]}[^\n]*{line}[^\n]*\n\Z")

    def test_memory_that_is_not_ours(self):
        header = struct.pack("<QIIQ", MAGIC, 4, 0, 1 << 20)
        sealed = 2 | 4  # F_SEAL_SHRINK, F_SEAL_GROW
        for line, content, bytes_, seals in (("have another format", b"something else", 8192, sealed),
                                             ("are truncated", header, 16, sealed),
                                             ("are of version 7, this program reads version 4", struct.pack("<QI", MAGIC, 7), 8192, sealed),
                                             ("are of another build of uroce", header, 1 << 20, sealed),
                                             ("are not sealed against truncation", header, 1 << 20, 8)):
            with self.subTest(line):
                descriptor = memory(content, bytes_, seals)
                self.expect_line(f"process {os.getpid()}: statistics {line}", "stat", "--pid", str(os.getpid()))
                os.close(descriptor)

    def test_what_is_not_there(self):
        self.expect_line(f"process {os.getpid()} has no device of uroce open", "stat", "--pid", str(os.getpid()))
        self.expect_line("there is no process 4194303", "stat", "--pid", "4194303")
        self.expect_line("device nope open", "stat", "--device", "nope", "--pid", str(os.getpid()))
        self.expect_line("0: the number of a queue pair is 1 to 0xffffff", "qp", "show", "0", status=2)
        self.expect_line("x: the number of a queue pair", "qp", "show", "x", status=2)
        self.expect_line("SECONDS|--watch", "stat", "--watch", "0", status=2)


if __name__ == "__main__":
    programs.main("ib_send_bw")
