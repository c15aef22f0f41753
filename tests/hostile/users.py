"""A machine with a service of root and three users who may all use it: a victim, its friend and an attacker.

    tests/hostile/users_TOPIC_test.py LIBRARY_FOLDER SANITIZER_RUNTIME UROCE NVMF_HOST LISTENER FRAME_VICTIM CONTROL_FORMAT CLASS

A scenario attacks as USERS["attacker"], with control.py where no program of ours would do it, and looks at what the victim
and the service have of it.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "programs"))
import control
import ordinary
import programs

UROCE = Path(sys.argv[3]).resolve()
CONTROL_FORMAT = Path(sys.argv[7]).resolve()
LONG = os.environ.get("UROCE_HOSTILE") == "long"
USERS = {"root": 0, "victim": 65101, "friend": 65102, "attacker": 65103}
# Debian's own, which every user can read; the one that runs this test may be root's alone.
PYTHON = "/usr/bin/python3"
LOOPBACK = '[[device]]\nname = "uroce0"\nport = "loopback0"\naddresses = ["192.0.2.1/24"]\n'
# What everything must be given back in, behind an attacker's end.
RETURN_SECONDS = 5
# A victim may have to wait at most so many times as long as when it is alone; and what on a busy machine is no wait at all.
SLOWER_MAX = 10
UNNOTICED_SECONDS = 0.05
# The attacker's process is one more that wants the CPUs, so time slices of the scheduler are no fault of the service.
UNNOTICED_MICROSECONDS = 10_000


class Machine:
    """The service, and processes of its users. `service` is TOML: keys of the table [service]."""

    def __init__(self, stack, devices=LOOPBACK, service=""):
        self.stack = stack
        self.folder = Path(tempfile.mkdtemp(prefix="uroce-users-"))
        self.folder.chmod(0o755)
        self.writable = self.folder / "all"  # for files of all users, as /tmp is
        self.writable.mkdir()
        self.writable.chmod(0o1777)
        self.socket = self.folder / "service.sock"
        self.configuration = self.folder / "serve.toml"
        self.configuration.write_text(f'{devices}[service]\nsocket = "{self.socket}"\nmode = "0666"\n{service}')
        self.log = self.folder / "service.log"
        self.processes = []
        shutil.copy(Path(control.__file__), self.folder)
        self.write_format()
        control.FORMAT = self.folder / "control_format.json"
        self.service = None
        self.start_service()

    def write_format(self):
        shape = json.loads(subprocess.run([CONTROL_FORMAT], capture_output=True, check=True, text=True).stdout)
        header = Path(__file__).resolve().parents[2] / "lib/host/control.h"
        shape["types"] = control.types_of(header.read_text())
        (self.folder / "control_format.json").write_text(json.dumps(shape))

    def start_service(self):
        with self.log.open("a") as log:
            self.service = programs.Program([str(UROCE), "serve", "--config", str(self.configuration)], env=self.environment(),
                                            stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        # Its socket is there before its devices are.
        programs.wait_until(self.answers, self.service)

    def environment(self):
        clean = {key: value for key, value in self.stack.environment("").items() if not key.startswith("UROCE_")}
        return clean | {"UROCE_SERVICE": str(self.socket), "HOME": str(self.folder), "PYTHONDONTWRITEBYTECODE": "1"}

    def answers(self):
        try:
            self.list_seconds()
        except OSError:
            return False
        return True

    def list_seconds(self, seconds=10):
        return control.list_seconds(str(self.socket), seconds)

    def start(self, user, command, **options):
        """A process of the user, with what it says as text."""
        number = USERS[user]
        become = ["setpriv", f"--reuid={number}", f"--regid={number}", "--clear-groups", "--pdeathsig", "KILL"] if number else []
        process = programs.Program([*become, *map(str, command)], env=self.environment() | options.pop("more", {}), stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=self.folder, **options)
        self.processes.append(process)
        return process

    def python(self, user, text, *words):
        """A process of the user that runs the text with the names of control.py. What it prints first, by `print(..., flush=True)`, is
        usually that its attack goes on."""
        return self.start(user, [PYTHON, "-c", "import sys\nsys.path.insert(0, '.')\nfrom control import *\n" + text, *words],
                          more={"LD_PRELOAD": ""})

    def status(self, user="root"):
        code, said = programs.finish(self.start(user, [UROCE, "status", "--json", "--socket", self.socket]))
        assert code == 0, said
        return json.loads(said)

    def programs(self):
        return [one for device in self.status()["devices"] for one in device["programs"]]

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.service.pid}/fd"))

    def memory_kib(self):
        return int(next(line for line in Path(f"/proc/{self.service.pid}/status").read_text().splitlines() if line.startswith("VmRSS")).split()[1])

    def said(self):
        return self.log.read_text(errors="replace")

    def round_trip_us(self, iterations=2000):
        """The median of round trips between a program of the victim and one of its friend."""
        figures = self.writable / "figures.json"
        figures.unlink(missing_ok=True)
        server = self.start("friend", [UROCE, "perf", "--server", "--listen", "0"])
        port = server.stdout.readline().split()[-1]
        client = self.start("victim", [UROCE, "perf", "--connect", f"127.0.0.1:{port}", "--op", "send", "--size", "64", "--measure", "latency",
                                       "--iterations", str(iterations), "--json", figures, "--quiet"])
        code, said = programs.finish(client, 4 * programs.TIME_LIMIT_SECONDS)
        programs.end(server)
        assert code == 0, said
        return json.loads(figures.read_text())["send.64.round_trip_p50_us"]

    def close(self):
        for process in self.processes:
            programs.end(process)
        self.service.terminate()
        try:
            self.service.wait(programs.TIME_LIMIT_SECONDS)
        finally:
            self.service.kill()
            self.service.wait()
            shutil.rmtree(self.folder)


class Scenario(unittest.TestCase):
    """A machine for each test. At its end the service still answers, and has given back what the attackers held."""

    DEVICES = LOOPBACK
    SERVICE = ""

    def setUp(self):
        why = ordinary.why_not(UROCE, CONTROL_FORMAT, PYTHON)
        if why:
            self.skipTest(why)
        self.machine = Machine(self.stack, self.DEVICES, self.SERVICE)
        self.addCleanup(self.machine.close)
        self.held = self.machine.descriptors()

    def say(self, what):
        print(f"{self._testMethodName}: {what}", file=sys.stderr, flush=True)

    def wait_for(self, condition, what, seconds=30):
        deadline = time.monotonic() + seconds
        while not condition():
            self.assertIsNone(self.machine.service.poll(), f"the service has ended: {self.machine.said()}")
            self.assertLess(time.monotonic(), deadline, what)
            time.sleep(0.05)

    def ready(self, process):
        """The first line that an attacker prints: its attack goes on."""
        line = process.stdout.readline()
        self.assertTrue(line, "the attacker has ended")
        self.say(line.strip())
        return line

    def expect_answers(self, alone_seconds, attempts=5):
        """The service's control is as quick as alone; the best of some attempts, since the machine has other work."""
        limit = max(UNNOTICED_SECONDS, SLOWER_MAX * alone_seconds)
        took = []
        for _ in range(attempts):
            took.append(self.machine.list_seconds())
            if took[-1] <= limit:
                return
        self.fail(f"the service took {took} s to answer, {alone_seconds} s alone")

    def expect_round_trip(self, alone_us, attempts=3):
        limit = max(UNNOTICED_MICROSECONDS, SLOWER_MAX * alone_us)
        took = []
        for _ in range(attempts):
            took.append(self.machine.round_trip_us())
            if took[-1] <= limit:
                return
        self.fail(f"round trips of {took} us, {alone_us} us alone")

    def expect_given_back(self, more_descriptors=0):
        """Within RETURN_SECONDS of the attacker's end, and twice that where a sanitizer slows everything."""
        self.wait_for(lambda: self.machine.descriptors() <= self.held + more_descriptors,
                      f"the service holds {self.machine.descriptors()} descriptors, {self.held} before",
                      RETURN_SECONDS * (4 if self.stack.sanitizer_runtime else 1))


def main(*needed):
    only = sys.argv[-1]
    sys.argv = sys.argv[:3]
    programs.main("setpriv", *needed, only=only)
