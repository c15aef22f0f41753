#!/usr/bin/env python3
"""The Linux kernel's NVMe-oF host, in a guest, with `uroce nvmf` as its target.

    tests/interop/nvme_test.py [--only TEXT] [--long] [--list] [--kernel-alone]
                               UROCE LIBRARY_FOLDER TESTS_FOLDER [SANITIZER_RUNTIME]
"""

import argparse
import os
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "programs"))
import guest
import image
import link
import nvme_cases
import nvme_targets
import programs
import sides

SCRIPT_SECONDS_MAX = 600
LONG_SECONDS_MAX = 3600
# In which the host notices that its target has gone.
DOWN_SECONDS = 3
NEEDED = ["nvme", "fio", "mkfs.ext4", "setpriv", "tc"]


class Hosts:
    """The guest's kernel and its target."""

    def __init__(self, arguments, folder):
        made = image.image()  # before the network is left behind
        link.enter()
        link.set_mtu(4200)
        self.machine = guest.Guest(made, folder)
        self.machine.do("ip link set eth0 mtu 4200\nmodprobe nvme_rdma\nmodprobe ext4\n")
        notice = arguments.tests / "programs/libcm_ready.so"
        if arguments.kernel_alone:
            self.target = nvme_targets.KernelTarget(self.machine, link.GUEST_ADDRESSES)
        else:
            side = sides.UroceSide(programs.Stack(arguments.libraries, arguments.sanitizer_runtime), visible=False,
                                   notice=notice, folder=folder)
            self.target = nvme_targets.UroceTarget(side, arguments.uroce, folder)

    def run(self, case):
        """What went wrong, or nothing."""
        self.target.prepare(case)
        if case.impairment:
            self.machine.impair(case.impairment)
        environment = {"TARGET": self.target.addresses[case.gid], "NQN": nvme_cases.NQN,
                       "HOST_NQN": nvme_cases.HOST_NQN, "HOST_ID": nvme_cases.HOST_ID}
        self.machine.do("rm -f /tmp/busy /tmp/seen")
        waits = case.killed or case.grows
        script = self.machine.start(["bash", "-e", "-c", nvme_cases.PRELUDE + case.script], "/tmp/busy" if waits else None,
                                    environment)
        try:
            if case.killed and script.running():
                self.target.kill()
                time.sleep(DOWN_SECONDS)
                self.target.start()
            if case.grows and script.running():
                self.target.grow()
                self.machine.do("for i in $(seq 500); do [ -e /tmp/seen ] && break; sleep 0.1; done")
                self.target.shrink()
            status, output = script.finish(LONG_SECONDS_MAX if case.long else SCRIPT_SECONDS_MAX)
        finally:
            script.close()
            if case.impairment:
                self.machine.impair(None)
        if status == 0:
            return ""
        self.machine.start(["nvme", "disconnect-all"]).finish(120)
        return f"status {status}\n{output}"

    def stop(self):
        """What went wrong at the end."""
        try:
            return self.target.stop()
        finally:
            self.machine.stop()


def skip(reason):
    print(f"SKIPPED, the kernel's NVMe-oF host was not tried: {reason}")
    sys.exit(programs.SKIPPED)


def parse_arguments():
    parser = argparse.ArgumentParser(description="Runs the cases of tests/interop/nvme_cases.py.")
    parser.add_argument("--only", metavar="TEXT", default="", help="cases whose name contains it")
    parser.add_argument("--long", action="store_true", help="those that take minutes, and only those")
    parser.add_argument("--list", action="store_true", help="the names of the cases")
    parser.add_argument("--kernel-alone", action="store_true", help="with the kernel's target: is the case right?")
    parser.add_argument("uroce", type=lambda path: Path(path).resolve())
    parser.add_argument("libraries")
    parser.add_argument("tests", type=lambda path: Path(path).resolve())
    parser.add_argument("sanitizer_runtime", nargs="?", default="")
    return parser.parse_args()


def run_all(hosts, cases):
    failed = []
    for case in cases:
        began = time.monotonic()
        try:
            problem = hosts.run(case)
        except nvme_targets.NotWithThis:
            print(f"-              {case.name}: not with this target", flush=True)
            continue
        except AssertionError as failure:
            problem = str(failure)
        print(f"{'FAILED' if problem else 'ok':6} {time.monotonic() - began:6.1f} s  {case.name}", flush=True)
        if problem:
            failed.append(case.name)
            print("\n".join("       | " + line for line in problem.splitlines()), flush=True)
    return failed


def main():
    arguments = parse_arguments()
    cases = [case for case in nvme_cases.CASES if arguments.only in case.name and case.long == arguments.long]
    if arguments.list:
        return print("\n".join(case.name for case in cases))
    missing = [name for name in NEEDED if shutil.which(name) is None]
    if missing:
        skip(f"not installed: {', '.join(missing)} (apps/install-packages test brings them)")
    if os.geteuid() != 0:
        skip("it takes root, for a network namespace and the guest's taps")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="uroce-nvme-") as folder:
        try:
            hosts = Hosts(arguments, folder)
        except (image.Unavailable, link.NoLink) as reason:
            skip(str(reason))
        try:
            failed = run_all(hosts, cases)
        except guest.Died as death:
            print(f"THE GUEST DIED: {death}")
            sys.exit(guest.DIED)
        finally:
            at_the_end = hosts.stop()
        if at_the_end:
            failed.append("the target's end")
            print(at_the_end)
        for line in hosts.machine.complaints():
            print(f"guest's kernel: {line}")
        print(f"{len(cases)} cases in {time.monotonic() - began:.0f} s, {len(failed)} failed")
        for name in failed:
            print(f"failed: {name}")
        sys.exit(1 if failed else 0)


main()
