"""Runs cases in a guest with NICs in PCI slots, which DPDK's own drivers drive; programs on uroce at this end of its taps."""

import re
import shlex
import time
from contextlib import ExitStack

import guest
import image
import link
import pci_cases
import pci_guest
import programs
import sides
import suite

PROGRAM_SECONDS_MAX = 90
ADDRESS = "192.0.2.2"  # of the guest's end, but for what configs/pci.toml says


class PciRun:
    """Boots the guest that a case needs, runs cases one after the other, and what cases are made of."""

    def __init__(self, arguments, folder):
        self.uroce = str(arguments.uroce)
        self.folder = folder
        self.image = image.image()
        link.enter()
        pci_guest.make_taps()
        stack = programs.Stack(arguments.libraries, arguments.sanitizer_runtime)
        self.here = {nic: sides.UroceSide(stack, visible=False, notice="", folder=folder, tap=nic.tap) for nic in pci_guest.NICS}
        self.machine = None
        self.has_iommu = True
        self.bound = set()
        self.second_life = guest.SecondLife(self.stop, self.boot)
        self.kernel_complaints = []
        self.failed = []

    def boot(self):
        began = time.monotonic()
        kind = pci_guest.PciMachine if self.has_iommu else pci_guest.WithoutIommu
        self.machine = kind(self.image, self.folder)
        self.bound = set()
        print(f"guest: Linux {self.image.version}, {'an' if self.has_iommu else 'no'} IOMMU, up after {time.monotonic() - began:.1f} s",
              flush=True)

    def stop(self):
        if self.machine is not None:
            self.kernel_complaints += self.machine.complaints()
            self.machine.stop()
            self.machine = None

    def run_all(self, cases):
        for name, has_iommu, case in cases:
            if has_iommu != self.has_iommu:
                self.stop()
                self.has_iommu = has_iommu
            self.second_life.run(name, self.run_one, name, case)

    def run_one(self, name, case):
        if self.machine is None:
            self.boot()
        began = time.monotonic()
        try:
            case()
            problem = ""
        except (AssertionError, RuntimeError) as failure:
            problem = str(failure) or repr(failure)
        if suite.tell(name, began, problem):
            self.failed.append(name)

    def bind(self, nic):
        """Gives it to vfio-pci, and has hugepages; does nothing where that is so."""
        if nic in self.bound:
            return
        self.machine.do("echo 128 >/proc/sys/vm/nr_hugepages\nmodprobe vfio-pci\n"
                        f"dpdk-devbind.py --bind=vfio-pci {nic.address}\n")
        self.bound.add(nic)

    def info(self, port, *options, user=None):
        """(exit status, what `uroce info` says in the guest)"""
        drop = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"] if user else []
        return self.machine.start([*drop, self.uroce, "info", "--port", port, *options]).finish(PROGRAM_SECONDS_MAX)

    def refused(self, port, *expected, user=None):
        """One line of uroce says all that, and the program ends."""
        status, said = self.info(port, user=user)
        lines = [line for line in said.splitlines() if line.startswith("uroce: ")]
        assert status == 1 and len(lines) == 1 and all(text in lines[0] for text in (port, *expected)), f"status {status}, no " \
            f"single line with {expected}:\n{said}"
        assert "EAL: " not in said, said

    def in_guest(self, nic, command, *options, ready=None):
        return self.machine.start([self.uroce, "run", "--port", nic.address, "--ip", f"{ADDRESS}/24", *options, "--",
                                   *shlex.split(command)], ready)

    def meet(self, nic, case):
        with ExitStack() as stack:
            server = self.here[nic].start(shlex.split(case.program), pci_cases.PORT)
            stack.callback(server.close)
            client = self.in_guest(nic, f"{case.program} {link.HOST_TCP}", *case.guest)
            self.end_well(client, server, case.says)

    def end_well(self, client, server, says):
        status, said = client.finish(PROGRAM_SECONDS_MAX)
        assert status == 0 and re.search(says, said), f"client: status {status}\n{said}"
        status, said = server.finish(PROGRAM_SECONDS_MAX)
        assert status == 0, f"server: status {status}\n{said}"

    def watch(self, nic, *options):
        """A program that prints the events of the device; its output is a file in the guest."""
        program = self.in_guest(nic, "sh -c 'exec stdbuf -oL ibv_asyncwatch >/tmp/events'", *options, ready="/tmp/events")
        self.wait_for_event("async event FD")
        return program

    def wait_for_event(self, name, count=1):
        self.machine.do(f"for i in $(seq 300); do [ $(grep -c '{name}' /tmp/events) -ge {count} ] && exit; sleep 0.1; done\n"
                        "cat /tmp/events; exit 1")
