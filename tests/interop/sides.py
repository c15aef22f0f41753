"""The two ends of the link, alike to use: `start` gives a program with `finish`, `running` and `close` (which kills). It returns
when the program runs, and is ready if it is a server: it listens on that TCP port, or (CM) by the connection manager.
`pauses`: a client of a server that needs a moment before each connection (tests/programs/cm_ready.c)."""

import os

import link
import programs
from cm_rows import CM


PAUSE = {"UROCE_TEST_PAUSE_MS": "500"}


class UroceSide:
    """Programs on uroce, in this process's namespace."""

    name = "uroce"
    device = "uroce0"
    tcp_address = link.HOST_TCP
    addresses = link.HOST_ADDRESSES

    def __init__(self, stack, visible, notice, folder):
        """`visible`: the kernel shows tcpdump what uroce sends, too. `notice`: the library that tells of CM listeners."""
        self.stack = stack
        port = f"net_af_packet0,iface={link.RDMA_TAP}" + (",qdisc_bypass=0" if visible else "")
        addresses = ", ".join(f'"{a}/{link.PREFIX[family]}"' for family, a in self.addresses.items())
        self.configuration = (f'[[device]]\nname = "{self.device}"\nport = "{port}"\n'
                              f'mac = "{link.HOST_MAC}"\naddresses = [{addresses}]\n')
        self.sign = os.path.join(folder, "ready")
        self.telling = {"LD_PRELOAD": str(notice), "UROCE_TEST_READY": self.sign}
        self.pausing = PAUSE | {"LD_PRELOAD": str(notice)}

    def start(self, command, ready=None, pauses=False):
        if os.path.exists(self.sign):
            os.unlink(self.sign)
        # Not even a killed test leaves a program behind.
        process = self.stack.start(["setpriv", "--pdeathsig", "KILL", *command], self.configuration,
                                   self.telling if ready == CM else self.pausing if pauses else None)
        if ready == CM:
            programs.wait_until(lambda: os.path.exists(self.sign), process)
        elif ready is not None:
            programs.wait_until(lambda: programs.listens(ready), process)
        return UroceProgram(process)


class UroceProgram:
    def __init__(self, process):
        self.process = process

    def finish(self, seconds):
        """(exit status, output) of a program that ends by itself."""
        return programs.finish(self.process, seconds)

    def running(self):
        return self.process.poll() is None

    def close(self):
        if self.running():
            self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdout, self.process.stderr):
            pipe.close()


class GuestSide:
    """Programs on the system's own libraries and on rxe, in the guest."""

    name = "guest"
    device = "rxe0"
    tcp_address = link.GUEST_TCP
    addresses = link.GUEST_ADDRESSES
    # uroce finds our libraries by its run path; this goes before it.
    environment = {"LD_LIBRARY_PATH": "/usr/lib/x86_64-linux-gnu"}
    sign = "/tmp/ready"

    def __init__(self, machine, notice):
        self.machine = machine
        self.telling = {"LD_PRELOAD": str(notice), "UROCE_TEST_READY": self.sign}
        self.pausing = PAUSE | {"LD_PRELOAD": str(notice)}

    def start(self, command, ready=None, pauses=False):
        if ready == CM:
            return self.machine.start(command, self.sign, self.environment | self.telling)
        return self.machine.start(command, ready, self.environment | (self.pausing if pauses else {}))
