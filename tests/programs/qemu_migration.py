"""A paused guest of QEMU moves from one host to another by RDMA, and its memory is compared.

Decision: the guest is paused, and both ends begin with different random memory. A running guest would need an image. Cost: dirty pages
are not tried.
"""

import json
import os
import socket
import time

COMMAND = "qemu-system-x86_64"
BYTES = 24 << 20
ADDRESS = 16 << 20
GUEST = [COMMAND, "-accel", "tcg", "-machine", "q35", "-m", "64", "-S", "-nodefaults", "-display", "none"]
PORT = 4444
LIMIT_SECONDS = 120


class Monitor:
    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(LIMIT_SECONDS)
        self.socket.connect(str(path))
        self.lines = self.socket.makefile("r")
        self.lines.readline()
        self.run("qmp_capabilities")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.lines.close()
        self.socket.close()

    def run(self, command, **arguments):
        self.socket.sendall(json.dumps({"execute": command, "arguments": arguments}).encode() + b"\n")
        while "return" not in (answer := json.loads(self.lines.readline())):
            if "error" in answer:
                raise AssertionError(f"QEMU: {command}: {answer['error']['desc']}")
        return answer["return"]


def guest(folder, name, more=()):
    """The command line of a guest whose memory has contents of its own, the file `name`."""
    contents = folder / name
    contents.write_bytes(os.urandom(BYTES))
    return [*GUEST, "-device", f"loader,file={contents},addr={ADDRESS:#x},force-raw=on", "-qmp", f"unix:{folder}/{name}.qmp,server=on,wait=off",
            *more]


def incoming(address):
    return ["-incoming", f"rdma:{address}:{PORT}"]


def is_there(folder, name):
    return (folder / f"{name}.qmp").exists()


def migrate(folder, address):
    """From "source" to "destination"; returns what went wrong, or nothing."""
    with Monitor(folder / "source.qmp") as source, Monitor(folder / "destination.qmp") as destination:
        source.run("migrate", uri=f"rdma:{address}:{PORT}")
        deadline = time.monotonic() + LIMIT_SECONDS
        while (status := source.run("query-migrate"))["status"] != "completed":
            if status["status"] in ("failed", "cancelled") or time.monotonic() > deadline:
                return f"migration: {status}"
            time.sleep(0.05)
        while destination.run("query-status")["status"] == "inmigrate":
            if time.monotonic() > deadline:
                return "the destination still waits"
            time.sleep(0.05)
        saved = folder / "saved"
        destination.run("pmemsave", val=ADDRESS, size=BYTES, filename=str(saved))
        for monitor in (source, destination):
            monitor.run("quit")
        return "" if saved.read_bytes() == (folder / "source").read_bytes() else "the guest's memory is not what it was"
