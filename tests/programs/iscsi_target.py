"""tgtd exports a file by iSER, and QEMU's iSCSI driver, which is libiscsi, writes and reads it."""

import subprocess

TARGET, LUN, PORT = "iqn.2026-11.example:disk", 1, 3260
INITIATOR = "iqn.2008-11.org.linux-kvm"  # what QEMU calls itself
TOOLS = ("tgtd", "tgtadm", "qemu-io")
PACKAGES = "tgt, qemu-utils and qemu-block-extra"
CHUNK = 256 << 10  # the longest burst of this libiscsi
CHUNKS = 16
# libiscsi 1.19, Debian 12's, reads a pointer that it has not written (fixed in its commit b4ba920): fresh memory has to be zero.
CLEAN_MEMORY = {"MALLOC_PERTURB_": "255"}


def export(run, file):
    """What makes of a running tgtd a target; `run` runs a command beside it. tgtd lets in only a host that has the right address and
    the right name."""
    for options in (["--op", "new", "--mode", "target", "--tid", "1", "-T", TARGET],
                    ["--op", "new", "--mode", "logicalunit", "--tid", "1", "--lun", str(LUN), "-b", str(file)],
                    ["--op", "bind", "--mode", "target", "--tid", "1", "-I", "ALL"],
                    ["--op", "bind", "--mode", "target", "--tid", "1", "-Q", INITIATOR]):
        subprocess.run(run(["tgtadm", "--lld", "iser", *options]), check=True, capture_output=True, timeout=60)


def answers(run):
    """tgtd takes commands."""
    shown = subprocess.run(run(["tgtadm", "--lld", "iser", "--op", "show", "--mode", "target"]), capture_output=True, timeout=60)
    return shown.returncode == 0


def pattern(chunk):
    return 0x40 + chunk


def initiator(address):
    """Writes every chunk with a pattern of its own, and reads all of them back, comparing."""
    commands = [f"write -P {pattern(chunk)} {chunk * CHUNK} {CHUNK}" for chunk in range(CHUNKS)]
    commands += [f"read -P {pattern(chunk)} {chunk * CHUNK} {CHUNK}" for chunk in range(CHUNKS)]
    return ["qemu-io", "-t", "none", "-f", "raw", *(word for command in commands for word in ("-c", command)),
            f"iser://{address}/{TARGET}/{LUN}"]


def is_written(file):
    return file.read_bytes() == b"".join(bytes([pattern(chunk)]) * CHUNK for chunk in range(CHUNKS))
