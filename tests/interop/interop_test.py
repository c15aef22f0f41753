#!/usr/bin/env python3
"""Programs on uroce and programs on the Linux kernel's rxe, which runs in a guest, meet over a link.

    tests/interop/interop_test.py [--only TEXT] [--list] [--capture FOLDER] [--kernel-alone]
                                  UROCE LIBRARY_FOLDER TESTS_FOLDER [SANITIZER_RUNTIME]
"""

import re
import shlex
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "programs"))
import cases
import cm_rows
import guest
import image
import link
import programs
import sides
import suite

PORT = 18515
GID_INDEX = {cases.V4: 1, cases.V6: 2}  # 0 is the link-local address
# Far more than a case needs, so that a slow machine does not fail and a hang does.
PROGRAM_SECONDS_MAX = 300
# Seen in captures of the link: rxe has repeated two packets of a message of three, and got the ACK of all three after each.
# It sends nothing from then on, neither the third nor the next message, though it waits for an answer.
RXE_FALLS_SILENT = "rxe may fall silent when a message is acknowledged while it repeats it"
LOSS_SECONDS_MAX = 120
LEFT_ALONE_SECONDS = 5
NEEDED = ["ibv_rc_pingpong", "ib_write_bw", "rping", "qperf", "setpriv", "tc"]
# More than it takes to connect.
FRAMES_OF_TRAFFIC = 500
# Of one that may fail between two ends that are right.
ATTEMPTS_MAX = 3


class Interop:
    """The guest, the link and what runs over them."""

    def __init__(self, arguments, folder):
        self.arguments = arguments
        self.folder = folder
        self.image = image.image()
        link.enter()
        self.notice = arguments.tests / "programs/libcm_ready.so"
        self.uroce = sides.UroceSide(programs.Stack(arguments.libraries, arguments.sanitizer_runtime),
                                     visible=arguments.capture is not None, notice=self.notice, folder=folder)
        self.machine = None
        self.second_life = guest.SecondLife(self.stop, self.boot)
        self.kernel_complaints = []
        self.failed = []

    def boot(self):
        began = time.monotonic()
        self.link_mtu = self.impairment = None
        self.machine = guest.Guest(self.image, self.folder)
        self.guest = sides.GuestSide(self.machine, self.notice)
        print(f"guest: Linux {self.image.version}, up after {time.monotonic() - began:.1f} s", flush=True)

    def run_all(self, runs):
        for run in runs:
            self.second_life.run(run.name(), self.run_one, run)

    def stop(self):
        if self.machine is not None:
            self.kernel_complaints += self.machine.complaints()
            self.machine.stop()
            self.machine = None

    def run_one(self, run):
        if self.machine is None:
            self.boot()
        for attempt in range(1, ATTEMPTS_MAX + 1):
            reason = run.case.flaky or (RXE_FALLS_SILENT if run.impairment == "loss" else "")
            if not self.failed_at(run, attempt) or not reason or attempt == ATTEMPTS_MAX:
                return
            print(f"       it is tried again, because {reason}", flush=True)
            self.failed.pop()

    def failed_at(self, run, attempt):
        began = time.monotonic()
        self.prepare(run)
        with ExitStack() as stack:
            if self.arguments.capture:
                stack.enter_context(Capture(self.arguments.capture, run.name()))
            problem = self.meet(run, stack)
        if run.client == cases.ALONE and run.case.not_with_kernel:
            problem = "" if problem else f"the kernel can do it now, and the table says: {run.case.not_with_kernel}"
        failed = suite.tell(run.name(), began, problem)
        if failed:
            self.failed.append(run.name())
        return failed

    def prepare(self, run):
        """Link MTU and impairment at both ends, where they differ from what they were."""
        if run.link_mtu != self.link_mtu:
            link.set_mtu(run.link_mtu)
            self.machine.do(f"ip link set eth0 mtu {run.link_mtu}")
            self.link_mtu = run.link_mtu
        if run.impairment != self.impairment:
            self.machine.impair(cases.IMPAIRMENTS.get(run.impairment))
            self.impairment = run.impairment

    def meet(self, run, stack):
        """What went wrong, or nothing."""
        server_side, client_side = {cases.GUEST: (self.uroce, self.guest), cases.UROCE: (self.guest, self.uroce),
                                    cases.ALONE: (self.guest, self.guest)}[run.client]
        case = run.case
        frames = link.frames()
        seconds = LOSS_SECONDS_MAX if run.impairment == "loss" else PROGRAM_SECONDS_MAX
        said = []
        try:
            server = server_side.start(self.command(run, case.server, server_side, client_side, server_side),
                                       cm_rows.CM if case.ready == cm_rows.CM else PORT)
            stack.callback(server.close)
            complaints = []
            for _ in range(case.number_of_clients):
                client = client_side.start(self.command(run, case.client, server_side, client_side, client_side),
                                           pauses=case.listens_late)
                stack.callback(client.close)
                if case.killed:
                    return self.kill(run, server, client, frames)
                status, output = client.finish(seconds)
                said.append(f"client on {client_side.name}: status {status}\n{output}")
                complaints += cm_rows.complaints("the client", status, output, case.client_says, case.client_fails)
            if not case.endless:
                # A client that failed may leave a server that waits for ever.
                status, output = server.finish(LEFT_ALONE_SECONDS if complaints else seconds)
                said.append(f"server on {server_side.name}: status {status}\n{output}")
                complaints += cm_rows.complaints("the server", status, output, case.server_says)
        except AssertionError as failure:
            return "\n".join([str(failure), *said])
        return "\n".join([*complaints, *said]) if complaints else ""

    def kill(self, run, server, client, began_with):
        """One end is killed while the two are at it; the other says so, or can at least be killed itself."""
        deadline = time.monotonic() + PROGRAM_SECONDS_MAX
        while link.frames() < began_with + FRAMES_OF_TRAFFIC and time.monotonic() < deadline:
            time.sleep(0.1)
            if not (server.running() and client.running()):
                break
        if not (server.running() and client.running()):
            return "an end has ended before it was to be killed"
        victim, survivor = (client, server) if run.case.killed == "client" else (server, client)
        if run.case.killed == "guest":
            self.stop()
        else:
            victim.close()
        status, output = survivor.finish(PROGRAM_SECONDS_MAX)
        if (status == 0 and not run.case.ordinary_end) or not re.search(run.case.told, output):
            return f"the survivor ended with status {status} and said:\n{output}"
        return ""

    def command(self, run, text, server_side, client_side, side):
        return shlex.split(text.format(
            device=side.device, gid=GID_INDEX[run.gid], mtu=cases.PATH_MTU[run.link_mtu], port=PORT,
            peer=server_side.tcp_address, uroce=shlex.quote(str(self.arguments.uroce)),
            keys=shlex.quote(str(self.arguments.tests / "keys")), server=server_side.addresses[run.gid],
            client=client_side.addresses[run.gid], absent=link.ABSENT[run.gid], any=cm_rows.ANY[run.gid],
            group=cm_rows.GROUP[run.gid]))


class Capture:
    """All frames on the link while the block runs, in a file that wireshark reads."""

    def __init__(self, folder, name):
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / (name.replace("/", "_").replace(" ", "_") + ".pcap")

    def __enter__(self):
        self.process = subprocess.Popen(["tcpdump", "-Z", "root", "-i", link.RDMA_TAP, "-U", "-w", self.path],
                                        stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        for line in self.process.stderr:
            if "listening on" in line:
                break

    def __exit__(self, *_):
        time.sleep(0.5)
        self.process.send_signal(signal.SIGINT)
        self.process.communicate()


def parse_arguments():
    parser = suite.parser("Runs the cases of tests/interop/cases.py.", "runs")
    parser.add_argument("--capture", metavar="FOLDER", type=Path, help="keep a pcap of each run there")
    parser.add_argument("--kernel-alone", action="store_true",
                        help="what is connected by the connection manager, with the kernel at both ends: does the table say "
                        "what the kernel cannot do?")
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    every = cases.runs_of_the_kernel_alone() if arguments.kernel_alone else cases.runs()
    runs = [run for run in every if arguments.only in run.name()]
    if arguments.list:
        return print("\n".join(run.name() for run in runs))
    began = time.monotonic()
    with suite.run("no interoperation with the kernel was tested", NEEDED) as folder:
        interop = Interop(arguments, folder)
        try:
            interop.run_all(runs)
        finally:
            interop.stop()
    suite.end(f"{len(runs)} runs in {time.monotonic() - began:.0f} s", interop.failed, interop.kernel_complaints)


main()
