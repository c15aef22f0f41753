#!/usr/bin/env python3
"""Neighbours of one host that share its service's device: programs that are killed, stopped or flood, beside a pair that moves
verified data.

    tests/hostile/neighbours_test.py LIBRARY_FOLDER SANITIZER_RUNTIME UROCE [UNUSED...] CLASS

UROCE_HOSTILE=long: 1,000 programs are killed, not 40.
"""

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "programs"))
import programs

UROCE = Path(sys.argv[3]).resolve()
LONG = os.environ.get("UROCE_HOSTILE") == "long"
KILLS = 1000 if LONG else 40
SEED = int(os.environ.get("UROCE_SEED", "0")) or random.SystemRandom().randrange(1, 1 << 32)
DEVICE = "192.0.2.1"


class Host:
    """A service of its own, and programs that use it."""

    def __init__(self, stack):
        self.stack = stack
        self.folder = tempfile.TemporaryDirectory(prefix="uroce-neighbours-")
        self.socket = f"{self.folder.name}/service.sock"
        self.processes = []
        self.service = None

    def start_service(self):
        self.service = self.start([str(UROCE), "serve", "--socket", self.socket])
        programs.wait_until(lambda: Path(self.socket).exists(), self.service)

    def start(self, command):
        environment = {key: value for key, value in self.stack.environment().items() if not key.startswith("UROCE_")}
        process = programs.Program(command, env=environment | {"UROCE_SERVICE": self.socket}, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.processes.append(process)
        return process

    def close(self):
        for process in self.processes:
            programs.end(process)
        self.folder.cleanup()

    def status(self):
        code, said = programs.finish(self.start([str(UROCE), "status", "--json", "--socket", self.socket]))
        assert code == 0, said
        return json.loads(said)

    def programs(self):
        return [one for device in self.status()["devices"] for one in device["programs"]]

    def perf(self, seconds, operations="write,send,read"):
        """A pair that moves verified data for about so long: (server, client)."""
        server = self.start([str(UROCE), "perf", "--server", "--listen", "0"])
        said = server.stdout.readline()
        port = said.split()[-1]
        assert port.isdigit(), said
        client = self.start([str(UROCE), "perf", "--connect", f"127.0.0.1:{port}", "--op", operations, "--size", "4096,65536",
                             "--measure", "bandwidth", "--duration", str(seconds / (2 * len(operations.split(",")))), "--quiet"])
        return server, client


def descriptors_of(process):
    return len(os.listdir(f"/proc/{process.pid}/fd"))


def memory_kib(process):
    return int(next(line for line in Path(f"/proc/{process.pid}/status").read_text().splitlines() if line.startswith("VmRSS")).split()[1])


class Neighbours(unittest.TestCase):
    def setUp(self):
        self.host = Host(self.stack)
        self.addCleanup(self.host.close)
        self.host.start_service()
        print(f"UROCE_SEED={SEED}", flush=True)
        self.random = random.Random(SEED)

    def expect_ended_well(self, *processes):
        for process in processes:
            code, said = programs.finish(process, 240)
            self.assertEqual(code, 0, said)

    def wait_for(self, condition, what, seconds=30):
        deadline = time.monotonic() + seconds
        while not condition():
            self.assertLess(time.monotonic(), deadline, what)
            time.sleep(0.05)

    def test_programs_that_are_killed_leave_nothing_behind(self):
        """Pairs under load are killed at any moment; a pair beside them moves verified data, again and again."""
        self.expect_ended_well(*self.host.perf(0.6))
        before = descriptors_of(self.host.service)
        calm, killed = [], 0
        grown = None
        while killed < KILLS:
            if not any(process.poll() is None for process in calm):
                self.expect_ended_well(*calm)
                calm = self.host.perf(4)
            # Now and then the client finds no server, and ends by itself.
            pairs = [self.busy_pair(waits_for_server=self.random.random() < 0.8) for _ in range(2)]
            time.sleep(self.random.uniform(0.1, 0.8))
            for process in [process for pair in pairs for process in pair]:
                process.kill()
                killed += 1
                time.sleep(self.random.uniform(0, 0.05))
                programs.end(process)
            grown = grown or memory_kib(self.host.service)
        self.expect_ended_well(*calm)
        self.wait_for(lambda: not self.host.programs(), "the service still has programs that were killed")
        self.assertLessEqual(descriptors_of(self.host.service), before + 2, "descriptors of killed programs")
        # ASan keeps what was freed for a while.
        more_kib = (512 if self.stack.sanitizer_runtime else 64) * 1024
        self.assertLess(memory_kib(self.host.service), grown + more_kib, "memory of killed programs")
        self.expect_ended_well(*self.host.perf(0.6))

    def busy_pair(self, waits_for_server=True):
        port = str(programs.free_tcp_port())
        command = ["ib_write_bw", "-d", "uroce0", "-x", "1", "-F", "-D", "30", "-q", "4", "-p", port]
        run = [str(UROCE), "run", "--no-device-files", "--", *command]
        server = self.host.start(run)
        if waits_for_server:
            programs.wait_until(lambda: programs.listens(int(port)), server)
        return server, self.host.start([*run, "127.0.0.1"])

    def test_a_stopped_neighbour_holds_up_no_other(self):
        """One end of a busy pair is stopped: what its peer sends it waits, and others go on. Then it goes on itself."""
        server, client = self.busy_pair()
        self.wait_for(lambda: len(self.host.programs()) == 2, "the pair does not begin")
        time.sleep(0.5)
        for stopped in (server, client):
            stopped.send_signal(signal.SIGSTOP)
            self.expect_ended_well(*self.host.perf(1))
            stopped.send_signal(signal.SIGCONT)
            time.sleep(0.2)

    def test_pairs_go_on_while_the_service_is_stopped(self):
        server, client = self.host.perf(5)
        self.wait_for(lambda: len(self.host.programs()) == 2, "the pair does not begin")
        time.sleep(1)  # they have been introduced
        self.host.service.send_signal(signal.SIGSTOP)
        self.expect_ended_well(client, server)
        self.host.service.send_signal(signal.SIGCONT)
        self.wait_for(lambda: not self.host.programs(), "the service does not notice their end")

    def test_pairs_go_on_when_the_service_is_killed_and_comes_back(self):
        server, client = self.host.perf(6)
        self.wait_for(lambda: len(self.host.programs()) == 2, "the pair does not begin")
        numbers = sorted(one["numbers"]["first"] for one in self.host.programs())
        time.sleep(1)
        self.host.service.kill()
        programs.end(self.host.service)
        Path(self.host.socket).unlink(missing_ok=True)
        self.host.start_service()
        self.wait_for(lambda: len(self.host.programs()) == 2, "the programs do not come back")
        self.assertEqual(sorted(one["numbers"]["first"] for one in self.host.programs()), numbers)
        self.expect_ended_well(client, server)

    def test_a_flood_of_connections_says_nothing_and_holds_up_none(self):
        flood = self.host.start([sys.executable, "-c", "import socket, time\nall = []\n"
                                 "while True:\n s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)\n"
                                 f" s.connect({self.host.socket!r})\n all.append(s)\n all = all[-500:]"])
        time.sleep(0.5)
        self.assertIsNone(flood.poll(), "the flood ended")
        for _ in range(3):
            code, said = programs.finish(self.host.start([str(UROCE), "run", "--no-device-files", "--", "ibv_devinfo"]))
            self.assertEqual(code, 0, said)
            self.assertIn("PORT_ACTIVE", said)
        programs.end(flood)
        self.expect_ended_well(*self.host.perf(0.6))


if __name__ == "__main__":
    only = sys.argv[-1]
    sys.argv = sys.argv[:3]
    programs.main("ib_write_bw", "ibv_devinfo", only=only)
