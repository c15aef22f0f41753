#!/usr/bin/env python3
"""The Linux kernel's NVMe-oF host, in a guest, with `uroce nvmf` as its target.

    tests/interop/nvme_test.py [--only TEXT] [--long] [--list] [--kernel-alone]
                               UROCE LIBRARY_FOLDER TESTS_FOLDER [SANITIZER_RUNTIME]
"""

import re
import signal
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "programs"))
import cm_rows
import guest
import image
import link
import nvme_cases
import nvme_targets
import programs
import sides
import suite

TOP = Path(__file__).resolve().parents[2]
README = "the README's example"
SCRIPT_SECONDS_MAX = 600
LONG_SECONDS_MAX = 3600
# In which the host notices that its target has gone.
DOWN_SECONDS = 3
NEEDED = ["nvme", "fio", "mkfs.ext4", "setpriv", "tc"]


class Hosts:
    """The guest's kernel and its target."""

    def __init__(self, arguments, folder):
        self.image = image.image()  # before the network is left behind
        self.folder = folder
        self.kernel_complaints = []
        # The kernel's target dies with the guest.
        self.second_life = guest.SecondLife(self.stop_machine, self.boot, granted=not arguments.kernel_alone)
        link.enter()
        link.set_mtu(4200)
        self.boot()
        notice = arguments.tests / "programs/libcm_ready.so"
        if arguments.kernel_alone:
            self.target = nvme_targets.KernelTarget(self.machine, link.GUEST_ADDRESSES)
        else:
            side = sides.UroceSide(programs.Stack(arguments.libraries, arguments.sanitizer_runtime), visible=False,
                                   notice=notice, folder=folder)
            self.target = nvme_targets.UroceTarget(side, arguments.uroce, folder)

    def boot(self):
        self.machine = guest.Guest(self.image, self.folder)
        self.machine.do("ip link set eth0 mtu 4200\nmodprobe nvme_rdma\nmodprobe ext4\n")

    def stop_machine(self):
        self.kernel_complaints += self.machine.complaints()
        self.machine.stop()

    def run(self, case):
        """What went wrong, or nothing."""
        return self.second_life.run(case.name, self.run_once, case)

    def run_once(self, case):
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

    def follow_readme(self, uroce):
        """The README's section on NVMe-oF, word by word: as if the guest's second NIC and our end of that link were the ones
        that it speaks of. What went wrong, or nothing."""
        section = re.search(r"^## Export a file over NVMe-oF.*?^## ", (TOP / "apps/nvmf/README.md").read_text(), re.M | re.S)[0]
        blocks = re.findall(r"^```sh (target|host)\n(.*?)^```$", section, re.M | re.S)
        assert [who for who, _ in blocks] == ["target", "host", "host"], blocks
        self.machine.do("rdma link delete rxe0\n")
        *before, last = blocks[0][1].replace("build/apps/uroce", str(uroce)).replace("eth0", link.TCP_TAP).splitlines()
        subprocess.run(["sh", "-e", "-c", "\n".join(before)], check=True, cwd=TOP)
        target = self.target.side.start(["sh", "-c", f"cd {TOP} && exec {last}"], cm_rows.CM)
        try:
            for _, commands in blocks[1:]:
                # Without udev a disk appears a moment after its name.
                waits = "until [ -b /dev/nvme0n1 ]; do sleep 0.1; done\n" if "mkfs" in commands else ""
                status, output = self.machine.start(["bash", "-e", "-c", waits + commands]).finish(SCRIPT_SECONDS_MAX)
                if status != 0:
                    return f"{commands}\nstatus {status}\n{output}"
            target.process.send_signal(signal.SIGINT)
            status, output = target.finish(30)
            return f"the target ended with status {status}: {output}" if status != 0 else ""
        finally:
            target.close()
            Path("/tmp/disk.img").unlink(missing_ok=True)

    def stop(self):
        """What went wrong at the end."""
        try:
            return self.target.stop()
        finally:
            self.stop_machine()


def parse_arguments():
    parser = suite.parser("Runs the cases of tests/interop/nvme_cases.py.", "cases")
    parser.add_argument("--long", action="store_true", help="those that take minutes, and only those")
    parser.add_argument("--kernel-alone", action="store_true", help="with the kernel's target: is the case right?")
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
        if suite.tell(case.name, began, problem):
            failed.append(case.name)
    return failed


def follow_readme(hosts, uroce):
    began = time.monotonic()
    problem = hosts.target.stop() or hosts.follow_readme(uroce)
    return [README] if suite.tell(README, began, problem) else []


def main():
    arguments = parse_arguments()
    cases = [case for case in nvme_cases.CASES if arguments.only in case.name and case.long == arguments.long]
    if arguments.list:
        return print("\n".join(case.name for case in cases))
    began = time.monotonic()
    with suite.run("the kernel's NVMe-oF host was not tried", NEEDED) as folder:
        hosts = Hosts(arguments, folder)
        try:
            failed = run_all(hosts, cases)
            ran = len(cases)
            if not arguments.kernel_alone and not arguments.long and arguments.only in README:
                ran += 1
                failed += follow_readme(hosts, arguments.uroce)
        finally:
            at_the_end = hosts.stop()
    if at_the_end:
        failed.append("the target's end")
        print(at_the_end)
    suite.end(f"{ran} cases in {time.monotonic() - began:.0f} s", failed, hosts.kernel_complaints)


main()
