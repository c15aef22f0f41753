#!/usr/bin/env python3
"""Programs of ordinary users without any configuration: the first one starts the service of its user, which all share.

    tests/programs/zero_configuration_test.py LIBRARY_FOLDER UROCE SANITIZER_RUNTIME NVMF_HOST
"""

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import ordinary
import programs
import terminals
from ports import UROCE, TestCase, main

# Opens a device, then waits for any child of its own.
OPENER = """
import ctypes, os
verbs = ctypes.CDLL('libibverbs.so.1')
verbs.ibv_get_device_list.restype = ctypes.POINTER(ctypes.c_void_p)
verbs.ibv_open_device.restype = ctypes.c_void_p
verbs.ibv_open_device.argtypes = [ctypes.c_void_p]
assert verbs.ibv_open_device(verbs.ibv_get_device_list(None)[0])
print('opened', flush=True)
os.wait()
"""
TERMINALS = terminals.all_terminals(Path(sys.argv[4]).resolve())


class OfOneUser(TestCase):
    """`command` runs a command as the user, `environment` is all that it knows of the service."""

    command = ()

    def setUp(self):
        super().setUp()
        self.addCleanup(self.end_service)
        os.chmod(self.folder, 0o700)
        self.environment = {"XDG_RUNTIME_DIR": str(self.folder)}
        self.socket = self.folder / "uroce/service.sock"

    def start_program(self, *command):
        process = self.stack.start([*self.command, "setpriv", "--pdeathsig", "KILL", *command], "", self.environment)
        self.addCleanup(programs.end, process)
        return process

    def run_program(self, *command):
        """Its output."""
        status, output = programs.finish(self.start_program(*command))
        self.assertEqual(status, 0, output)
        return output

    @staticmethod
    def eventually(condition):
        deadline = time.monotonic() + programs.TIME_LIMIT_SECONDS
        while not condition():
            assert time.monotonic() < deadline
            time.sleep(0.05)

    def status(self):
        done = subprocess.run([*self.command, UROCE, "status", "--json", "--socket", str(self.socket)], capture_output=True, text=True)
        return json.loads(done.stdout) if done.returncode == 0 else None

    def end_service(self):
        """It leaves nothing behind."""
        status = self.status()
        if status is None:
            return
        os.kill(status["pid"], signal.SIGTERM)
        self.eventually(lambda: not Path(f"/proc/{status['pid']}").exists())
        self.assertEqual(list(self.socket.parent.iterdir()), [])


class Start(OfOneUser):
    def setUp(self):
        super().setUp()
        self.socket = self.folder / "run/service.sock"
        self.environment = {"UROCE_SERVICE": str(self.socket)}

    def test_several_programs_at_once(self):
        for process in [self.start_program(UROCE, "info") for _ in range(6)]:
            status, output = programs.finish(process)
            self.assertEqual(status, 0, output)
            self.assertIn("host", output)

    def test_a_service_that_ends_in_the_moment_of_the_attach(self):
        self.socket.parent.mkdir(mode=0o700)
        script = ("import os, socket, sys\nlistening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)\nlistening.bind(sys.argv[1])\n"
                  "listening.listen()\nprint('ready', flush=True)\nfirst = listening.accept()[0]\nos.unlink(sys.argv[1])\n")
        ending = self.start(["python3", "-c", script, str(self.socket)])
        self.assertEqual(ending.stdout.readline(), "ready\n")
        self.run_program(UROCE, "info")
        self.assertEqual(programs.finish(ending)[0], 0)

    def test_the_service_is_no_child_of_the_program_that_starts_it(self):
        status, output = programs.finish(self.start_program(UROCE, "run", "--", sys.executable, "-c", OPENER))
        self.assertIn("opened", output)
        self.assertIn("ChildProcessError", output)
        self.assertNotEqual(status, 0)
        self.assertIsNotNone(self.status())


class OrdinaryUser(OfOneUser):
    command = ordinary.COMMAND

    def setUp(self):
        if reason := ordinary.why_not(UROCE):
            self.skipTest(reason)
        super().setUp()
        os.chown(self.folder, ordinary.USER, ordinary.USER)

    def test_two_terminals(self):
        self.exported = self.folder / "nvmf.toml"
        self.exported.write_text(terminals.EXPORTED)
        services = set()
        for both in TERMINALS:
            if both.sanitized >= bool(self.stack.sanitizer_runtime) and self.is_there(both):
                with self.subTest(both.name):
                    self.in_two_terminals(both)
                    self.eventually(lambda: self.status()["programs"] == 0)
                    services.add(self.status()["pid"])
        self.assertEqual(len(services), 1, "each terminal has the service of the user")

    @staticmethod
    def is_there(both):
        if found := shutil.which(both.name.split()[0]) or both.name.startswith("uroce "):
            return found
        print(f"SKIPPED, not installed: {both.name}", file=sys.stderr, flush=True)
        return False

    def in_two_terminals(self, both):
        port = programs.free_tcp_port()
        command = lambda text: shlex.split(text.format(port=port, exported=self.exported))  # noqa: E731
        server = self.start_program(*command(both.server))
        programs.wait_until(lambda: programs.listens(port) if both.ready == terminals.TCP else self.has_bound(), server)
        self.assertRegex(self.run_program(*command(both.client)), both.client_says)
        if both.endless:
            server.terminate()
        status, output = programs.finish(server)
        self.assertEqual(status, 0, output)
        self.assertRegex(output, both.server_says)

    def has_bound(self):
        """Whether the one program that there is has a port of rdma_cm; the service has a request wait until it listens there."""
        status = self.status()
        return status is not None and any(program["ports"] for device in status["devices"] for program in device["programs"])

    def test_info_names_the_service(self):
        output = self.run_program(UROCE, "info")
        self.assertIn(str(self.socket), output)
        self.assertEqual(os.stat(f"/proc/{self.status()['pid']}").st_uid, ordinary.USER)


main()
