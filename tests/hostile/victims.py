"""Programs that are attacked, and a friend of theirs that must be served meanwhile."""

import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from network import ADDRESSES, LINK, PREFIX

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "programs"))
import exported_disk  # noqa: E402  (tests/programs)
import programs  # noqa: E402

NVME_PORT = 4420
# Decision: of the memory that a process gave back ASan keeps so many MiB, by default 256: freed memory counts as growth. Cost: later uses
# after free are not seen.
QUARANTINE = 16


def device(place):
    """A device on an interface that is the device's alone."""
    addresses = f'"{ADDRESSES[place]}/{PREFIX}", "2001:db8::{ADDRESSES[place].rpartition(".")[2]}/64"'
    return f'[[device]]\nname = "uroce0"\nport = "net_af_packet0,iface={LINK}"\naddresses = [{addresses}]\nmtu = 4200\n[log]\ncounters = true\n'


def beside_kernel():
    """A device that shares interface, address and neighbours with the kernel."""
    return f'[[device]]\nname = "uroce0"\ninterface = "{LINK}"\n[log]\ncounters = true\n'


class Program:
    """A process over the stack, in a place of the network, whose output is in a file."""

    def __init__(self, stack, net, place, command, configuration=None):
        self.ended = None
        self.folder = tempfile.TemporaryDirectory(prefix="uroce-hostile-")
        self.said_in = Path(self.folder.name, "said")
        environment = stack.environment(configuration)
        if stack.sanitizer_runtime:
            environment["ASAN_OPTIONS"] += f":quarantine_size_mb={QUARANTINE}"
        command = ["setpriv", "--pdeathsig", "KILL", *command]
        with open(self.said_in, "wb") as output:
            self.process = subprocess.Popen(net.command(place, command), env=environment, stdin=subprocess.DEVNULL,
                                            stdout=output, stderr=subprocess.STDOUT)

    def said(self):
        return self.ended[1] if self.ended else self.said_in.read_text(errors="replace")

    def lives(self):
        return self.process.poll() is None

    def wait_for(self, text, seconds=programs.TIME_LIMIT_SECONDS):
        deadline = time.monotonic() + seconds
        while text not in self.said():
            if not self.lives() or time.monotonic() > deadline:
                raise AssertionError(f"it does not say '{text}', but:\n{self.said()}")
            time.sleep(0.02)

    def memory(self):
        """Resident bytes."""
        return int(re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{self.process.pid}/status").read_text())[1]) << 10

    def end(self):
        """(exit status, what it said); by SIGTERM, and SIGKILL for one that hangs. Once is enough."""
        if self.ended:
            return self.ended
        if self.lives():
            self.process.terminate()
        try:
            status = self.process.wait(programs.TIME_LIMIT_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            status = self.process.wait()
        said = self.said()
        self.folder.cleanup()
        self.ended = status, said
        return self.ended


def start_target(stack, net, uroce, on_interface=False, more=""):
    """`uroce nvmf`, when it listens. `more`: lines of [nvmf]."""
    file = tempfile.NamedTemporaryFile("w", prefix="uroce-hostile-", suffix=".toml", delete=False)
    with file:
        file.write((beside_kernel() if on_interface else device("victim")) + f"[nvmf]\n{more}\n" + exported_disk.tables(ADDRESSES["victim"]))
    target = Program(stack, net, "victim", [uroce, "nvmf", "--config", file.name])
    target.wait_for(f"listening at {ADDRESSES['victim']} port {NVME_PORT}")
    os.unlink(file.name)
    return target


def start_friend(stack, net, host, *actions):
    """An NVMe host; without actions it writes 64 KiB, reads them and compares."""
    actions = actions or ("write:1:7", "verify:1:7")
    return Program(stack, net, "friend", [host, ADDRESSES["victim"], ADDRESSES["friend"], exported_disk.SUBSYSTEM, exported_disk.FRIEND, *actions], device("friend"))
