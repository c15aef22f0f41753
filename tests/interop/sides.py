"""The two ends of the link, alike to use: `start` gives a program with `finish`, `running` and `close` (which kills)."""

import link
import programs


class UroceSide:
    """Programs on uroce, in this process's namespace."""

    name = "uroce"
    device = "uroce0"
    tcp_address = link.HOST_TCP

    def __init__(self, stack, visible):
        """`visible`: the kernel shows tcpdump what uroce sends, too."""
        self.stack = stack
        port = f"net_af_packet0,iface={link.RDMA_TAP}" + (",qdisc_bypass=0" if visible else "")
        addresses = ", ".join(f'"{a}/{link.PREFIX[family]}"' for family, a in link.HOST_ADDRESSES.items())
        self.configuration = (f'[[device]]\nname = "{self.device}"\nport = "{port}"\n'
                              f'mac = "{link.HOST_MAC}"\naddresses = [{addresses}]\n')

    def start(self, command, listens_on=None):
        """Returns when the program runs, and listens on that TCP port if it is to."""
        # Not even a killed test leaves a program behind.
        process = self.stack.start(["setpriv", "--pdeathsig", "KILL", *command], self.configuration)
        if listens_on is not None:
            programs.wait_until(lambda: programs.listens(listens_on), process)
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
    """Programs on the system's own libibverbs and on rxe, in the guest."""

    name = "guest"
    device = "rxe0"
    tcp_address = link.GUEST_TCP
    # uroce finds our libraries by its run path; this goes before it.
    environment = {"LD_LIBRARY_PATH": "/usr/lib/x86_64-linux-gnu"}

    def __init__(self, machine):
        self.machine = machine

    def start(self, command, listens_on=None):
        """Returns when the program runs, and listens on that TCP port if it is to."""
        return self.machine.start(command, listens_on, self.environment)
