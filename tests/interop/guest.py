"""A guest with the kernel's rxe, in QEMU without hardware's help: slow, and the same on every machine."""

import contextlib
import ctypes
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

import image
import link

HERE = Path(__file__).resolve().parent
AGENT_PORT = 4790
TCP_MAC = "02:00:00:00:0a:02"
DIED = 125
BOOT_SECONDS_MAX = 240
PR_SET_PDEATHSIG = 1
# By TCP the guest reaches the host's RDMA address on the other link (link.enter), until it is told this.
NO_DETOUR = f"ip rule del to {link.HOST_ADDRESSES['v4']} ipproto tcp lookup 100\n"


class Died(Exception):
    """The guest has ended by itself; the text is what its console said last."""


WORRYING = "BUG:", "Oops", "WARNING:", "Call Trace", "segfault", "general protection"
# Without offloads the wire shows what the guest's stack meant.
NO_OFFLOADS = ("csum=off,gso=off,guest_csum=off,guest_tso4=off,guest_tso6=off,guest_ufo=off,"
               "host_tso4=off,host_tso6=off,host_ufo=off")


def nic(name, tap, mac):
    return ["-netdev", f"tap,id={name},ifname={tap},script=no,downscript=no,vhost=off",
            "-device", f"virtio-net-pci,netdev={name},mac={mac},romfile=,host_mtu={link.TAP_MTU},{NO_OFFLOADS}"]


class Machine:
    """A guest on the link TCP_TAP. Boots on creation; `folder` takes its console's output."""

    machine = "pc"
    # No cx16: after a comparison QEMU 7.2 executes CMPXCHG16B with stale flags and leaves an operand's bits in EFLAGS. With VM
    # among them the next interrupt is the kernel's end, whose memory allocator uses that instruction where there is one.
    processor = "max,cx16=off"
    memory = "1G"
    kernel_arguments = ""

    def __init__(self, guest_image, folder):
        if shutil.which("qemu-system-x86_64") is None:
            raise image.Unavailable("qemu-system-x86_64 is not installed (Debian's package qemu-system-x86 has it)")
        self.console = Path(folder) / "console"
        self.process = subprocess.Popen(self._command(guest_image), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT, text=True, preexec_fn=die_with_parent)
        try:
            self._wait_for_agent()
            self._set_up()
        except BaseException:
            self.stop()
            raise

    def _command(self, guest_image):
        start = {"START": HERE / "guest/start", "MODULES": guest_image.modules, "TCP_MAC": TCP_MAC,
                 "TCP_ADDRESS": f"{link.GUEST_TCP}/{link.TCP_PREFIX}"}
        command = ["qemu-system-x86_64", "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
                   "-machine", f"{self.machine},accel=tcg,usb=off", "-cpu", self.processor, "-smp", "1", "-m", self.memory,
                   "-kernel", str(guest_image.kernel), "-initrd", str(guest_image.initrd),
                   "-append", "console=ttyS0 quiet panic=-1 oops=panic mitigations=off nokaslr tsc=reliable "
                   f"random.trust_cpu=on net.ifnames=0 audit=0 {self.kernel_arguments} " +
                   " ".join(f"{k}={v}" for k, v in start.items()),
                   "-serial", f"file:{self.console}",
                   "-fsdev", "local,id=host,path=/,security_model=none,readonly=on,multidevs=remap",
                   "-device", "virtio-9p-pci,fsdev=host,mount_tag=host"]
        return command + self._devices() + nic("n1", link.TCP_TAP, TCP_MAC)

    def _devices(self):
        """More arguments of QEMU."""
        return []

    def _wait_for_agent(self):
        deadline = time.monotonic() + BOOT_SECONDS_MAX
        while True:
            try:
                with socket.create_connection((link.GUEST_TCP, AGENT_PORT), timeout=1):
                    return
            except OSError:
                self.check()
            if time.monotonic() > deadline:
                raise Died(f"not up after {BOOT_SECONDS_MAX} s\n{self._last_words()}")
            time.sleep(0.1)

    def _set_up(self):
        """What it is to have before the first program runs there."""

    def check(self):
        if self.process.poll() is not None:
            if not self.console.exists() or self.console.stat().st_size == 0:
                raise image.Unavailable(f"QEMU cannot run: {self.process.stdout.read().strip()}")
            raise Died(f"QEMU's status was {self.process.returncode}\n{self.process.stdout.read()}{self._last_words()}")

    def _last_words(self):
        text = self.console.read_text(errors="replace") if self.console.exists() else ""
        return "\n".join(text.splitlines()[-60:])

    def complaints(self):
        """What the guest's kernel said that it should not."""
        text = self.console.read_text(errors="replace")
        return [line for line in text.splitlines() if any(w in line for w in WORRYING)]

    def start(self, command, ready=None, environment=None):
        """Returns when the program runs, and listens on the TCP port `ready` or has made the file of that name."""
        return GuestProgram(self, command, ready, environment or {})

    def do(self, script):
        """Shell commands that have to succeed."""
        status, output = self.start(["bash", "-e", "-c", script]).finish(60)
        if status != 0:
            raise RuntimeError(f"in the guest:\n{script}\nstatus {status}: {output}")
        return output

    def stop(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()


class Guest(Machine):
    """With the kernel's rxe at its end of the link under test."""

    def _devices(self):
        return nic("n0", link.RDMA_TAP, link.GUEST_MAC)

    def _set_up(self):
        """The RDMA link's end in the guest, and loss and the like to be switched on (see impairments)."""
        addresses = "".join(f"ip address add {address}/{link.PREFIX[family]} dev eth0 {option}\n"
                            for (family, address), option in zip(link.GUEST_ADDRESSES.items(), ("", "nodad")))
        self.do("echo 0 >/proc/sys/net/ipv6/conf/eth0/accept_dad\n"
                "echo 0 >/proc/sys/net/ipv6/conf/eth0/accept_ra\n"
                "ip link set eth0 up\n" + addresses +
                f"ip rule add to {link.HOST_ADDRESSES['v4']} ipproto tcp lookup 100\n"
                f"ip route add {link.HOST_ADDRESSES['v4']} via {link.HOST_TCP} table 100\n"
                # From now on the console hears where a program was that crashes.
                "dmesg -n 7\n"
                "modprobe rdma_rxe\nmodprobe ib_uverbs\nmodprobe rdma_ucm\nrdma link add rxe0 type rxe netdev eth0\n"
                "modprobe ifb numifbs=1\nmodprobe sch_netem\n"
                "ip link set ifb0 mtu 9000 up\n"
                "tc qdisc add dev eth0 handle ffff: ingress\n")

    def impair(self, netem):
        """Has netem do that to every frame that leaves the guest on the RDMA link or arrives there; None ends it."""
        if netem is None:
            return self.do("tc qdisc del dev eth0 root || true\n"
                           "tc filter del dev eth0 parent ffff: || true\n"
                           "ip neigh flush dev eth0 nud permanent\n")
        # A lost question for an address ends a connection before it begins: not what is tried here.
        known = "".join(f"ip neigh replace {address} lladdr {link.HOST_MAC} dev eth0 nud permanent\n"
                        for address in link.HOST_ADDRESSES.values())
        return self.do(known + f"tc qdisc replace dev ifb0 root netem {netem}\n"
                       f"tc qdisc replace dev eth0 root netem {netem}\n"
                       "tc filter del dev eth0 parent ffff: || true\n"
                       "tc filter add dev eth0 parent ffff: matchall action mirred egress redirect dev ifb0\n")


class SecondLife:
    """A guest that dies is started once more, by `stop` and `boot`, and so is the case that it died in. The next death, or the
    first where none is `granted`, is the caller's."""

    def __init__(self, stop, boot, granted=True):
        self.stop = stop
        self.boot = boot
        self.left = granted

    def run(self, name, case, *arguments):
        """What case(*arguments) returns."""
        try:
            return case(*arguments)
        except Died as death:
            if not self.left:
                raise
            self.left = False
            print(f"THE GUEST DIED in {name}; it is started once more, and so is this case. {death}", flush=True)
        self.stop()
        self.boot()
        return case(*arguments)


class GuestProgram:
    """A program in the guest; killed when this object is closed."""

    def __init__(self, guest, command, ready, environment):
        self.guest = guest
        self.command = command
        self.result = None
        try:
            self.socket = socket.create_connection((link.GUEST_TCP, AGENT_PORT), timeout=30)
            self.socket.sendall(json.dumps({"command": [str(word) for word in command], "environment": environment,
                                            "ready": ready}).encode() + b"\n")
        except OSError:
            guest.check()
            raise
        self.heard = b""
        self._hear(90)

    def _hear(self, seconds):
        """The agent's next message, or AssertionError when none comes in time."""
        message = json.loads(self._line(seconds))
        if "status" in message:
            self.result = message["status"], message["output"]

    def _line(self, seconds):
        deadline = time.monotonic() + seconds
        while b"\n" not in self.heard:
            # A dying guest closes nothing, and a peer that waits for that alone waits for long.
            self.guest.check()
            if time.monotonic() > deadline:
                raise AssertionError(f"{self.command} hangs in the guest (no word for {seconds} s)")
            if select.select([self.socket], [], [], 1)[0]:
                self.heard += self._received()
        line, _, self.heard = self.heard.partition(b"\n")
        return line

    def _received(self):
        with contextlib.suppress(OSError):
            if received := self.socket.recv(1 << 16):
                return received
        # QEMU's end may come a moment later.
        for _ in range(50):
            self.guest.check()
            time.sleep(0.1)
        raise AssertionError("the guest's agent has gone")

    def finish(self, seconds):
        """(exit status, output) of a program that ends by itself."""
        try:
            if self.result is None:
                self._hear(seconds)
        finally:
            self.close()
        return self.result

    def running(self):
        """By what the agent has said by now."""
        while self.result is None and (b"\n" in self.heard or select.select([self.socket], [], [], 0)[0]):
            self._hear(90)
        return self.result is None

    def kill(self):
        self.close()

    def close(self):
        self.socket.close()


def die_with_parent():
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() == 1:
        os._exit(1)
