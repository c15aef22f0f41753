#!/usr/bin/env python3
"""What a process may expect of us that it did not ask to be in it (README.md lists the promises).

    tests/embedding/embedding_test.py GUEST DLOPEN_GUEST UROCE EAL_OWNER STATIC_EAL

Every scenario of the guests is a process of its own, once over each kind of port that needs no privileges: without
EAL, with EAL, and with EAL and sockets.
"""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

GUEST, DLOPEN_GUEST, UROCE, EAL_OWNER, STATIC_EAL = (str(pathlib.Path(argument).resolve()) for argument in sys.argv[1:6])
LIBRARIES = pathlib.Path(UROCE).parents[1] / "lib/verbs"
# Far more than any of it takes: only a hang is as long.
TIME_LIMIT_SECONDS = 120
# Where EAL and DPDK's drivers put files.
FOLDERS = ("/var/run/dpdk", "/tmp/dpdk", "/dev/shm", "/dev/hugepages")

DEVICE = """
[[device]]
port = "{port}"
mac = "02:00:00:00:04:0{number}"
addresses = ["192.0.2.{number}/24"]
"""
MEMIF = "net_memif{number},role={role},id=0,socket={scratch}/link,socket-abstract=no"
PORTS = {"loopback": ("loopback0", "loopback1"),
         "rings": ("net_ring0", "net_ring1"),
         "memif": (MEMIF.format(number=0, role="server", scratch="{scratch}"),
                   MEMIF.format(number=1, role="client", scratch="{scratch}"))}

# Scenarios that end like this; all others end with 0.
STATUS = {"leaving-": 42, "dlclose-": 42}


def environment(configuration, scratch):
    variables = {key: value for key, value in os.environ.items() if not key.startswith("UROCE_")}
    # What a guest leaves behind when it does not close is its affair.
    variables["ASAN_OPTIONS"] = variables.get("ASAN_OPTIONS", "") + ":detect_leaks=0"
    return dict(variables, UROCE_CONFIG_TEXT=configuration, SCRATCH=str(scratch), LD_LIBRARY_PATH=str(LIBRARIES))


def devices(kind, scratch):
    return "".join(DEVICE.format(port=port.format(scratch=scratch), number=number)
                   for number, port in enumerate(PORTS[kind], 1))


def files_of_eal():
    return {str(path) for folder in FOLDERS if os.path.isdir(folder) for path in pathlib.Path(folder).iterdir()}


class Embedding(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="uroce-embedding-")
        self.addCleanup(folder.cleanup)
        self.scratch = pathlib.Path(folder.name)

    def start(self, configuration, *command):
        # Another process of that number may have been killed some day.
        self.files_before = files_of_eal()
        process = subprocess.Popen(command, env=environment(configuration, self.scratch), stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return process

    def finish(self, process):
        try:
            return process.communicate(timeout=TIME_LIMIT_SECONDS)
        except subprocess.TimeoutExpired:
            self.fail(f"{process.args} hangs")

    def play(self, configuration, *command, status=0):
        """Runs a scenario; it ends as expected and says nothing."""
        process = self.start(configuration, *command)
        out, errors = self.finish(process)
        self.assertEqual((process.returncode, out, errors), (status, "", ""))
        self.assertEqual(self.left_behind(process.pid), [])

    def left_behind(self, pid):
        """What EAL may have left of a process that has ended: it is called as we told it (--file-prefix)."""
        return [path for path in files_of_eal() - self.files_before
                if re.fullmatch(rf"uroce-{pid}(-.*)?", os.path.basename(path))]

    def refused(self, configuration, *naming):
        """The device does not open, and that is told in one line which names these."""
        process = self.start(configuration, GUEST, "leaving-by-immediate-exit")
        out, errors = self.finish(process)
        lines = errors.splitlines()
        self.assertEqual((process.returncode, out), (1, ""), errors)
        # The last is the guest's own complaint.
        self.assertEqual([line.startswith("uroce: ") for line in lines], [True, False], errors)
        for name in naming:
            self.assertIn(name, lines[0])


class Killed(Embedding):
    """kill -9 in the middle of traffic leaves nothing that hinders the next run."""

    def kill_and_repeat(self, kind):
        configuration = devices(kind, self.scratch)
        for _ in range(2):
            process = self.start(configuration, GUEST, "stays-until-killed")
            self.assertEqual(process.stdout.readline(), "ready\n")
            process.kill()
            self.assertEqual(self.finish(process)[1], "")
            self.assertEqual(self.left_behind(process.pid), [])
        self.play(configuration, GUEST, "leaving-after-closing", status=42)
        self.assertEqual(list(self.scratch.iterdir()), [])

    def test_loopback(self):
        self.kill_and_repeat("loopback")

    def test_rings(self):
        self.kill_and_repeat("rings")

    def test_memif(self):
        self.kill_and_repeat("memif")


class Silence(Embedding):
    """What does not work is one line."""

    def device(self, port, more=""):
        return DEVICE.format(port=port, number=1) + more + DEVICE.format(port="loopback0", number=2)

    def test_a_driver_that_does_not_exist(self):
        self.refused(self.device("net_nonsense0"), "uroce0", "net_nonsense0")

    def test_an_argument_that_does_not_exist(self):
        self.refused(self.device("net_memif0,rolle=server"), "uroce0", "rolle")

    def test_an_interface_that_does_not_exist(self):
        self.refused(self.device("net_af_packet0,iface=nonsense0"), "uroce0", "nonsense0")

    def test_a_nic_that_does_not_exist(self):
        self.refused(self.device("0000:ff:1f.7"), "uroce0", "0000:ff:1f.7")

    def test_an_eal_argument_that_does_not_exist(self):
        self.refused(self.device("net_ring0") + "[eal]\narguments = ['--nonsense']\n", "EAL does not start")

    def test_a_mac_that_the_port_cannot_have(self):
        self.refused(self.device("net_ring0", "mtu = 9216\n").replace("net_ring0", "net_memif0,role=server,socket=/nonsense/x,"
                                                                     "socket-abstract=no"), "/nonsense/x")


class Taskset(Embedding):
    def test_one_cpu(self):
        if shutil.which("taskset") is None:
            self.skipTest("taskset is not installed")
        cpu = max(os.sched_getaffinity(0))
        for kind in PORTS:
            with self.subTest(kind):
                self.play(devices(kind, self.scratch), "taskset", "-c", str(cpu), GUEST, "threads-stay-in-the-cpuset")


class SecondProcess(Embedding):
    """Two processes on one configuration, where that cannot be."""

    def test_a_second_memif_server_is_refused(self):
        configuration = devices("memif", self.scratch)
        first = self.start(configuration, GUEST, "stays-until-killed")
        self.assertEqual(first.stdout.readline(), "ready\n")
        self.refused(configuration, "uroce0", str(self.scratch / "link"), "another process")
        first.send_signal(signal.SIGKILL)
        self.finish(first)
        self.play(configuration, GUEST, "leaving-after-closing", status=42)

    def test_a_second_memif_client_is_refused(self):
        first = self.start(devices("memif", self.scratch), GUEST, "stays-until-killed")
        self.assertEqual(first.stdout.readline(), "ready\n")
        client = PORTS["memif"][1].format(scratch=self.scratch)
        configuration = "".join(DEVICE.format(port=port, number=number)
                                for number, port in ((5, client), (6, "loopback0")))
        self.refused(configuration, "uroce0", str(self.scratch / "link"), "client", "another process")
        self.assertIsNone(first.poll())
        first.send_signal(signal.SIGKILL)
        self.finish(first)
        self.play(devices("memif", self.scratch), GUEST, "leaving-after-closing", status=42)

    def test_wires_inside_a_process_are_its_own(self):
        for kind in ("loopback", "rings"):
            configuration = devices(kind, self.scratch)
            first = self.start(configuration, GUEST, "stays-until-killed")
            self.assertEqual(first.stdout.readline(), "ready\n")
            self.play(configuration, GUEST, "leaving-after-closing", status=42)


class EalOwner(Embedding):
    """A program's own EAL, ended in every order: before exit, by a handler, by a destructor."""

    def end_in_order(self, order):
        for kind in ("memif", "rings"):
            with self.subTest(kind):
                self.play(devices(kind, self.scratch), EAL_OWNER, order, status=42)

    def test_closed_before(self):
        self.end_in_order("closed")

    def test_by_a_handler(self):
        self.end_in_order("handler")

    def test_by_a_destructor(self):
        self.end_in_order("destructor")


class StaticEal(Embedding):
    """A program with a DPDK inside it, beside the one that the stack loads."""

    def test_two_eals_in_one_process(self):
        for kind in ("memif", "rings"):
            with self.subTest(kind):
                self.play(devices(kind, self.scratch), STATIC_EAL, status=42)


class AfPacket(Embedding):
    """On interfaces of the kernel, in a namespace of their own."""

    def setUp(self):
        super().setUp()
        if os.geteuid() != 0 or shutil.which("unshare") is None or shutil.which("ip") is None:
            self.skipTest("needs root, unshare and ip")
        self.configuration = (DEVICE.format(port="net_af_packet0,iface=left", number=1) +
                              DEVICE.format(port="net_af_packet1,iface=right", number=2))

    def play_in_namespace(self, configuration, scenario):
        links = ("ip link add left type veth peer name right && ip link set left up && ip link set right up && "
                 f"exec {GUEST} {scenario}")
        self.play(configuration, "unshare", "-n", "sh", "-c", links)

    def test_cancelling(self):
        self.play_in_namespace(self.configuration, "cancelling-in-the-middle-of-a-turn")

    def test_guids_of_interfaces_are_known_before_opening(self):
        self.play_in_namespace(re.sub("mac = .*\\n", "", self.configuration), "environment-guids-before-opening")


def add_scenarios(name, guest):
    """A test case for each kind of port, with a test for each scenario that the guest lists."""
    scenarios = subprocess.run([guest], capture_output=True, text=True, check=True,
                               env=environment("", "/")).stdout.split()
    for kind in PORTS:
        tests = {}
        for scenario in scenarios:
            status = next((number for start, number in STATUS.items() if scenario.startswith(start)), 0)

            def test(self, kind=kind, scenario=scenario, status=status):
                self.play(devices(kind, self.scratch), guest, scenario, status=status)
            tests["test_" + scenario.replace("-", "_")] = test
        globals()[name + kind.title()] = type(name + kind.title(), (Embedding,), tests)


add_scenarios("Guest", GUEST)
add_scenarios("Dlopen", DLOPEN_GUEST)
unittest.main(argv=[sys.argv[0], *sys.argv[6:]], verbosity=2)
