"""Targets for the kernel's NVMe-oF host in the guest: ours on this side of the link, or the kernel's own, in the same guest."""

import signal
from pathlib import Path

import nvme_cases
from cm_rows import CM

MIB = 1 << 20
NAMESPACES = ((1, 64 * MIB, 4096), (2, 16 * MIB, 512))
THIRD = (3, 8 * MIB, 512)


class NotWithThis(Exception):
    """The target is not one that the case can be tried with."""


class UroceTarget:
    """`uroce nvmf`, on the host's side of the link."""

    def __init__(self, side, uroce, folder):
        self.side = side
        self.uroce = uroce
        self.file = Path(folder) / "nvmf.toml"
        self.backing = Path(folder) / "disk.img"
        with open(self.backing, "wb") as backing:
            backing.truncate(NAMESPACES[1][1])
        self.program = None
        self.in_capsule = None
        self.addresses = side.addresses

    def configure(self, namespaces):
        listeners = "".join(f'[[nvmf.listen]]\naddress = "{address}"\n' for address in self.addresses.values())
        disks = "".join(f"[[nvmf.subsystem.namespace]]\nnsid = {nsid}\n{self.backend(nsid)}\nsize = {size}\nblock_size = {block}\n"
                        for nsid, size, block in namespaces)
        self.file.write_text(f"{self.side.configuration}[nvmf]\nin_capsule_bytes = {self.in_capsule}\n{listeners}"
                             f'[[nvmf.subsystem]]\nnqn = "{nvme_cases.NQN}"\nallow_any_host = true\n{disks}')

    def backend(self, nsid):
        return f'driver = "file"\npath = "{self.backing}"' if nsid == 2 else 'driver = "ram"'

    def prepare(self, case):
        """A running target that is as the case wants it."""
        if self.program is not None and self.program.running() and case.in_capsule == self.in_capsule:
            return
        self.stop()
        self.in_capsule = case.in_capsule
        self.start()

    def start(self):
        self.configure(NAMESPACES)
        self.program = self.side.start([str(self.uroce), "nvmf", "--config", str(self.file)], CM)

    def kill(self):
        self.program.close()

    def grow(self):
        self.configure((*NAMESPACES, THIRD))
        self.program.process.send_signal(signal.SIGHUP)

    def shrink(self):
        self.configure(NAMESPACES)
        self.program.process.send_signal(signal.SIGHUP)

    def stop(self):
        """Orderly; what it said if that was not to be expected."""
        if self.program is None:
            return ""
        program, self.program = self.program, None
        if program.running():
            program.process.send_signal(signal.SIGTERM)
        try:
            status, output = program.finish(30)
        except AssertionError as hang:
            return str(hang)
        finally:
            program.close()
        return f"the target ended with status {status} and said:\n{output}" if status != 0 else ""


class KernelTarget:
    """nvmet in the guest, so that host and target are the kernel's: is it the case that is wrong?"""

    FOLDER = "/sys/kernel/config/nvmet"

    def __init__(self, machine, addresses):
        self.machine = machine
        self.addresses = addresses
        self.up = False

    def prepare(self, case):
        if case.killed or case.grows or case.not_with_kernel:
            raise NotWithThis
        if self.up:
            return
        self.up = True
        script = ["modprobe null_blk nr_devices=0", "modprobe nvmet-rdma", "mount -t configfs none /sys/kernel/config || true"]
        subsystem = f"{self.FOLDER}/subsystems/{nvme_cases.NQN}"
        script += [f"mkdir -p {subsystem}", f"echo 1 >{subsystem}/attr_allow_any_host"]
        for nsid, size, block in NAMESPACES:
            disk = f"/sys/kernel/config/nullb/nullb{nsid}"
            script += [f"mkdir {disk}", f"echo {size // MIB} >{disk}/size", f"echo {block} >{disk}/blocksize",
                       f"echo 1 >{disk}/memory_backed", f"echo 1 >{disk}/discard || true", f"echo 1 >{disk}/power",
                       f"mkdir {subsystem}/namespaces/{nsid}",
                       f"echo -n /dev/nullb{nsid} >{subsystem}/namespaces/{nsid}/device_path",
                       f"echo 1 >{subsystem}/namespaces/{nsid}/enable"]
        for number, (family, address) in enumerate(self.addresses.items(), 1):
            port = f"{self.FOLDER}/ports/{number}"
            script += [f"mkdir {port}", f"echo rdma >{port}/addr_trtype", f"echo 4420 >{port}/addr_trsvcid",
                       f"echo {'ipv6' if family == 'v6' else 'ipv4'} >{port}/addr_adrfam", f"echo {address} >{port}/addr_traddr",
                       f"ln -s {subsystem} {port}/subsystems/{nvme_cases.NQN}"]
        self.machine.do("\n".join(script))

    def stop(self):
        return ""
