"""Runs unmodified programs over the built libraries, as a user would: library path and configuration by environment."""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path

# For any step of a program; far more than it needs, so that a slow machine does not fail and a hang does.
TIME_LIMIT_SECONDS = 60
SKIPPED = 77
# Two devices in each process, when a test says nothing else.
EMBEDDED = Path(__file__).resolve().parents[2] / "configs/embedded.toml"


class Stack:
    """The built libraries; `environment` is what a program needs to run over them, on the embedded pair of devices unless a
    configuration is given."""

    def __init__(self, folder, sanitizer_runtime):
        self.folder = Path(folder).resolve()
        self.sanitizer_runtime = sanitizer_runtime

    def environment(self, configuration=None, more=None):
        """`more`: variables besides; of LD_PRELOAD what is to be added. A configuration without devices means those of the
        host's service."""
        environment = {k: v for k, v in os.environ.items() if not k.startswith("UROCE_")}
        environment["LD_LIBRARY_PATH"] = str(self.folder)
        if configuration is None:
            environment["UROCE_CONFIG"] = str(EMBEDDED)
        elif configuration:
            environment["UROCE_CONFIG_TEXT"] = configuration
        if self.sanitizer_runtime:
            # The programs were built without it, and their own leaks are not ours.
            environment["LD_PRELOAD"] = self.sanitizer_runtime
            environment["ASAN_OPTIONS"] = "detect_leaks=0"
        more = dict(more or {})
        preloaded = [library for library in (environment.get("LD_PRELOAD"), more.pop("LD_PRELOAD", None)) if library]
        if preloaded:
            environment["LD_PRELOAD"] = ":".join(preloaded)
        return environment | more

    def kept_kib(self):
        """What a process may hold of what it has freed: AddressSanitizer keeps 256 MiB of it, and pages around them."""
        return 512 << 10 if self.sanitizer_runtime else 0

    def start(self, command, configuration=None, more=None, stdin=subprocess.DEVNULL):
        return Program(command, env=self.environment(configuration, more), stdin=stdin,
                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def run(self, command, configuration=None):
        """(exit status, output) of a program that ends by itself."""
        return finish(self.start(command, configuration))


class Program(subprocess.Popen):
    """A program that ends with all that it has started, also in sessions of their own (as fio's jobs are)."""

    def kill(self):
        for pid in reversed(descendants_of(self.pid)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        super().kill()


def descendants_of(pid):
    """Parents first."""
    found = []
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            for child in map(int, children.read_text().split()):
                found += [child, *descendants_of(child)]
    return found


def command_line_of(pid):
    """Its words; nothing when it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    except OSError:
        return ""


def cpu_seconds(pid):
    """That the process has taken so far."""
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, words[11:13])) / os.sysconf("SC_CLK_TCK")


def finish(process, limit_seconds=TIME_LIMIT_SECONDS):
    """(exit status, standard output and then standard error)"""
    try:
        said = said_by(process, limit_seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        raise AssertionError(f"{process.args} hangs; it said:\n{said_by(process)}") from None
    return process.returncode, said


def end(process):
    """A program that may have ended, be stopped, or have been read to its end."""
    if process.poll() is None:
        process.kill()
    if process.stdout and not process.stdout.closed:
        process.communicate()


def stop(process):
    """SIGSTOP, and all threads of the process stand still: the signal may take a moment, and until then they answer."""
    process.send_signal(signal.SIGSTOP)
    wait_until(lambda: all(state == "T" for state in thread_states(process.pid)), process)


def thread_states(pid):
    """The letters of proc(5)."""
    states = []
    for stat in Path(f"/proc/{pid}/task").glob("*/stat"):
        with contextlib.suppress(OSError):  # the thread has ended
            states.append(stat.read_text().rpartition(")")[2].split()[0])
    return states


def said_by(process, limit_seconds=None):
    return "".join(said or "" for said in process.communicate(timeout=limit_seconds))


def next_line(process):
    """What a program that is told things says next."""
    alarm = threading.Timer(TIME_LIMIT_SECONDS, process.kill)
    alarm.start()
    line = process.stdout.readline()
    alarm.cancel()
    if not line:
        process.kill()
        raise AssertionError(f"{process.args} ended: {process.stderr.read()}")
    return line.strip()


def free_tcp_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def listens(port, pid="self"):
    """Whether a program listens on the TCP port, in the network namespace of the process. (A try to connect would be
    taken for the peer.)"""
    wanted = f":{port:04X}"
    for table in (f"/proc/{pid}/net/tcp", f"/proc/{pid}/net/tcp6"):
        if not os.path.exists(table):
            continue
        for line in Path(table).read_text().splitlines()[1:]:
            words = line.split()
            if words[1].endswith(wanted) and words[3] == "0A":
                return True
    return False


def wait_until(condition, process):
    """Waits until `condition` holds; fails when the process ends before."""
    deadline = time.monotonic() + TIME_LIMIT_SECONDS
    while not condition():
        if process.poll() is not None or time.monotonic() > deadline:
            process.kill()
            raise AssertionError(f"{process.args} does not get ready:\n{said_by(process)}")
        time.sleep(0.02)


def sent_messages(uroce, process):
    """Of all queue pairs of a process that counts (`log.counters`), by `uroce stat`; 0 while it has none."""
    done = subprocess.run([uroce, "stat", "--json", "--pid", str(process.pid)], capture_output=True, text=True, timeout=TIME_LIMIT_SECONDS)
    if done.returncode != 0:
        return 0
    [said] = json.loads(done.stdout)["processes"]
    return sum(queue_pair["sent_messages"] for queue_pair in said["queue_pairs"])


class Pair:
    """Two processes on the ends of a memif link, which a program of its own serves at each end."""

    CONFIGURATION = """
[[device]]
name = "uroce0"
port = "net_memif0,role={role},id=0,socket={socket},socket-abstract=no,bsize=8192"
mac = "02:00:00:00:02:0{own}"
addresses = ["192.0.2.{own}/24"]
mtu = 4200
"""
    server_address = "127.0.0.1"

    def __init__(self, stack):
        self.stack = stack
        self.folder = tempfile.mkdtemp(prefix="uroce-programs-")
        self.port = free_tcp_port()
        self.processes = []
        self.more_configuration = ""  # keys of the device and more tables

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.processes:
            end(process)
        shutil.rmtree(self.folder)

    def configuration(self, role):
        return self.CONFIGURATION.format(role=role, own=1 if role == "server" else 2, socket=self.folder + "/link")

    def start(self, role, command):
        process = self.stack.start(command, self.configuration(role) + self.more_configuration)
        self.processes.append(process)
        return process

    def start_server(self, command):
        """A program that takes -p PORT; returns when it listens."""
        server = self.start("server", [*command, "-p", str(self.port)])
        wait_until(lambda: listens(self.port, server.pid), server)
        return server

    def start_client(self, command, port=None):
        """A program that takes -p PORT and the server's address."""
        return self.start("client", [*command, "-p", str(port or self.port), self.server_address])


def keep_busy(test_class):
    """Other programs want every CPU twice until the tests of the class are done."""
    for _ in range(2 * os.cpu_count()):
        busy = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", "sh", "-c", "while :; do :; done"])
        test_class.addClassCleanup(busy.wait)
        test_class.addClassCleanup(busy.kill)


def main(*needed, only=None):
    """Runs the tests of the calling module, or of its class `only`: MODULE LIBRARY_FOLDER [SANITIZER_RUNTIME]."""
    missing = [name for name in needed if shutil.which(name) is None]
    if missing:
        print(f"SKIPPED, not installed: {', '.join(missing)} (Debian's packages ibverbs-utils, rdmacm-utils, perftest and qperf have them)")
        sys.exit(SKIPPED)
    # KeyboardInterrupt: the only exception by which unittest stops rather than going on with the next test.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    stack = Stack(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "")
    unittest.TestCase.stack = stack
    unittest.main(argv=[sys.argv[0], *([only] if only else [])], verbosity=2)
