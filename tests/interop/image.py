"""The guest's kernel: Debian's own, fetched with apt but not installed, and a first file system to start it.

Both are kept in a cache folder ($UROCE_PEER_CACHE, otherwise /var/cache/uroce-peer). A finished image is used without
asking anybody; remove the folder to get the newest kernel.
"""

import fcntl
import hashlib
import lzma
import os
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
FIRST_PROCESS = HERE / "guest/init"
PACKAGE = re.compile(r"linux-image-(6\.12\.\d+)\+deb12-amd64")
# What the first process loads, to reach the host's files.
BOOT_MODULES = ["virtio_net", "9pnet_virtio", "9p", "overlay"]
# What is loaded later. The kernel asks for crc32 by itself, when rxe wants to compute an ICRC.
PEER_MODULES = ["rdma_rxe", "ib_uverbs", "rdma_ucm", "crc32_generic", "crc32_pclmul",
                "sch_netem", "sch_ingress", "ifb", "act_mirred", "cls_matchall",
                "nvme_rdma", "nvmet_rdma", "null_blk", "ext4", "crc32c_generic"]
# What gives a PCI NIC to a program, the kernel's own drivers of the NICs that are tried, and what net_tap makes rules of.
PCI_MODULES = ["vfio_pci", "vfio_iommu_type1", "uio_pci_generic", "e1000e", "vmxnet3", "tun", "sch_multiq", "cls_flower", "act_skbedit", "act_gact"]


class Unavailable(Exception):
    """There is no guest on this machine; the text says why."""


@dataclass
class Image:
    kernel: Path
    initrd: Path
    modules: Path  # what /lib/modules/VERSION is in the guest
    version: str


def image():
    """Finds the image, or makes it (needs root and a network, takes half a minute)."""
    missing = [tool for tool in ("apt-get", "dpkg", "depmod", "busybox", "zstd") if shutil.which(tool) is None]
    if missing:
        raise Unavailable(f"not installed: {', '.join(missing)} (apps/install-packages test brings them)")
    cache = Path(os.environ.get("UROCE_PEER_CACHE", "/var/cache/uroce-peer"))
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with open(cache / "lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            folder = cache / recipe()
            if not folder.exists():
                make(folder)
    except OSError as error:
        raise Unavailable(f"the guest's image cannot be made in {cache}: {error}") from None
    version = (folder / "version").read_text()
    return Image(folder / "kernel", folder / "initrd", folder / "tree/lib/modules" / version, version)


def recipe():
    """Names an image by everything of ours that goes into it."""
    return hashlib.sha256(Path(__file__).read_bytes() + FIRST_PROCESS.read_bytes()).hexdigest()[:16]


def make(folder):
    """Makes the whole image aside and gives it its name last, so that an image with a name is complete."""
    with tempfile.TemporaryDirectory(prefix="making-", dir=folder.parent) as aside:
        made = Path(aside) / "image"
        made.mkdir(mode=0o755)
        package = fetch_kernel(aside)
        run("dpkg", "-x", package, made / "tree")
        version = next((made / "tree/lib/modules").iterdir()).name
        (made / "version").write_text(version)
        unpack_kernel(made / f"tree/boot/vmlinuz-{version}", made / "kernel")
        dependencies = keep_modules(made / "tree", version)
        make_initrd(made, version, dependencies)
        made.rename(folder)


def run(*command, **options):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, **options)
    if done.returncode != 0:
        told = done.stderr.decode(errors="replace").strip().splitlines()
        raise Unavailable(f"{' '.join(map(str, command))} fails: {told[-1] if told else done.returncode}")
    return done.stdout


def newest_kernel():
    known = run("apt-cache", "search", "--names-only", "^linux-image-6.12").decode()
    names = {word for word in known.split() if PACKAGE.fullmatch(word)}
    return max(names, key=lambda name: [int(part) for part in PACKAGE.fullmatch(name)[1].split(".")], default=None)


def fetch_kernel(folder):
    """Downloads the newest kernel that apt knows. Its lists may be missing, or so old that the kernel has gone."""
    try:
        return download(newest_kernel(), folder)
    except Unavailable:
        run("apt-get", "-o", "DPkg::Lock::Timeout=300", "update")
        return download(newest_kernel(), folder)


def download(name, folder):
    if name is None:
        raise Unavailable("apt knows no package linux-image-6.12.*+deb12-amd64")
    run("apt-get", "download", name, cwd=folder)
    return next(Path(folder).glob("*.deb"))


def unpack_kernel(packed, unpacked):
    """The emulated CPU would take seconds for it."""
    data = packed.read_bytes()
    begin = data.find(b"\x28\xb5\x2f\xfd")
    # What follows the kernel is not zstd's: it complains, and has written everything by then.
    done = subprocess.run(["zstd", "-dcq"], input=data[max(begin, 0):], capture_output=True)
    unpacked.write_bytes(done.stdout if done.stdout.startswith(b"\x7fELF") else data)


def keep_modules(tree, version):
    """Keeps the modules that are wanted and those they need, uncompressed. Returns the latter of each."""
    folder = tree / "lib/modules" / version
    run("depmod", "-b", tree, version)
    needs = {}
    for line in (folder / "modules.dep").read_text().splitlines():
        path, _, others = line.partition(":")
        needs[Path(path).name.split(".")[0].replace("-", "_")] = (path, others.split())
    kept = set()
    for name in BOOT_MODULES + PEER_MODULES + PCI_MODULES:
        if name not in needs:
            raise Unavailable(f"kernel {version} has no module {name}")
        kept.update([needs[name][0], *needs[name][1]])
    for path in folder.rglob("*.ko*"):
        if str(path.relative_to(folder)) in kept:
            if path.suffix == ".xz":
                path.with_suffix("").write_bytes(lzma.decompress(path.read_bytes()))
                path.unlink()
        else:
            path.unlink()
    run("depmod", "-b", tree, version)
    return needs


def make_initrd(made, version, needs):
    root = made / "initrd.root"
    for name in ("bin", "proc", "sys", "dev", "host", "above", "root", "modules"):
        (root / name).mkdir(parents=True)
    shutil.copy(shutil.which("busybox"), root / "bin/busybox")
    shutil.copy(FIRST_PROCESS, root / "init")
    (root / "init").chmod(0o755)
    order = []
    for name in BOOT_MODULES:
        path, others = needs[name]
        # depmod names first what is to be loaded last.
        order += [one for one in [*reversed(others), path] if one not in order]
    for number, path in enumerate(order):
        source = made / "tree/lib/modules" / version / path.removesuffix(".xz")
        shutil.copy(source, root / "modules" / f"{number:02}-{source.name}")
    names = "".join(f"{path.relative_to(root)}\n" for path in sorted(root.rglob("*")))
    packed = subprocess.run(["busybox", "cpio", "-o", "-H", "newc"], cwd=root, input=names.encode(), capture_output=True,
                            check=True)
    (made / "initrd").write_bytes(packed.stdout)
    shutil.rmtree(root)


if __name__ == "__main__":
    print(image())
