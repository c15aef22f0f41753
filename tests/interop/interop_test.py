#!/usr/bin/env python3
"""Programs on uroce and programs on the Linux kernel's rxe, which runs in a guest, meet over a link.

    tests/interop/interop_test.py [--only TEXT] [--list] [--capture FOLDER] UROCE LIBRARY_FOLDER KEYS_FOLDER [SANITIZER_RUNTIME]
"""

import argparse
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "programs"))
import cases
import guest
import image
import link
import programs
import sides

TCP_PORT = 18515
GID_INDEX = {cases.V4: 1, cases.V6: 2}  # 0 is the link-local address
# Far more than a case needs, so that a slow machine does not fail and a hang does.
PROGRAM_SECONDS_MAX = 300
NEEDED = ["ibv_rc_pingpong", "ib_write_bw", "setpriv", "tc"]


class Interop:
    """The guest, the link and what runs over them."""

    def __init__(self, arguments, folder):
        self.arguments = arguments
        self.folder = folder
        self.image = image.image()
        link.enter()
        self.uroce = sides.UroceSide(programs.Stack(arguments.libraries, arguments.sanitizer_runtime),
                                     visible=arguments.capture is not None)
        self.machine = None
        self.died = False
        self.failed = []

    def boot(self):
        began = time.monotonic()
        self.link_mtu = self.impairment = None
        self.machine = guest.Guest(self.image, self.folder)
        self.guest = sides.GuestSide(self.machine)
        print(f"guest: Linux {self.image.version}, up after {time.monotonic() - began:.1f} s", flush=True)

    def run_all(self, runs):
        for run in runs:
            try:
                self.run_one(run)
            except guest.Died as death:
                if self.died:
                    raise
                self.died = True
                print(f"THE GUEST DIED in {run.name()}; it is started once more, and so is this case. {death}", flush=True)
                self.stop()
                self.run_one(run)

    def stop(self):
        if self.machine is not None:
            self.machine.stop()
            self.machine = None

    def run_one(self, run):
        if self.machine is None:
            self.boot()
        began = time.monotonic()
        self.prepare(run)
        with ExitStack() as stack:
            if self.arguments.capture:
                stack.enter_context(Capture(self.arguments.capture, run.name()))
            problem = self.meet(run, stack)
        verdict = "FAILED" if problem else "ok"
        print(f"{verdict:6} {time.monotonic() - began:6.1f} s  {run.name()}", flush=True)
        if problem:
            self.failed.append(run.name())
            print("\n".join("       | " + line for line in problem.splitlines()), flush=True)

    def prepare(self, run):
        """Link MTU and impairment at both ends, where they differ from what they were."""
        if run.link_mtu != self.link_mtu:
            link.set_mtu(run.link_mtu)
            self.machine.do(f"ip link set eth0 mtu {run.link_mtu}")
            self.link_mtu = run.link_mtu
        if run.impairment != self.impairment:
            self.machine.impair(cases.IMPAIRMENTS.get(run.impairment))
            self.impairment = run.impairment

    def meet(self, run, stack):
        """What went wrong, or nothing."""
        server_side, client_side = self.uroce, self.guest
        if run.client == cases.UROCE:
            server_side, client_side = client_side, server_side
        try:
            server = server_side.start(self.command(run, run.case.server, server_side, server_side), TCP_PORT)
            stack.callback(server.close)
            client = client_side.start(self.command(run, run.case.client, client_side, server_side))
            stack.callback(client.close)
            if run.case.killed:
                return self.kill(run, server, client)
            outcomes = {f"client on {client_side.name}": client.finish(PROGRAM_SECONDS_MAX),
                        f"server on {server_side.name}": server.finish(PROGRAM_SECONDS_MAX)}
        except AssertionError as failure:
            return str(failure)
        if all(status == 0 for status, _ in outcomes.values()):
            return ""
        return "\n".join(f"{who}: status {status}\n{output}" for who, (status, output) in outcomes.items())

    def kill(self, run, server, client):
        """One end is killed while the two are at it; the other says so, or can at least be killed itself."""
        time.sleep(3)
        if not (server.running() and client.running()):
            return "an end has ended before it was to be killed"
        victim, survivor = (server, client) if run.case.killed == "server" else (client, server)
        victim.close()
        status, output = survivor.finish(PROGRAM_SECONDS_MAX)
        if status == 0 or run.case.told not in output:
            return f"the survivor ended with status {status} and said:\n{output}"
        return ""

    def command(self, run, text, side, server_side):
        return shlex.split(text.format(
            device=side.device, gid=GID_INDEX[run.gid], mtu=cases.PATH_MTU[run.link_mtu], port=TCP_PORT,
            peer=server_side.tcp_address, uroce=shlex.quote(str(self.arguments.uroce)),
            keys=shlex.quote(str(self.arguments.keys))))


class Capture:
    """All frames on the link while the block runs, in a file that wireshark reads."""

    def __init__(self, folder, name):
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / (name.replace("/", "_").replace(" ", "_") + ".pcap")

    def __enter__(self):
        self.process = subprocess.Popen(["tcpdump", "-Z", "root", "-i", link.RDMA_TAP, "-U", "-w", self.path],
                                        stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        for line in self.process.stderr:
            if "listening on" in line:
                break

    def __exit__(self, *_):
        time.sleep(0.5)
        self.process.send_signal(signal.SIGINT)
        self.process.communicate()


def skip(reason):
    print(f"SKIPPED, no interoperation with the kernel was tested: {reason}")
    sys.exit(programs.SKIPPED)


def parse_arguments():
    parser = argparse.ArgumentParser(description="Runs the cases of tests/interop/cases.py.")
    parser.add_argument("--only", metavar="TEXT", default="", help="runs whose name contains it")
    parser.add_argument("--list", action="store_true", help="the names of the runs")
    parser.add_argument("--capture", metavar="FOLDER", type=Path, help="keep a pcap of each run there")
    parser.add_argument("uroce", type=lambda path: Path(path).resolve())
    parser.add_argument("libraries")
    parser.add_argument("keys", type=lambda path: Path(path).resolve())
    parser.add_argument("sanitizer_runtime", nargs="?", default="")
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    runs = [run for run in cases.runs() if arguments.only in run.name()]
    if arguments.list:
        return print("\n".join(run.name() for run in runs))
    missing = [name for name in NEEDED if shutil.which(name) is None]
    if missing:
        skip(f"not installed: {', '.join(missing)} (apps/install-packages test brings them)")
    if os.geteuid() != 0:
        skip("it takes root, for a network namespace and the guest's taps")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="uroce-interop-") as folder, ExitStack() as stack:
        try:
            interop = Interop(arguments, folder)
        except (image.Unavailable, link.NoLink) as reason:
            skip(str(reason))
        stack.callback(interop.stop)
        try:
            interop.run_all(runs)
        except image.Unavailable as reason:
            skip(str(reason))
        except guest.Died as death:
            print(f"THE GUEST DIED: {death}")
            sys.exit(guest.DIED)
        for line in interop.machine.complaints() if interop.machine else []:
            print(f"guest's kernel: {line}")
        print(f"{len(runs)} runs in {time.monotonic() - began:.0f} s, {len(interop.failed)} failed")
        for name in interop.failed:
            print(f"failed: {name}")
        sys.exit(1 if interop.failed else 0)


main()
