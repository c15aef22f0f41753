"""A guest whose NICs are emulated PCI devices behind an emulated IOMMU, to be given to DPDK's own drivers."""

import contextlib
import json
import socket
from dataclasses import dataclass
from pathlib import Path

import guest
import link


@dataclass(frozen=True)
class Nic:
    """One NIC of the guest and its tap here. `driver`: DPDK's; `module`: the kernel's."""
    name: str
    address: str
    tap: str
    mac: str
    model: str
    driver: str
    module: str
    queues: int = 1


# A slot of its own for each: what is plugged into pcie.0 itself cannot be removed.
NICS = [
    Nic("virtio", "0000:01:00.0", "pci0", "02:00:00:00:0b:01", "virtio-net-pci", "net_virtio", "virtio-pci", queues=2),
    Nic("e1000e", "0000:02:00.0", "pci1", "02:00:00:00:0b:02", "e1000e", "net_e1000_em", "e1000e"),
    Nic("vmxnet3", "0000:03:00.0", "pci2", "02:00:00:00:0b:03", "vmxnet3", "net_vmxnet3", "vmxnet3"),
]


def make_taps():
    for one in NICS:
        link.ip("tuntap", "add", "dev", one.tap, "mode", "tap", *(["multi_queue"] if one.queues > 1 else []))
        link.ip("link", "set", one.tap, "mtu", str(link.TAP_MTU), "addrgenmode", "none", "up")


class PciMachine(guest.Machine):
    machine = "q35"
    memory = "1536M"
    # DPDK's pools of buffers need cx16, which the kernel must not use (see guest.Machine).
    processor = "max"
    kernel_arguments = "clearcpuid=cx16 intel_iommu=on iommu=nopt"
    iommu = ("-device", "intel-iommu,intremap=on,aw-bits=48")

    def __init__(self, guest_image, folder):
        self.monitor = Path(folder) / "monitor"
        super().__init__(guest_image, folder)

    def _devices(self):
        made = ["-qmp", f"unix:{self.monitor},server=on,wait=off", *self.iommu]
        for number, one in enumerate(NICS, 1):
            more = (f",mq=on,vectors={2 * one.queues + 2},rss=on,iommu_platform=on,host_mtu={link.TAP_MTU}"
                    if one.queues > 1 else "")
            queues = f",queues={one.queues}" if one.queues > 1 else ""
            made += ["-device", f"pcie-root-port,id=slot{number},chassis={number},slot={number},addr={number + 8}",
                     "-netdev", f"tap,id={one.name}-tap,ifname={one.tap},script=no,downscript=no,vhost=off{queues}",
                     "-device", f"{one.model},id={one.name},netdev={one.name}-tap,bus=slot{number},mac={one.mac},romfile={more}"]
        return made

    def tell_qemu(self, command, **arguments):
        """One command of QEMU's monitor protocol; what it returns."""
        with contextlib.closing(socket.socket(socket.AF_UNIX)) as monitor:
            monitor.settimeout(30)
            monitor.connect(str(self.monitor))
            with monitor.makefile("rw") as lines:
                lines.readline()  # its greeting
                for request in ({"execute": "qmp_capabilities"}, {"execute": command, "arguments": arguments}):
                    lines.write(json.dumps(request) + "\n")
                    lines.flush()
                    answer = next(said for said in map(json.loads, lines) if "event" not in said)
                    if "error" in answer:
                        raise RuntimeError(f"QEMU: {command}: {answer['error']['desc']}")
        return answer["return"]

    def set_link(self, nic, up):
        self.tell_qemu("set_link", name=nic.name, up=up)

    def remove(self, nic):
        """Asks the guest to give the device up; QEMU's DEVICE_DELETED comes when it has."""
        self.tell_qemu("device_del", id=nic.name)


class WithoutIommu(PciMachine):
    iommu = ()
