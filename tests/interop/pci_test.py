#!/usr/bin/env python3
"""NICs in PCI slots, driven by DPDK's own drivers in a guest: programs on uroce there meet programs on uroce here.

    tests/interop/pci_test.py [--only TEXT] [--list] [--long] UROCE LIBRARY_FOLDER TESTS_FOLDER

The guest has virtio-net with two queues, e1000e and vmxnet3 behind an emulated IOMMU. What configs/README.md says under "Your NIC" is
done there word by word; then come traffic, links that go down, devices that are taken out, and NICs that cannot be had.
"""

import json
import re
import shlex
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "programs"))
import link
import pci_cases
import pci_guest
import sides
import suite
from pci_run import ADDRESS, PROGRAM_SECONDS_MAX, PciRun

SOURCE = Path(__file__).resolve().parents[2]
NEEDED = ["ip", "setpriv", "ibv_rc_pingpong", "ibv_asyncwatch", "ib_write_bw", "dpdk-devbind.py"]
USER = 1000
INTERRUPTS = 5
# Of uroce perf while its queue pairs stay where they are, and while they move; and what comes between two looks at it.
STAYING_SECONDS, FOLLOWING_SECONDS = 7, 16
FRAMES_OF_LOOK = 100
VIRTIO, E1000E, VMXNET3 = pci_guest.NICS


def blocks():
    """(kind, commands) of each shell block of "Your NIC"."""
    section = re.search(r"^## Your NIC\n(.*?)(^## |\Z)", (SOURCE / "configs/README.md").read_text(), re.M | re.S)[1]
    return re.findall(r"^```sh *(\w*)\n(.*?)^```$", section, re.M | re.S)


class Pci(PciRun):
    def of_the_kernel(self):
        nic_interface = self.machine.do(f"ls /sys/bus/pci/devices/{VIRTIO.address}/virtio*/net").strip()
        self.refused(VIRTIO.address, f"driver {VIRTIO.module} holds it", f'interface = "{nic_interface}"',
                     f"dpdk-devbind.py --bind=vfio-pci {VIRTIO.address}")
        assert self.machine.do(f"ls /sys/class/net/{nic_interface}"), "the kernel has lost it"

    def does_not_exist(self):
        self.refused("0000:7f:1f.7", "no such PCI device", "dpdk-devbind.py --status")

    def no_network_controller(self):
        self.refused("0000:00:1f.2", "is not a network controller")

    def without_driver(self):
        self.refused(VMXNET3.address, "no driver holds it", f"dpdk-devbind.py --bind=vfio-pci {VMXNET3.address}")

    def no_permission(self):
        self.bind(VMXNET3)
        group = self.machine.do(f"basename $(readlink /sys/bus/pci/devices/{VMXNET3.address}/iommu_group)").strip()
        self.refused(VMXNET3.address, f"no permission to open /dev/vfio/{group}", "chown", user=USER)
        self.machine.do(f"chown {USER} /dev/vfio/{group}")
        status, said = self.info(VMXNET3.address, user=USER)
        assert status == 0 and "(net_vmxnet3)" in said, f"status {status}\n{said}"

    def of_another_process(self):
        self.bind(E1000E)
        holder = self.watch(E1000E)
        try:
            self.refused(E1000E.address, "another process has it", "uroce serve")
        finally:
            holder.close()

    def your_nic(self):
        ran = 0
        for kind, commands in blocks():
            commands = re.sub(r"(^|\s)build/apps/uroce\b", lambda found: found[1] + self.uroce, commands)
            ran += 1
            if kind == "server":
                self.meet_documented_server(commands)
            elif self.uroce in commands:
                said = self.machine.start(["sh", "-ec", f"cd {SOURCE}\n{commands}"]).finish(PROGRAM_SECONDS_MAX)[1]
                assert "(net_virtio)" in said and "path MTU 4096" in said and "queues          1 of 2" in said, said
                assert "used: none; no RSS over one queue" in said and "not used: receiving SCATTER, sending MULTI_SEGS (a buffer takes" in said, said
            else:
                print("".join(f"       | {line}\n" for line in (commands + self.machine.do(commands)).splitlines()), end="")
        assert ran == 6, f"the section has {ran} blocks, this knows 6"
        assert self.machine.do(f"ls /sys/bus/pci/devices/{VIRTIO.address}/virtio*/net"), "the kernel has not got it back"

    def meet_documented_server(self, commands):
        here = self.here[VIRTIO]
        # The server's address is the document's: this end takes the other.
        configuration = here.configuration.replace(f"{link.HOST_ADDRESSES['v4']}/", f"{ADDRESS}/")
        server = self.machine.start(["sh", "-ec", f"cd {SOURCE}\nexec {commands}"], pci_cases.PORT)
        client = sides.UroceProgram(here.stack.start(["ibv_rc_pingpong", "-g", "1", "-c", link.GUEST_TCP], configuration))
        try:
            self.end_well(client, server, "1000 iters")
        finally:
            client.close()
            server.close()

    def traffic(self, nic, case):
        self.bind(nic)
        self.meet(nic, case)

    def iova(self, nic):
        self.bind(nic)
        for mode in ("va", "pa"):
            said = self.info(nic.address, f"--eal-arguments=--iova-mode={mode}", "--log-level", "debug", "--poller-per-device", str(nic.queues))[1]
            assert f"Selected IOVA mode '{mode.upper()}'" in said and f"({nic.driver})" in said, said
            assert nic.queues == 1 or f"RSS over {nic.queues} queues by UDP ports\n" in said, said

    def perf(self, nic):
        self.bind(nic)
        server = self.here[nic].start([self.uroce, "perf", "--server"], pci_cases.PORT)
        try:
            client = self.machine.start([self.uroce, "perf", "--connect", link.HOST_TCP, "--port", nic.address, "--ip", f"{ADDRESS}/24",
                                         "--size", "64,4K", "--iterations", "100", "--quiet"])
            self.end_well(client, server, r"write +4 KiB(.|\n)*read +4 KiB(.|\n)*send +4 KiB")
        finally:
            server.close()

    def follows_packets(self):
        """RSS brings packets of some queue pairs to the poller that has them not. Told not to move, these have them handed over all
        the time; else they move, and nothing is handed over any more."""
        self.bind(VIRTIO)
        for follows, seconds in ((False, STAYING_SECONDS), (True, FOLLOWING_SECONDS)):
            with ExitStack() as stack:
                server = self.here[VIRTIO].start([self.uroce, "perf", "--server"], pci_cases.PORT)
                stack.callback(server.close)
                client = self.machine.start([self.uroce, "perf", "--connect", link.HOST_TCP, "--port", VIRTIO.address, "--ip", f"{ADDRESS}/24",
                                             "--poller-per-device", "2", "--poller-follow-packets", str(follows).lower(), "--quiet",
                                             "--op", "write", "--size", "4K", "--queue-pairs", "16", "--duration", str(seconds)])
                stack.callback(client.close)
                self.expect_handed_over(client, follows)
                self.end_well(client, server, r"write +4 KiB")

    def expect_handed_over(self, client, follows):
        """Until between two looks frames came, and were handed over or not as they are to be."""
        deadline = time.monotonic() + PROGRAM_SECONDS_MAX
        before = {}
        while True:
            assert time.monotonic() < deadline, f"packets are not {'followed' if follows else 'handed over'}: {before}"
            assert client.running(), f"{before}\n{client.finish(PROGRAM_SECONDS_MAX)}"
            now = self.counters()
            came, handed_over, moved = (now.get(name, 0) for name in ("rx_frames", "rx_handed_over", "qp_moved"))
            if before and came >= before.get("rx_frames", 0) + FRAMES_OF_LOOK:
                if (moved > 0, handed_over > before.get("rx_handed_over", 0)) == (follows, not follows):
                    return
            before = now
            time.sleep(1)

    def counters(self):
        """Of the device of the only program in the guest; nothing as long as it has none."""
        said = self.machine.do(f"{self.uroce} stat --json 2>/dev/null || true")
        devices = json.loads(said)["processes"][0]["devices"] if said else []
        return devices[0]["counters"] if devices else {}

    def service(self):
        """Two programs at once on one NIC of the host's service."""
        self.bind(VIRTIO)
        serve = self.machine.start([self.uroce, "serve", "--port", VIRTIO.address, "--ip", f"{ADDRESS}/24"],
                                   "/run/uroce/service.sock")
        try:
            for _ in range(2):
                with ExitStack() as stack:
                    server = self.here[VIRTIO].start(["ibv_rc_pingpong", "-g", "1", "-c", "-n", "200"], pci_cases.PORT)
                    stack.callback(server.close)
                    client = self.machine.start([self.uroce, "run", "--", "ibv_rc_pingpong", "-g", "1", "-c", "-n", "200", link.HOST_TCP])
                    self.end_well(client, server, pci_cases.PINGPONG)
        finally:
            serve.close()

    def interrupts(self, nic):
        """What comes while all pollers sleep makes the NIC interrupt, and is answered."""
        self.bind(nic)
        watching = self.watch(nic, *pci_cases.ASLEEP)
        here = "192.0.2.99"  # the kernel's, which asks for echoes; a program has none now
        link.ip("address", "add", f"{here}/24", "dev", nic.tap)
        try:
            before = self.interrupts_of(nic)
            came = echoes = 0
            # A request that comes while the thread is awake for another reason, every 4 ms, needs none.
            while came < INTERRUPTS and echoes < 10 * INTERRUPTS:
                done = subprocess.run(["ping", "-n", "-c", "1", "-W", "20", "-I", nic.tap, ADDRESS], capture_output=True, text=True)
                assert done.returncode == 0, done.stdout + done.stderr
                echoes += 1
                came = self.interrupts_of(nic) - before
            assert came >= INTERRUPTS, f"{came} interrupts for {echoes} echo requests"
        finally:
            link.ip("address", "del", f"{here}/24", "dev", nic.tap)
            watching.close()

    def no_interrupts(self):
        self.bind(E1000E)
        status, said = self.info(E1000E.address, *pci_cases.ASLEEP)
        assert status != 0 and f'poller.idle: nothing of port {E1000E.address} tells a sleeping thread of frames' in said, said

    def interrupts_of(self, nic):
        """How many the guest's kernel has had from it for vfio."""
        lines = [line.split() for line in self.machine.do("cat /proc/interrupts").splitlines() if f"({nic.address})" in line]
        assert lines, "vfio has no interrupt of it"
        return sum(int(word) for line in lines for word in line[1:] if word.isdecimal())

    def link_goes_down(self, nic):
        """While a connection lives, which goes on when the link is up again."""
        self.bind(nic)
        # More than are exchanged in the time, and a timeout of 4 s: on a busy machine it takes a while to have the link up again.
        exchange = "ib_send_lat -x 1 -n 1000000 -u 20"
        with ExitStack() as stack:
            server = self.here[nic].start(shlex.split(exchange), pci_cases.PORT)
            stack.callback(server.close)
            client = self.in_guest(nic, f"{exchange} {link.HOST_TCP}")
            stack.callback(client.close)
            self.wait_for_traffic(nic, client)
            self.machine.set_link(nic, up=False)
            self.wait_for_silence(nic)
            self.machine.set_link(nic, up=True)
            self.wait_for_traffic(nic, client)
            assert server.running(), server.finish(PROGRAM_SECONDS_MAX)[1]

    @staticmethod
    def wait_for_silence(nic):
        """No frame in half a second: what is repeated takes longer."""
        deadline = time.monotonic() + PROGRAM_SECONDS_MAX
        before = None
        while before != (now := link.frames(nic.tap)):
            assert time.monotonic() < deadline, "the link does not go down"
            before = now
            time.sleep(0.5)

    def wait_for_traffic(self, nic, client):
        began = link.frames(nic.tap)
        deadline = time.monotonic() + PROGRAM_SECONDS_MAX
        while link.frames(nic.tap) < began + 200:
            assert client.running() and time.monotonic() < deadline, "no traffic"
            time.sleep(0.05)

    def link_events(self, nic):
        self.bind(nic)
        watching = self.watch(nic)
        try:
            self.machine.set_link(nic, up=False)
            self.wait_for_event("IBV_EVENT_PORT_ERR")
            self.machine.set_link(nic, up=True)
            self.wait_for_event("IBV_EVENT_PORT_ACTIVE")
        finally:
            watching.close()

    def removed(self, nic):
        """Under traffic: the program ends by itself with an error, and the kernel gets the device."""
        self.bind(nic)
        with ExitStack() as stack:
            server = self.here[nic].start(shlex.split("ibv_rc_pingpong -g 1 -c -n 1000000"), pci_cases.PORT)
            stack.callback(server.close)
            client = self.in_guest(nic, f"ibv_rc_pingpong -g 1 -c -n 1000000 {link.HOST_TCP}")
            stack.callback(client.close)
            self.wait_for_traffic(nic, client)
            self.machine.remove(nic)
            status, said = client.finish(PROGRAM_SECONDS_MAX)
            assert status == 1 and re.search("Flushed|retry counter exceeded", said), f"status {status}\n{said}"
        self.refused_when_removed(nic)

    def removed_while_watched(self, nic):
        self.bind(nic)
        watching = self.watch(nic)
        try:
            self.machine.remove(nic)
            self.wait_for_event("IBV_EVENT_DEVICE_FATAL")
        finally:
            watching.close()
        self.refused_when_removed(nic)

    def refused_when_removed(self, nic):
        self.machine.do(f"for i in $(seq 200); do [ -e /sys/bus/pci/devices/{nic.address} ] || exit 0; sleep 0.1; done; exit 1")
        self.refused(nic.address, "no such PCI device")

    def no_iommu(self):
        said = self.machine.do(f"modprobe vfio-pci\ndpdk-devbind.py --bind=vfio-pci {E1000E.address} 2>&1")
        assert "bind failed" in said, said
        self.refused(E1000E.address, "no driver holds it", "without an IOMMU", "uio_pci_generic")

    def uio(self):
        self.machine.do("echo 128 >/proc/sys/vm/nr_hugepages\nmodprobe uio_pci_generic\n"
                        f"dpdk-devbind.py --bind=uio_pci_generic {E1000E.address}")
        said = self.info(E1000E.address, "--log-level", "debug")[1]
        assert "Selected IOVA mode 'PA'" in said, said
        self.meet(E1000E, pci_cases.UIO)

    def beside_the_kernel(self):
        """net_tap imitates a NIC that the kernel has, too: its rules, which are the kernel's (tc), take RoCE from the interface."""
        interface = self.machine.do(f"modprobe tun\nmodprobe {E1000E.module}\nls /sys/bus/pci/devices/{E1000E.address}/net").strip()
        self.machine.do(f"ip link set {interface} up\nip address add {ADDRESS}/24 dev {interface}\n")
        beside = ["--interface", interface, "--nic", f"net_tap0,iface=uroce-tap,remote={interface}"]
        try:
            self.traffic_by_rules(interface, beside)
            # net_tap spreads by a program of BPF, for which it is too old.
            status, said = self.machine.start([self.uroce, "info", *beside, "--poller-per-device", "2"]).finish(PROGRAM_SECONDS_MAX)
            assert status == 0 and "RoCE alone, all to one queue (" in said, f"status {status}\n{said}"
        finally:
            self.machine.do(f"ip address flush dev {interface}\nip link set {interface} down\n")

    def traffic_by_rules(self, interface, beside):
        """Of a program of the service, which alone may have mlx5's. The kernel goes on meanwhile, sees no RoCE, and has its interface
        back afterwards."""
        pingpong = "ibv_rc_pingpong -g 1 -c -n 1000"
        with ExitStack() as stack:
            serve = self.machine.start([self.uroce, "serve", *beside], "/run/uroce/service.sock")
            stack.callback(serve.close)
            # The socket of a service is there before its devices are: the emulated CPU may take longer than a client waits.
            said = self.machine.do(f"for i in $(seq 8); do {self.uroce} status && exit 0; sleep 1; done; exit 1")
            assert "RoCE alone" in said, said
            server = self.here[E1000E].start(shlex.split(pingpong), pci_cases.PORT)
            stack.callback(server.close)
            before = self.udp_datagrams()
            client = self.machine.start([self.uroce, "run", "--", *shlex.split(pingpong), link.HOST_TCP])
            stack.callback(client.close)
            self.wait_for_traffic(E1000E, client)
            self.machine.do(f"ping -c 2 -i 0.2 -W 5 -I {interface} {link.HOST_ADDRESSES['v4']}\nip address add 192.0.2.7/24 dev {interface}\n"
                            "for address in 192.0.2.7 224.0.0.0 ff00:: fe80::; do\n"
                            f"for i in $(seq 50); do tc filter show dev {interface} ingress | grep dst_ip.$address && continue 2; sleep 0.1; done\nexit 1\ndone")
            self.end_well(client, server, pci_cases.PINGPONG)
            assert self.udp_datagrams() == before, "RoCE came to the kernel"
            self.machine.do("kill $(pidof uroce-serve)")
            status, said = serve.finish(PROGRAM_SECONDS_MAX)
            assert status == 0, said
        left = self.machine.do(f"tc filter show dev {interface} ingress\nls /sys/class/net")
        assert "4791" not in left and "uroce-tap" not in left, left

    def udp_datagrams(self):
        """That the guest's kernel has received, for whatever socket."""
        name, numbers = (line.split() for line in self.machine.do("grep Udp: /proc/net/snmp").splitlines())
        return sum(int(number) for key, number in zip(name, numbers) if key in ("InDatagrams", "NoPorts"))

    def cases(self, long):
        """(name, with an IOMMU, what is done) in their order."""
        named = {nic.name: nic for nic in pci_guest.NICS}
        # Before the NIC is given to vfio-pci.
        yield "beside the kernel, by rules", True, self.beside_the_kernel
        yield from [("the kernel's", True, self.of_the_kernel), ("does not exist", True, self.does_not_exist),
                    ("no network controller", True, self.no_network_controller), ("no driver", True, self.without_driver),
                    ("no permission", True, self.no_permission), ("another process's", True, self.of_another_process),
                    ("Your NIC, word by word", True, self.your_nic)]
        for case in pci_cases.CASES if long else [case for case in pci_cases.CASES if not case.long]:
            for nic in map(named.get, case.nics):
                yield f"{case.name}/{nic.name}", True, lambda nic=nic, case=case: self.traffic(nic, case)
        yield "IOVA as VA and as PA/virtio", True, lambda: self.iova(VIRTIO)
        yield "a queue pair follows its packets/virtio", True, self.follows_packets
        yield "uroce serve/virtio", True, self.service
        for nic in pci_guest.NICS if long else [VIRTIO]:
            yield f"uroce perf/{nic.name}", True, lambda nic=nic: self.perf(nic)
        for nic in [VIRTIO, VMXNET3] if long else [VIRTIO]:
            yield f"interrupts/{nic.name}", True, lambda nic=nic: self.interrupts(nic)
        for nic in pci_guest.NICS if long else [E1000E]:
            yield f"link down and up/{nic.name}", True, lambda nic=nic: self.link_goes_down(nic)
        yield "no interrupts/e1000e", True, self.no_interrupts
        yield "events of the link/vmxnet3", True, lambda: self.link_events(VMXNET3)
        yield "removed/virtio", True, lambda: self.removed(VIRTIO)
        if long:
            yield "removed/vmxnet3", True, lambda: self.removed(VMXNET3)
        yield "removed, nothing posted/e1000e", True, lambda: self.removed_while_watched(E1000E)
        yield "no IOMMU", False, self.no_iommu
        yield "no IOMMU, uio_pci_generic", False, self.uio


def main():
    parser = suite.parser("NICs in PCI slots, in a guest.", "cases")
    parser.add_argument("--long", action="store_true", help="every NIC in every case")
    arguments = parser.parse_args()
    if arguments.list:
        return print("\n".join(name for name, _, _ in Pci.cases(Pci.__new__(Pci), arguments.long)))
    began = time.monotonic()
    with suite.run("no PCI NIC was tried", NEEDED) as folder:
        pci = Pci(arguments, folder)
        chosen = [case for case in pci.cases(arguments.long) if arguments.only in case[0]]
        try:
            pci.run_all(chosen)
        finally:
            pci.stop()
    suite.end(f"{len(chosen)} cases in {time.monotonic() - began:.0f} s", pci.failed, pci.kernel_complaints)


main()
