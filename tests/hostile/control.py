"""A client of the service's control protocol (lib/host/control.h) without any code of ours: for programs that behave as none of ours does.

It stands alone, so that it can be copied to where another user's process finds it: FORMAT, a file beside it, has what
control_format.cc prints and the numbers of the message types.
"""

import array
import contextlib
import fcntl
import json
import mmap
import os
import re
import socket
import struct
import time
from pathlib import Path

FORMAT = Path(__file__).resolve().parent / "control_format.json"
F_ADD_SEALS = 1033
F_SEAL_SEAL, F_SEAL_SHRINK, F_SEAL_GROW, F_SEAL_FUTURE_WRITE = 1, 2, 4, 16
DESCRIPTORS_MAX = 253  # of one message, as the kernel has it
PORT_SPACE_TCP = 0x106  # RDMA_PS_TCP


def types_of(header):
    """Name -> number of each message type, from the text of lib/host/control.h."""
    body = re.sub(r"//[^\n]*", "", re.search(r"enum class MessageType[^{]*\{(.*?)\};", header, re.S).group(1))
    names = [word.split("=") for word in body.replace("\n", " ").split(",") if word.strip()]
    return {words[0].strip()[1:]: number for number, words in enumerate(names, start=1) if words[0].strip() != "kLast"}


def ipv4(text):
    """As a GID."""
    return bytes(10) + b"\xff\xff" + socket.inet_aton(text)


class Message(dict):
    __getattr__ = dict.get


class Control:
    """One connection to the service."""

    def __init__(self, path=None, seconds=10):
        shape = json.loads(FORMAT.read_text())
        self.version, self.size, self.fields, self.types = shape["version"], shape["size"], shape["fields"], shape["types"]
        self.memory_shape = shape["memory"]
        self.ring, self.frames, self.shifts = shape["ring"], shape["frames"], shape["shifts"]
        self.sent = 0
        self.theirs = None
        self.names = {number: name for name, number in self.types.items()}
        self.memory = None
        self.descriptors = []
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.settimeout(seconds)
        try:
            self.socket.connect(path or os.environ["UROCE_SERVICE"])
        except OSError:
            self.socket.close()
            raise

    def close(self):
        self.socket.close()
        for descriptor in self.descriptors:
            os.close(descriptor)
        self.descriptors = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def packed(self, type_, **fields):
        """The bytes of a message; `type_`: a name without its k, or a number."""
        text = bytearray(self.size)
        values = {"type": self.types.get(type_, type_), "version": self.version} | fields
        for name, value in values.items():
            offset, length = self.fields[name]
            part = value.to_bytes(length, "little", signed=value < 0) if isinstance(value, int) else bytes(value)[:length]
            text[offset:offset + len(part)] = part
        return bytes(text)

    def send(self, type_, descriptors=(), **fields):
        return self.send_bytes(self.packed(type_, **fields), descriptors)

    def send_bytes(self, text, descriptors=()):
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))] if descriptors else []
        return self.socket.sendmsg([text], rights)

    def receive(self):
        """The next message, or None at the end. Its descriptors are in `descriptors`, until close()."""
        text, ancillary, _, _ = self.socket.recvmsg(self.size + 1, socket.CMSG_SPACE(64))
        for level, kind, data in ancillary:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                got = array.array("i")
                got.frombytes(data[:len(data) // got.itemsize * got.itemsize])
                self.descriptors += got
        return self.parsed(text) if text else None

    def parsed(self, text):
        message = Message()
        for name, (offset, length) in self.fields.items():
            part = text[offset:offset + length]
            message[name] = part if name in ("address", "hop", "mac") else part.split(b"\0")[0] if name in ("name", "text") \
                else int.from_bytes(part, "little", signed=name == "error")
        message["type"] = self.names.get(message["type"], message["type"])
        return message

    def ask(self, type_, descriptors=(), until=("Done",), **fields):
        """Sends, and gives the first answer of one of the types `until`; None when the service ends the connection."""
        self.send(type_, descriptors, **fields)
        while (got := self.receive()) is not None and got.type not in until:
            pass
        return got

    def drain(self):
        """How many messages were there to be read."""
        count = 0
        self.socket.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while self.receive() is not None:
                count += 1
        self.socket.setblocking(True)
        return count

    def program_memory(self):
        """A descriptor of memory as a program shows it: (descriptor, mapping)."""
        descriptor = os.memfd_create("uroce", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(descriptor, self.memory_shape["bytes"])
        mapping = mmap.mmap(descriptor, self.memory_shape["bytes"])
        struct.pack_into("<QIIII", mapping, 0, *self.memory_shape["preamble"])
        fcntl.fcntl(descriptor, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL)
        return descriptor, mapping

    def write_rows(self, rows):
        """Says in the program's memory that it has these connections, each a dict: the service disconnects them when it ends."""
        at, most, used = self.memory_shape["rows"]
        for number, row in enumerate(rows[:most]):
            values = {"local": 0, "remote": 1, "remote_qp": 1, "mac": self.mac, "ours": ipv4("192.0.2.1"), "theirs": ipv4("192.0.2.1")} | row
            struct.pack_into("<IIIIBBB6s16s16s", self.memory, at + number * struct.calcsize("<IIIIBBB6s16s16s3x"), values["local"], values["remote"],
                             values["remote_qp"], 0, 0, 64, 0, values["mac"], values["ours"], values["theirs"])
        struct.pack_into("<I", self.memory, used, len(rows))

    def send_frame(self, frame):
        """Into the ring to the service, without a look at what has been taken: some frames may overtake others, and be lost."""
        _, channels, frames, ring_frames, frame_bytes = self.memory_shape["preamble"]
        length_at, icrc_at, sequence_at = self.shifts
        index = self.sent % ring_frames
        at = self.frames + index * frame_bytes
        self.memory[at:at + len(frame)] = frame
        self.sent += 1
        descriptor = index | len(frame) << length_at | 1 << icrc_at | self.sent << sequence_at & (1 << 64) - 1
        struct.pack_into("<Q", self.memory, self.ring + index * 8, descriptor)

    def taken(self):
        """How many frames the service has taken so far, modulo 2^32, by the memory that it has given us."""
        if self.theirs is None:
            self.theirs = mmap.mmap(self.descriptors[0], 4096, prot=mmap.PROT_READ)
        return struct.unpack_from("<I", self.theirs, 2 * 64)[0]

    def attach(self, count=4096, device=b"", memory=None, text=b"stranger", **fields):
        """Becomes a program of the device: the answer, Attached or Done with its error."""
        descriptor, self.memory = memory or self.program_memory()
        answer = self.ask("Attach", [descriptor], until=("Attached", "Done"), name=device, text=text, count=count, **fields)
        self.number, self.mac = (answer.number, answer.mac) if answer is not None else (0, bytes(6))
        if memory is None:
            os.close(descriptor)
        return answer


def attached(seconds=10, attempts=100, **fields):
    """A connection that is a program, asked for again while the service has no time for it (EAGAIN); else its error."""
    for _ in range(attempts):
        one = Control(seconds=seconds)
        answer = one.attach(**fields)
        if answer is not None and answer.type == "Attached":
            return one
        one.close()
        if answer is None or answer.error != 11:
            break
        time.sleep(0.05)
    raise OSError(answer.error if answer is not None else 0, answer.text.decode(errors="replace") if answer is not None else "ended")


def list_seconds(path=None, seconds=10):
    """How long the service takes to answer a question that costs it nothing."""
    began = time.monotonic()
    with Control(path, seconds) as one:
        if one.ask("List") is None:
            raise OSError(0, "the service ended the connection")
    return time.monotonic() - began


def mapped_address(a, b, c, d):
    """The IPv4 address as a GID."""
    return b"\0" * 10 + b"\xff\xff" + bytes((a, b, c, d))


ANY = mapped_address(0, 0, 0, 0)
