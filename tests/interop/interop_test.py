#!/usr/bin/env python3
"""Programs on uroce and programs on the Linux kernel's rxe, which runs in a guest, meet over a link.

    tests/interop/interop_test.py [--only TEXT] [--list] [--capture FOLDER] [--kernel-alone]
                                  UROCE LIBRARY_FOLDER TESTS_FOLDER [SANITIZER_RUNTIME]
"""

import random
import re
import shlex
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "programs"))
import cases
import cm_rows
import frames
import guest
import image
import link
import outcomes
import programs
import sides
import stalls
import suite

PORT = 18515
GID_INDEX = {cases.V4: 1, cases.V6: 2}  # 0 is the link-local address
# Far more than a case needs, so that a slow machine does not fail and a hang does.
PROGRAM_SECONDS_MAX = 300
LOSS_SECONDS_MAX = 120
LEFT_ALONE_SECONDS = 5
NEEDED = ["ibv_rc_pingpong", "ib_write_bw", "rping", "qperf", "setpriv", "tc"]
# More than it takes to connect.
FRAMES_OF_TRAFFIC = 500
# Of one that comes to a halt for which the peer answers.
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
                                     visible=True, notice=self.notice, folder=folder)
        self.machine = None
        self.second_life = guest.SecondLife(self.stop, self.boot)
        self.kernel_complaints = []
        self.failed = []
        self.judged = {}  # name of a run of tests/judge -> (requests, halts)

    def boot(self):
        began = time.monotonic()
        self.link_mtu = self.impairment = None
        self.complaints_seen = 0
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
            excuse = self.excuse_for_failure(run, attempt)
            if not excuse or attempt == ATTEMPTS_MAX:
                return
            print(f"       it is run again: {excuse}", flush=True)
            self.failed.pop()

    def excuse_for_failure(self, run, attempt):
        """Why a failure proves nothing against uroce; nothing of a success, a wrong byte, or a stall that is ours."""
        began = time.monotonic()
        self.prepare(run)
        with frames.Frames() as seen, ExitStack() as stack:
            problem = self.meet(run, stack)
            ended = time.time()
        if self.arguments.capture:
            seen.write(self.capture_file(run, attempt))
        if run.client == cases.ALONE and run.case.not_with_kernel:
            problem = "" if problem else f"the kernel can do it now, and the table says: {run.case.not_with_kernel}"
        problem, excuse = self.judge(run, problem, seen, ended, self.capture_file(run, attempt))
        if suite.tell(run.name(), began, problem):
            self.failed.append(run.name())
        return excuse

    def judge(self, run, problem, seen, ended, file):
        """(what is wrong in the end, or nothing; why the run may be repeated)"""
        path_mtu = cases.PATH_MTU[run.link_mtu]
        found = [(halt, *stalls.whose(seen.kept, seen.lost, halt.time, path_mtu, halt.queue_pairs, halt.waits)) for halt in outcomes.halts(self.said)]
        for halt, whose, why in found:
            print(f"       {halt.what}: {whose}, {why}", flush=True)
        ours = [f"a halt of ours: {halt.what}: {why}" for halt, whose, why in found if whose == stalls.OURS]
        if requests := outcomes.judged(self.said):
            before = self.judged.get(run.name(), (0, 0))
            self.judged[run.name()] = (before[0] + requests, before[1] + len(found))
        if ours:
            seen.write(file)
            return "\n".join(filter(None, [*ours, problem, f"frames: {file}"])), ""
        fault = self.fault_of_kernel()
        if problem and fault:
            return f"{problem}\nthe guest's kernel: {fault}", fault
        if not problem or not outcomes.is_stall(problem):
            return problem, ""
        if run.case.flaky:
            return problem, run.case.flaky
        if not run.impairment or found:
            return problem, ""
        whose, why = stalls.whose(seen.kept, seen.lost, ended, path_mtu)
        seen.write(file)
        problem += f"\nit is a stall, {whose}: {why} (frames: {file})"
        return problem, f"the stall is {whose}: {why}" if whose == stalls.PEERS else ""

    def fault_of_kernel(self):
        """A known fault of rxe that its kernel has warned of since the last call, or nothing."""
        said = self.machine.complaints() if self.machine is not None else []
        new, self.complaints_seen = said[self.complaints_seen:], len(said)
        if any("rxe_mr_copy" in line for line in new):
            return "rxe answers a repeated READ behind a request of no bytes with an access error (rxe_resp.c, read_reply: no MR)"
        return ""

    def capture_file(self, run, attempt):
        folder = self.arguments.capture or Path(tempfile.gettempdir()) / "uroce-stalls"
        folder.mkdir(parents=True, exist_ok=True)
        return folder / (run.name().replace("/", "_").replace(" ", "_") + f"-{attempt}.pcap")

    def prepare(self, run):
        """Link MTU and impairment at both ends, where they differ from what they were."""
        if run.link_mtu != self.link_mtu:
            link.set_mtu(run.link_mtu)
            self.machine.do(f"ip link set eth0 mtu {run.link_mtu}")
            self.link_mtu = run.link_mtu
        if run.impairment != self.impairment:
            self.machine.impair(cases.IMPAIRMENTS.get(run.impairment))
            self.uroce.environment = {"UROCE_FAULT": cases.FAULTS[run.impairment]} if run.impairment in cases.FAULTS else {}
            self.impairment = run.impairment

    def meet(self, run, stack):
        """What went wrong, or nothing."""
        server_side, client_side = {cases.GUEST: (self.uroce, self.guest), cases.UROCE: (self.guest, self.uroce),
                                    cases.ALONE: (self.guest, self.guest)}[run.client]
        case = run.case
        frames_before = link.frames()
        seconds = LOSS_SECONDS_MAX if run.impairment in ("loss", "our-loss") else PROGRAM_SECONDS_MAX
        self.said = said = []
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
                    return self.kill(run, server, client, frames_before)
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
            keys=shlex.quote(str(self.arguments.tests / "keys")), tests=shlex.quote(str(self.arguments.tests)), seed=self.arguments.seed, requests=self.arguments.requests, judged=side.judged,
            server=server_side.addresses[run.gid],
            client=client_side.addresses[run.gid], absent=link.ABSENT[run.gid], any=cm_rows.ANY[run.gid],
            group=cm_rows.GROUP[run.gid]))


def parse_arguments():
    parser = suite.parser("Runs the cases of tests/interop/cases.py.", "runs")
    parser.add_argument("--capture", metavar="FOLDER", type=Path, help="keep a pcap of each run there")
    parser.add_argument("--kernel-alone", action="store_true",
                        help="what is connected by the connection manager, with the kernel at both ends: does the table say "
                        "what the kernel cannot do?")
    parser.add_argument("--requests", type=int, default=cases.JUDGED_REQUESTS, help="of each run of tests/judge")
    parser.add_argument("--minutes", type=float, default=0, help="run them again and again for so long, each time with the next seed")
    parser.add_argument("--seed", type=int, default=random.getrandbits(32), help="of what is random (tests/judge); printed otherwise")
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    every = cases.runs_of_the_kernel_alone() if arguments.kernel_alone else cases.runs()
    runs = [run for run in every if arguments.only in run.name() and (arguments.minutes or not run.case.long)]
    if arguments.list:
        return print("\n".join(run.name() for run in runs))
    began = time.monotonic()
    with suite.run("no interoperation with the kernel was tested", NEEDED) as folder:
        interop = Interop(arguments, folder)
        try:
            interop.run_all(runs)
            while time.monotonic() < began + 60 * arguments.minutes and not interop.failed:
                arguments.seed += 1
                interop.run_all(runs)
        finally:
            interop.stop()
    for name, (requests, halts) in interop.judged.items():
        print(f"{requests} requests right, {halts} halts of the peer's: {name}")
    suite.end(f"{len(runs)} runs in {time.monotonic() - began:.0f} s", interop.failed, interop.kernel_complaints)


main()
