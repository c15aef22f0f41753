#!/usr/bin/env python3
"""What `uroce run` shows to programs that look for devices in /sys/class/infiniband and /dev/infiniband, as root and as an
ordinary user; and that they find everything else as it was.

    tests/programs/device_files_test.py LIBRARY_FOLDER SANITIZER_RUNTIME UROCE
"""

import os
import shutil
import signal
import subprocess
import sys
import unittest
from pathlib import Path

import ordinary
import programs

UROCE = os.path.realpath(sys.argv[3])
# What a program can find out about where it is. Its output is the same with and without the files.
SURROUNDINGS = r"""
id -u; id -g; echo $PPID; pwd; umask; ulimit -c; echo "$@"; trap
grep -E '^(Cap(Inh|Prm|Eff|Amb)|Sig(Blk|Ign)|NoNewPrivs|Seccomp):' /proc/self/status
ls -1 /sys/class | grep -v '^infiniband'
ls -1 /dev | grep -v '^infiniband'
for name in /sys/class/net/*; do readlink -f "$name"; cat "$name/mtu"; done
stat -L -c '%n %t %T %a' /dev/null /dev/zero /dev/urandom /dev/shm /dev/net/tun
echo thrown-away >/dev/null; head -c 3 /dev/zero | od -c
"""
NODES = ("rdma_cm", "uverbs0", "uverbs1")


def for_each_user(test):
    """`test` gets what runs a command line as that user."""
    def of_all(self):
        for name, before in self.users():
            with self.subTest(name):
                if self.possible(before):
                    test(self, before)
    return of_all


def mounts():
    return Path("/proc/self/mounts").read_text()


class DeviceFiles(unittest.TestCase):
    def setUp(self):
        left = not os.path.exists("/dev/infiniband")
        if left and os.geteuid() == 0:
            # What a privileged run makes there.
            self.addCleanup(lambda: os.path.exists("/dev/infiniband") and os.rmdir("/dev/infiniband"))

    def run_program(self, command, *options, before=(), configuration=None):
        """(exit status, output)"""
        return programs.finish(self.stack.start([*before, UROCE, "run", *options, "--", *command], configuration))

    def users(self):
        """(name, what makes the rest of a command line run as that user); first one that cannot make /dev/infiniband."""
        reason = ordinary.why_not(self.stack.folder, UROCE)
        if reason:
            print(f"SKIPPED, an ordinary user: {reason}", file=sys.stderr, flush=True)
        else:
            yield "an ordinary user", ordinary.COMMAND
        yield "this user", ()

    def possible(self, before):
        status, output = programs.finish(self.stack.start([*before, UROCE, "info"]))
        self.assertEqual(status, 0, output)
        told = next(line for line in output.splitlines() if "device files" in line)
        if "not shown" in told:
            print(f"SKIPPED: {told.strip()}", file=sys.stderr, flush=True)
        return "not shown" not in told

    @for_each_user
    def test_nodes_and_attributes(self, before):
        script = ('for node in /dev/infiniband/*; do test -c "$node" && test -r "$node" && test -w "$node" && echo "${node##*/}"; done; '
                  "cd /sys/class; grep -r . infiniband infiniband_verbs | sort")
        status, output = self.run_program(["sh", "-c", script], before=before)
        self.assertEqual(status, 0, output)
        lines = output.splitlines()
        self.assertEqual(tuple(lines[:len(NODES)]), NODES)
        for device in range(2):
            for line in ("node_type:1: CA", "ports/1/link_layer:Ethernet", "ports/1/gid_attrs/types/0:RoCE v2",
                         "ports/1/gid_attrs/types/1:RoCE v2"):
                self.assertIn(f"infiniband/uroce{device}/{line}", lines)
            self.assertIn(f"infiniband_verbs/uverbs{device}/ibdev:uroce{device}", lines)

    @for_each_user
    def test_all_else_is_as_it_was(self, before):
        script = ["sh", "-c", SURROUNDINGS, "name", "one", "two words"]
        # As the child of the same process: the program's parent is among what it says.
        said = [self.run_program(script, *options, before=before) for options in ((), ("--no-device-files",))]
        self.assertEqual(said[0], said[1])
        self.assertEqual(said[0][0], 0, said[0][1])

    @for_each_user
    def test_exit_status_and_signals_are_the_programs(self, before):
        self.assertEqual(self.run_program(["sh", "-c", "exit 42"], before=before)[0], 42)
        self.assertEqual(self.run_program(["sh", "-c", "kill -TERM $$"], before=before)[0], -signal.SIGTERM)
        self.assertEqual(self.run_program(["/no/such/program"], before=before)[0], 127)

    @for_each_user
    def test_a_run_inside_a_run_shows_its_own_devices(self, before):
        configuration = '[[device]]\nname = "outer"\nport = "loopback0"\naddresses = ["192.0.2.1/24"]\n'
        inner = [UROCE, "run", "--port", "loopback0", "--name", "inner", "--", "ls", "/sys/class/infiniband"]
        status, output = self.run_program(["sh", "-c", 'ls /sys/class/infiniband; exec "$@"', "sh", *inner], before=before,
                                          configuration=configuration)
        self.assertEqual((status, output.split()), (0, ["outer", "inner"]))

    @for_each_user
    def test_nothing_is_seen_outside(self, before):
        seen = os.listdir("/sys/class"), mounts()
        self.assertEqual(self.run_program(["true"], before=before), (0, ""))
        self.assertEqual((os.listdir("/sys/class"), mounts()), seen)

    @for_each_user
    def test_switched_off(self, before):
        script = "test ! -e /dev/infiniband/uverbs1 && test ! -e /sys/class/infiniband/uroce1"
        status, output = self.run_program(["sh", "-c", script], "--no-device-files", before=before)
        self.assertEqual(status, 0, output)

    @for_each_user
    def test_ucx_finds_the_devices(self, before):
        if not shutil.which("ucx_info"):
            self.skipTest("ucx_info is not installed (Debian's package ucx-utils has it)")
        status, output = self.run_program(["ucx_info", "-d"], before=before)
        self.assertEqual(status, 0, output)
        self.assertNotIn("ERROR", output)
        for device in range(2):
            for transport in ("rc_verbs", "ud_verbs"):
                self.assertRegex(output, rf"(?s)Transport: {transport}\n#\s+Device: uroce{device}:1\n")

    @for_each_user
    def test_programs_of_a_user_read_each_others_memory(self, before):
        # As MPI's ranks on one machine do: they are in one user namespace.
        show = ["sh", "-c", "readlink /proc/self/ns/user; read line; :"]
        started = [self.stack.start([*before, UROCE, "run", "--", *show], stdin=subprocess.PIPE) for _ in range(3)]
        said = [process.stdout.readline() for process in started]
        for process in started:
            process.communicate("\n")
        self.assertRegex(said[0], r"user:\[\d+\]")
        self.assertEqual(len(set(said)), 1, said)

    def test_a_machine_without_namespaces(self):
        if os.geteuid() != 0 or not shutil.which("setpriv"):
            self.skipTest("wants root and setpriv")
        # Capabilities that a user namespace would take away, and none that makes a mount namespace.
        before = ["setpriv", "--bounding-set=-sys_admin", "--inh-caps=-sys_admin"]
        status, output = programs.finish(self.stack.start([*before, UROCE, "info"]))
        self.assertEqual(status, 0, output)
        self.assertRegex(output, r"device files +not shown by 'uroce run': no mount namespace without CAP_SYS_ADMIN")
        self.assertEqual(self.run_program(["sh", "-c", "echo runs"], before=before), (0, "runs\n"))


programs.main("ls", "grep", "od")
