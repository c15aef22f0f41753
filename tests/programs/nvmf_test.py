#!/usr/bin/env python3
"""`uroce nvmf` as its user sees it, with a host of ours (tests/nvmf) over memif; tests/interop has the kernel's.

    tests/programs/nvmf_test.py LIBRARY_FOLDER SANITIZER_RUNTIME UROCE HOST
"""

import json
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

import exported_disk
import programs
from exported_disk import FRIEND, STRANGER, SUBSYSTEM

TABLES = exported_disk.tables("192.0.2.1")


class Target:
    """The program, and the file that it was started with."""

    def __init__(self, pair, folder, tables=TABLES, options=()):
        self.file = Path(folder) / "nvmf.toml"
        self.said = Path(folder) / "said"
        self.devices = pair.configuration("server")
        self.write(tables)
        with open(self.said, "wb") as output:
            self.process = subprocess.Popen([sys.argv[3], "nvmf", "--config", str(self.file), *options], env=pair.stack.environment(),
                                            stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)
        pair.processes.append(self.process)
        self.wait_for("listening at 192.0.2.1 port 4420")

    def write(self, tables):
        self.file.write_text(self.devices + tables)

    def wait_for(self, text, since=0):
        deadline = time.monotonic() + programs.TIME_LIMIT_SECONDS
        while text not in self.said.read_text()[since:]:
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"the target does not say '{text}', but:\n{self.said.read_text()}")
            time.sleep(0.02)

    def signal(self, number, answer):
        since = len(self.said.read_text())
        self.process.send_signal(number)
        self.wait_for(answer, since)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(programs.TIME_LIMIT_SECONDS)


class Nvmf(unittest.TestCase):
    def setUp(self):
        self.pair = programs.Pair(self.stack)
        self.addCleanup(self.pair.__exit__)
        folder = tempfile.TemporaryDirectory(prefix="uroce-nvmf-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def host(self, *actions, name=FRIEND):
        """(exit status, output)"""
        return programs.finish(self.pair.start("client", [sys.argv[4], "192.0.2.1", "192.0.2.2", SUBSYSTEM, name, *actions]))

    def expect(self, said, *actions):
        status, output = self.host(*actions)
        self.assertEqual(status, 0, output)
        self.assertIn(said, output)

    def test_the_file_is_followed(self):
        backing = Path(self.folder) / "disk"
        backing.write_bytes(bytes(1 << 20))
        target = Target(self.pair, self.folder)
        self.expect("namespaces 1\n", "namespaces", "write:1:7")

        target.write(TABLES + f'[[nvmf.subsystem.namespace]]\nnsid = 5\ndriver = "file"\npath = "{backing}"\nblock_size = 512\n')
        target.signal(signal.SIGHUP, "was read again")
        self.expect("namespaces 1 5\n", "namespaces", "verify:1:7", "write:5:9", "verify:5:9")

        # What is wrong is told with its line, and changes nothing.
        wrong = TABLES.replace('driver = "ram"', 'driver = "rum"')
        target.write(wrong)
        line = next(n for n, text in enumerate(target.file.read_text().splitlines(), 1) if "rum" in text)
        target.signal(signal.SIGHUP, "nothing is changed")
        said = target.said.read_text()
        self.assertRegex(said, rf"nvmf\.toml:\d+: .*no block driver 'rum'")
        self.assertLessEqual(abs(int(said.split("nvmf.toml:")[-1].split(":")[0]) - line), 2, said)
        self.expect("namespaces 1 5\n", "namespaces", "verify:5:9")

        target.write(TABLES)
        target.signal(signal.SIGHUP, "was read again")
        self.expect("namespaces 1\n", "namespaces", "verify:1:7")

        target.signal(signal.SIGUSR1, "bytes from host")
        self.assertEqual(target.stop(), 0, target.said.read_text())

    def test_queues_are_seen_by_tools(self):
        target = Target(self.pair, self.folder)
        host = self.pair.start("client", [sys.argv[4], "192.0.2.1", "192.0.2.2", SUBSYSTEM, FRIEND, "time:1:100000000"])

        def io_queues():
            shown = subprocess.run([sys.argv[3], "stat", "--json", "--pid", str(target.process.pid)], capture_output=True, text=True, check=True)
            [process] = json.loads(shown.stdout)["processes"]
            return [queue for queue in process.get("nvmf_queues", []) if queue["queue"] > 0 and queue["commands"] > 0]

        programs.wait_until(io_queues, host)
        # Its first command is Connect.
        programs.wait_until(lambda: sum(self.namespace_of(target)[what] for what in ("reads", "writes")) > 100, host)
        [queue] = io_queues()
        self.assertEqual((queue["host"], queue["host_nqn"], queue["errors"]), ("192.0.2.2", FRIEND, 0))
        self.assertGreater(queue["bytes_to_host"] + queue["bytes_from_host"], 0)
        table = subprocess.run([sys.argv[3], "stat", "--pid", str(target.process.pid)], capture_output=True, text=True, check=True).stdout
        self.assertRegex(table, rf"\n  192\.0\.2\.2 +1 .* {re.escape(FRIEND)}\n")
        metrics = subprocess.run([sys.argv[3], "exporter", "--once"], capture_output=True, text=True, check=True).stdout
        self.assertRegex(metrics, rf'uroce_nvmf_queue_commands_total{{process_pid="{target.process.pid}",.*nvme_queue="1"}} [1-9]')
        self.check_namespace(target, table, metrics)
        host.kill()
        programs.finish(host)
        self.assertEqual(target.stop(), 0, target.said.read_text())

    def namespace_of(self, target):
        shown = subprocess.run([sys.argv[3], "stat", "--json", "--pid", str(target.process.pid)], capture_output=True, text=True, check=True)
        [process] = json.loads(shown.stdout)["processes"]
        [namespace] = process["nvmf_namespaces"]
        return namespace

    def check_namespace(self, target, table, metrics):
        """It reads and writes by turns (time:...)."""
        namespace = self.namespace_of(target)
        self.assertEqual((namespace["subsystem"], namespace["nsid"], namespace["errors"]), (SUBSYSTEM, 1, 0))
        self.assertGreater(namespace["reads"] + namespace["writes"], 0)
        self.assertGreaterEqual(namespace["bytes_read"] + namespace["bytes_written"], 512 * (namespace["reads"] + namespace["writes"]))
        samples = sum(latency["samples"] for latency in namespace["latencies"])
        self.assertAlmostEqual(samples, (namespace["reads"] + namespace["writes"]) / 16, delta=2)
        for latency in namespace["latencies"]:
            self.assertEqual(latency["samples"] > 0, latency["max_ns"] > 0)
            self.assertLessEqual(latency["p50_ns"], latency["p99_ns"])
        self.assertRegex(table, rf"\n +1 .* {re.escape(SUBSYSTEM)}\n +(read|write) in us: p50 ")
        self.assertRegex(metrics, rf'uroce_nvmf_namespace_(reads|writes)_total{{process_pid="{target.process.pid}",.*nvme_namespace="1"}} [1-9]')
        dashboard = (Path(__file__).resolve().parents[2] / "configs/monitoring/dashboard.json").read_text()
        for name in re.findall(r"\buroce_nvmf_\w+", dashboard):
            self.assertIn(name, metrics)

    def test_a_log_of_json(self):
        """Lines on standard error are objects, with the numbers of what they are about."""
        target = Target(self.pair, self.folder, options=["--log-format", "json"])
        self.host("namespaces", name=STRANGER)
        target.wait_for("Connect refused")
        self.expect("namespaces 1\n", "namespaces")
        self.assertEqual(target.stop(), 0, target.said.read_text())
        lines = [json.loads(line) for line in target.said.read_text().splitlines() if line.startswith("{")]
        [refused] = [line for line in lines if line.get("event") == "Connect refused"]
        self.assertEqual((refused["origin"], refused["host"], refused["queue"], refused["host_nqn"]), ("uroce nvmf", "192.0.2.2", 0, STRANGER))
        connected = [line for line in lines if line.get("event") == "connected"]
        self.assertIn(0, [line["queue"] for line in connected])
        for line in connected:
            self.assertEqual((line["host_nqn"], line["level"]), (FRIEND, "info"))
        self.assertNotIn("\nuroce nvmf: 192.0.2.2", target.said.read_text())

    def test_who_is_not_on_the_list_is_refused(self):
        target = Target(self.pair, self.folder)
        status, output = self.host("namespaces", name=STRANGER)
        self.assertEqual(status, 1, output)
        self.assertIn("Connect of the admin queue failed: 0x184", output)
        target.wait_for(f"192.0.2.2 queue 0 host {STRANGER} subsystem {SUBSYSTEM} status 0x184: Connect refused")
        self.expect("namespaces 1\n", "namespaces")
        target.wait_for(f"192.0.2.2 queue 0 host {FRIEND} subsystem {SUBSYSTEM}: connected")
        target.wait_for(f"host {FRIEND}: ended: by the host")
        target.signal(signal.SIGUSR1, "Connect refused   ")
        self.assertRegex(target.said.read_text(), r"\nConnect refused +1\n")
        self.assertEqual(target.stop(), 0, target.said.read_text())

    def test_a_host_without_a_name_is_served_where_any_host_is(self):
        target = Target(self.pair, self.folder, TABLES.replace(f'hosts = ["{FRIEND}"]', "allow_any_host = true"))
        status, output = self.host("namespaces", name="")
        self.assertEqual(status, 0, output)
        self.assertIn("namespaces 1\n", output)
        self.assertEqual(target.stop(), 0, target.said.read_text())

    def test_a_killed_target_comes_back_with_its_file(self):
        backing = Path(self.folder) / "disk"
        backing.write_bytes(bytes(1 << 20))
        tables = TABLES.replace('driver = "ram"\nsize = "1M"', f'driver = "file"\npath = "{backing}"')
        target = Target(self.pair, self.folder, tables)
        self.expect("namespace 1 is right\n", "write:1:3", "verify:1:3")
        target.process.kill()
        target.process.wait()
        target = Target(self.pair, self.folder, tables)
        self.expect("namespace 1 is right\n", "verify:1:3")
        self.assertEqual(target.stop(), 0, target.said.read_text())

    def test_a_wrong_file_is_the_end_at_the_start(self):
        file = Path(self.folder) / "nvmf.toml"
        file.write_text(self.pair.configuration("server") + TABLES + "colour = 1\n")
        done = subprocess.run([sys.argv[3], "nvmf", "--config", str(file)], env=self.stack.environment(), stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=programs.TIME_LIMIT_SECONDS)
        line = len(file.read_text().splitlines())
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(f"nvmf.toml:{line}: ", done.stderr)
        self.assertIn("colour", done.stderr)


if __name__ == "__main__":
    programs.main()
