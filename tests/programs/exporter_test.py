#!/usr/bin/env python3
"""A real Prometheus scrapes `uroce exporter` while two programs run: metrics, rules and the dashboard's expressions.

    tests/programs/exporter_test.py LIBRARY_FOLDER SANITIZER_RUNTIME UROCE
"""

import json
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import unittest
import urllib.parse
import urllib.request
from pathlib import Path

import host_service
import programs

UROCE = sys.argv[3]
MONITORING = Path(__file__).resolve().parents[2] / "configs/monitoring"
LONG = ["ib_send_bw", "-F", "-x", "1", "-m", "4096", "-s", "4096", "-D", "60"]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def get(url):
    with urllib.request.urlopen(url, timeout=programs.TIME_LIMIT_SECONDS) as answer:
        return answer.read().decode()


def end(process):
    process.send_signal(signal.SIGTERM)
    return process.wait(programs.TIME_LIMIT_SECONDS)


class Exporter:
    """The exporter at a port of its own."""

    def __enter__(self):
        self.process = subprocess.Popen([UROCE, "exporter", "--listen", "127.0.0.1:0"], stdout=subprocess.PIPE, text=True)
        self.port = int(re.fullmatch(r"uroce exporter: metrics at port (\d+), path /metrics\n", self.process.stdout.readline())[1])
        return self

    def __exit__(self, *_):
        self.status = end(self.process)
        self.process.stdout.close()

    def metrics(self):
        return get(f"http://127.0.0.1:{self.port}/metrics")


class Prometheus:
    """Debian's, with the configuration that is installed, but for the target's port and how often."""

    def __init__(self, target):
        self.target = target

    def __enter__(self):
        self.folder = Path(tempfile.mkdtemp(prefix="uroce-prometheus-"))
        text = (MONITORING / "prometheus.yml").read_text().replace(": 1s", ": 200ms").replace("127.0.0.1:9877", f"127.0.0.1:{self.target}")
        (self.folder / "prometheus.yml").write_text(text)
        shutil.copy(MONITORING / "alerts.yml", self.folder)
        self.port = free_port()
        self.process = subprocess.Popen(
            ["prometheus", "--config.file", str(self.folder / "prometheus.yml"), "--storage.tsdb.path", str(self.folder / "data"),
             "--web.listen-address", f"127.0.0.1:{self.port}"], stderr=subprocess.DEVNULL)
        return self

    def __exit__(self, *_):
        end(self.process)
        shutil.rmtree(self.folder)

    def ask(self, what, **parameters):
        try:
            answer = json.loads(get(f"http://127.0.0.1:{self.port}/api/v1/{what}?{urllib.parse.urlencode(parameters)}"))
        except OSError as error:
            if self.process.poll() is not None:
                raise AssertionError("Prometheus does not run") from error
            return None
        assert answer["status"] == "success", answer
        return answer["data"]

    def query(self, expression):
        """(labels, value) of each result."""
        data = self.ask("query", query=expression)
        return [(one["metric"], float(one["value"][1])) for one in data["result"]] if data else []

    def alerts(self):
        data = self.ask("alerts")
        return {alert["labels"]["alertname"] for alert in data["alerts"]} if data else set()


@unittest.skipUnless(shutil.which("prometheus"), "prometheus is not installed")
class Scraped(unittest.TestCase):
    def test_rules_and_metrics_are_well_formed(self):
        for arguments in (["rules", MONITORING / "alerts.yml"], ["config", MONITORING / "prometheus.yml"]):
            subprocess.run(["promtool", "check", *arguments], check=True, stdout=subprocess.DEVNULL)

    def test_what_a_real_prometheus_sees(self):
        with host_service.Service(self.stack) as service, host_service.HostPair(self.stack, service) as pair, Exporter() as exporter, \
                Prometheus(exporter.port) as prometheus:
            server = pair.start_server(LONG)
            client = pair.start_client(LONG)
            of_client = f'process_pid="{client.pid}"'
            programs.wait_until(lambda: any(value > 0 for _, value in prometheus.query(f"rate(uroce_tx_bytes_total{{{of_client}}}[1s])")), client)
            [(labels, value)] = prometheus.query(f"sum by (process_executable_name, device) (uroce_tx_frames_total{{{of_client}}})")
            self.assertEqual(labels, {"process_executable_name": "ib_send_bw", "device": "uroce0"})
            self.assertGreater(value, 0)
            [(labels, _)] = prometheus.query(f"uroce_queue_pair_sent_bytes_total{{{of_client}}}")
            self.assertEqual(labels["network_peer_address"], host_service.ADDRESS)
            self.check_text(exporter.metrics())
            self.check_dashboard(prometheus)
            # An alert fires when it should, and not before.
            self.assertNotIn("UroceFaultsOrdered", prometheus.alerts())
            fault = [UROCE, "fault", "add", "--client", str(server.pid), "--loss", "2%", "--socket", str(service.socket)]
            subprocess.run(fault, check=True, stdout=subprocess.DEVNULL)
            programs.wait_until(lambda: "UroceFaultsOrdered" in prometheus.alerts(), client)
        self.assertEqual(exporter.status, 0)

    def check_text(self, text):
        done = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout + done.stderr), (0, ""))
        self.assertIn('reason="icrc"', text)
        self.assertRegex(text, r'uroce_region_bytes{.*kind="user"} [1-9]')
        # Keys are for those that may look at the process, not for every client that can connect.
        self.assertNotIn("key=", text)
        self.assertRegex(text, r'uroce_latency_seconds_bucket{.*stage="wire_to_ack",operation="send",le="\+Inf"} [1-9]')

    def check_dashboard(self, prometheus):
        """Each expression is understood, and what it is about is there."""
        names = set(prometheus.ask("label/__name__/values"))
        dashboard = json.loads((MONITORING / "dashboard.json").read_text())
        expressions = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
        self.assertGreater(len(expressions), 10)
        rules = re.findall(r"uroce_\w+", (MONITORING / "alerts.yml").read_text())
        for expression in expressions:
            prometheus.query(expression.replace("$__rate_interval", "1m").replace("$instance", ".*"))
        for name in [*rules, *(name for expression in expressions for name in re.findall(r"\buroce_\w+", expression))]:
            # Those of an NVMe-oF target are nvmf_test.py's.
            if not name.startswith("uroce_nvmf_"):
                self.assertIn(name, names)


class Refused(unittest.TestCase):
    def test_one_line(self):
        with Exporter() as exporter:
            for listen, status in ((f"127.0.0.1:{exporter.port}", 1), ("nonsense", 1), ("192.0.2.77:1", 1)):
                done = subprocess.run([UROCE, "exporter", "--listen", listen], capture_output=True, text=True,
                                      timeout=programs.TIME_LIMIT_SECONDS)
                self.assertEqual((done.returncode, done.stdout), (status, ""))
                self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
                self.assertIn(f"uroce exporter: cannot listen at {listen}", done.stderr)

    def test_once(self):
        done = subprocess.run([UROCE, "exporter", "--once"], capture_output=True, text=True, check=True)
        self.assertIn("# TYPE uroce_unreadable_processes gauge\n", done.stdout)
        with open("/dev/full", "w", encoding="utf-8") as full:
            self.assertEqual(subprocess.run([UROCE, "exporter", "--once"], stdout=full).returncode, 1)


if __name__ == "__main__":
    programs.main("ib_send_bw")
