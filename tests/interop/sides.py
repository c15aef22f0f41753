"""The two ends of the link, alike to use: `start` gives a program with `finish`, `running` and `close` (which kills). It returns
when the program runs, and is ready if it is a server: it listens on that TCP port, or (CM) by the connection manager.
`pauses`: a client of a server that needs a moment before each connection (tests/programs/cm_ready.c)."""

import itertools
import os

import link
import programs
from cm_rows import CM


PAUSE = {"UROCE_TEST_PAUSE_MS": "500"}


class UroceSide:
    """Programs on uroce, in this process's namespace."""

    name = "uroce"
    device = "uroce0"
    judged = ""
    tcp_address = link.HOST_TCP
    addresses = link.HOST_ADDRESSES

    def __init__(self, stack, visible, notice, folder, tap=link.RDMA_TAP):
        """`visible`: the kernel shows tcpdump what uroce sends, too. `notice`: the library that tells of CM listeners."""
        self.stack = stack
        port = f"net_af_packet0,iface={tap}" + (",qdisc_bypass=0" if visible else "")
        addresses = ", ".join(f'"{a}/{link.PREFIX[family]}"' for family, a in self.addresses.items())
        self.configuration = (f'[[device]]\nname = "{self.device}"\nport = "{port}"\n'
                              f'mac = "{link.HOST_MAC}"\naddresses = [{addresses}]\n')
        self.environment = {}
        self.notice = {"LD_PRELOAD": str(notice)}
        self.signs = (os.path.join(folder, f"ready-{number}") for number in itertools.count())

    def start(self, command, ready=None, pauses=False):
        sign = next(self.signs)
        telling = self.notice | {"UROCE_TEST_READY": sign} if ready == CM else self.notice | PAUSE if pauses else {}
        # Not even a killed test leaves a program behind.
        process = self.stack.start(["setpriv", "--pdeathsig", "KILL", *command], self.configuration, self.environment | telling)
        if ready == CM:
            programs.wait_until(lambda: os.path.exists(sign), process)
        elif ready is not None:
            programs.wait_until(lambda: programs.listens(ready), process)
        return UroceProgram(process)


class ServedSide(UroceSide):
    """Programs of one host service."""

    def __init__(self, stack, service, notice, folder):
        super().__init__(stack, visible=False, notice=notice, folder=folder)
        self.configuration = ""
        self.environment = service.environment


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
    # rxe performs a BIND or a LOCAL_INV again when it repeats requests before it, which then fails.
    judged = "-l"
    tcp_address = link.GUEST_TCP
    addresses = link.GUEST_ADDRESSES
    # uroce finds our libraries by its run path; this goes before it.
    environment = {"LD_LIBRARY_PATH": "/usr/lib/x86_64-linux-gnu"}

    def __init__(self, machine, notice):
        self.machine = machine
        self.notice = {"LD_PRELOAD": str(notice)}
        self.signs = (f"/tmp/ready-{number}" for number in itertools.count())

    def start(self, command, ready=None, pauses=False):
        if ready == CM:
            sign = next(self.signs)
            return self.machine.start(command, sign, self.environment | self.notice | {"UROCE_TEST_READY": sign})
        return self.machine.start(command, ready, self.environment | (self.notice | PAUSE if pauses else {}))
