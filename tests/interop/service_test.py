#!/usr/bin/env python3
"""Programs of one host service, and programs on the Linux kernel's rxe, which runs in a guest: many of them at once, which the
kernel takes for one station.

    tests/interop/service_test.py [--only TEXT] [--list] UROCE LIBRARY_FOLDER TESTS_FOLDER [SANITIZER_RUNTIME]
"""

import contextlib
import json
import re
import shlex
import sys
import time
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "programs"))
import cases
import cm_rows
import guest
import host_service
import image
import link
import programs
import service_cases
import sides
import station
import suite
from service_cases import HERE

FIRST_PORT = 18515
GID_INDEX = 1  # IPv4
LINK_MTU = 1500
PROGRAM_SECONDS_MAX = 240
FLAKY_SECONDS_MAX = 30
LEFT_ALONE_SECONDS = 5
DURATION_SECONDS = 12
TOO_EARLY = "an end has ended before the interruption"
FRAMES_OF_TRAFFIC = 100
ATTEMPTS_MAX = 3
NEEDED = ["ibv_rc_pingpong", "ib_write_bw", "rping", "ucmatose", "mckey", "qperf", "stdbuf", "setpriv", "ip"]

# The service's device: a port of its own, or the kernel's interface. What it sends is shown to packet sockets, but for what
# AF_XDP sends.
OWN = (f'[[device]]\nname = "uroce0"\nport = "net_af_packet0,iface={link.RDMA_TAP},qdisc_bypass=0"\nmac = "{link.HOST_MAC}"\n'
       f'addresses = ["{link.HOST_ADDRESSES["v4"]}/{link.PREFIX["v4"]}", "{link.HOST_ADDRESSES["v6"]}/{link.PREFIX["v6"]}"]\n')
BESIDE = f'[[device]]\nname = "uroce0"\ninterface = "{link.RDMA_TAP}"\nmode = "packet"\n'
BESIDE_AT_BEST = BESIDE.replace("packet", "auto")


class Pair:
    """The two programs of a meeting."""

    def __init__(self, network, meeting, port, seconds, duration):
        self.meeting = meeting
        self.seconds = seconds
        self.duration = duration
        self.server_side, self.client_side = (network.here if where == HERE else network.there
                                              for where in (meeting.server, meeting.client))
        self.port = port
        self.server = self.client = None

    def _command(self, text, side):
        return shlex.split(text.format(
            device=side.device, gid=GID_INDEX, mtu=cases.PATH_MTU[LINK_MTU], port=self.port, peer=self.server_side.tcp_address,
            server=self.server_side.addresses["v4"], client=self.client_side.addresses["v4"], any=cm_rows.ANY["v4"],
            group=cm_rows.GROUP["v4"], duration=self.duration))

    def listen(self):
        case = self.meeting.case
        self.server = self.server_side.start(self._command(case.server, self.server_side), cm_rows.CM if case.ready == cm_rows.CM else self.port)

    def connect(self):
        case = self.meeting.case
        if case.client:
            self.client = self.client_side.start(self._command(case.client, self.client_side), pauses=case.listens_late)

    def running(self):
        return self.server.running() and (self.client is None or self.client.running())

    def kill(self):
        (self.server if self.meeting.killed == self.meeting.server else self.client).close()

    def finish(self):
        """What went wrong, line by line."""
        case = self.meeting.case
        if self.meeting.killed:
            survivor = self.client if self.meeting.killed == self.meeting.server else self.server
            status, output = survivor.finish(self.seconds)
            if status == 0 or not re.search(self.meeting.told, output):
                yield f"{case.name}: the survivor ended with status {status} and said:\n{output}"
            return
        failed = False
        for who, program, says, ends in (("client", self.client, case.client_says, True), ("server", self.server, case.server_says, not case.endless)):
            if program is None or not ends:
                continue
            status, output = program.finish(LEFT_ALONE_SECONDS if failed else self.seconds)
            wrong = list(cm_rows.complaints(f"the {who}", status, output, says))
            failed |= bool(wrong)
            if wrong:
                yield f"{case.name}: {', '.join(wrong)}:\n{output}"

    def close(self):
        for program in (self.client, self.server):
            if program is not None:
                program.close()


class Network:
    """The guest, the link, and the service at this end of it."""

    def __init__(self, arguments, folder):
        self.arguments = arguments
        self.folder = folder
        self.image = image.image()
        link.enter()
        link.set_mtu(LINK_MTU)
        self.notice = arguments.tests / "programs/libcm_ready.so"
        self.stack = programs.Stack(arguments.libraries, arguments.sanitizer_runtime)
        self.machine = self.service = None
        self.packets = 0
        self.kernel_complaints = []

    def boot(self):
        began = time.monotonic()
        self.machine = guest.Guest(self.image, self.folder)
        self.machine.do(f"ip link set eth0 mtu {LINK_MTU}")
        self.there = sides.GuestSide(self.machine, self.notice)
        print(f"guest: Linux {self.image.version}, up after {time.monotonic() - began:.1f} s", flush=True)

    def stop_machine(self):
        self.kernel_complaints += self.machine.complaints()
        self.machine.stop()

    @contextlib.contextmanager
    def served(self, configuration):
        """While it runs the service is this host's station."""
        with host_service.Service(self.stack, configuration) as self.service:
            self.here = sides.ServedSide(self.stack, self.service, self.notice, self.folder)
            yield
        self.service = None

    def has_programs(self, count, pairs):
        """Whether the service has so many, now or soon."""
        deadline = time.monotonic() + programs.TIME_LIMIT_SECONDS
        while self.programs() < count:
            if time.monotonic() > deadline or not all(pair.running() for pair in pairs):
                return False
            time.sleep(0.1)
        return True

    def programs(self):
        """How many the service has."""
        return self.service.status(str(self.arguments.uroce))["programs"]

    def run(self, party, duration):
        """What went wrong, line by line. `duration`: of programs that go on for a time, in seconds."""
        with ExitStack() as stack:
            seen = stack.enter_context(station.Station(link.RDMA_TAP, link.HOST_MAC, link.HOST_ADDRESSES))
            seconds = FLAKY_SECONDS_MAX if party.flaky else PROGRAM_SECONDS_MAX
            pairs = [Pair(self, meeting, FIRST_PORT + number, seconds, duration) for number, meeting in enumerate(party.meetings)]
            for pair in pairs:
                stack.callback(pair.close)
            try:
                yield from self.meet(party, pairs, stack)
            except AssertionError as failure:
                yield str(failure)
        self.packets += seen.packets
        yield from seen.complaints
        yield from self.stations_there()

    def meet(self, party, pairs, stack):
        watch = None
        if party.restart:
            watch = self.here.start(["stdbuf", "-oL", "ibv_asyncwatch"])
            stack.callback(watch.close)
        for pair in pairs:
            pair.listen()
        # perftest listens before it opens the device.
        if not self.has_programs(party.attached, pairs):
            yield f"the service has {self.programs()} programs instead of {party.attached}"
        for pair in pairs:
            pair.connect()
        if party.restart or any(pair.meeting.killed for pair in pairs):
            yield from self.interrupt(party, pairs)
        for pair in pairs:
            yield from pair.finish()
        if watch is not None:
            watch.process.kill()
            _, said = watch.finish(LEFT_ALONE_SECONDS)
            if not re.search(r"IBV_EVENT_PORT_ERR.*IBV_EVENT_PORT_ACTIVE", said, re.S):
                yield f"ibv_asyncwatch said:\n{said}"

    def interrupt(self, party, pairs):
        """Under traffic of those that are concerned."""
        concerned = [pair for pair in pairs if pair.meeting.killed or party.restart]
        deadline = time.monotonic() + PROGRAM_SECONDS_MAX
        while not all(self.frames_of(pair) >= FRAMES_OF_TRAFFIC for pair in concerned) and time.monotonic() < deadline:
            if not all(pair.running() for pair in concerned):
                yield TOO_EARLY
                return
            time.sleep(0.1)
        for pair in concerned:
            if pair.meeting.killed:
                pair.kill()
        if not party.restart:
            return
        # No program can end well without coming back: what it has in flight is acknowledged then.
        self.service.kill()
        time.sleep(1)
        self.service.start()

    def frames_of(self, pair):
        """How many the service has passed on for the pair's end here; as many as any of two here, which need it no more."""
        if pair.meeting.server == pair.meeting.client:
            return FRAMES_OF_TRAFFIC
        end = pair.server if pair.meeting.server == HERE else pair.client
        told = self.service.status(str(self.arguments.uroce))["devices"][0]["programs"]
        return sum(one["frames_sent"] + one["frames_received"] for one in told if one["pid"] == end.process.pid)

    def stations_there(self):
        """What the guest's kernel knows of its neighbours on the link."""
        for neighbour in json.loads(self.machine.do("ip -json neigh show dev eth0")):
            ours = neighbour["dst"] in link.HOST_ADDRESSES.values() or neighbour["dst"].startswith("fe80:")
            if neighbour.get("lladdr", link.HOST_MAC) != link.HOST_MAC or not ours:
                yield f"the guest's kernel knows another station: {neighbour}"

    def counters_there(self):
        """rxe's."""
        lines = self.machine.do("cd /sys/class/infiniband/rxe0/ports/1/hw_counters; grep . *").splitlines()
        return {name: int(value) for name, _, value in (line.partition(":") for line in lines) if name != "lifespan"}


def run_party(network, party, arrangement):
    name = f"{arrangement}, {party.name}"
    for attempt in range(1, ATTEMPTS_MAX + 1):
        began = time.monotonic()
        problems = "\n".join(network.run(party, DURATION_SECONDS << (attempt - 1)))
        failed = suite.tell(name, began, problems)
        reason = "this machine needs longer to start them" if TOO_EARLY in problems else party.flaky
        if not failed or not reason or attempt == ATTEMPTS_MAX:
            return [name] if failed else []
        print(f"       it is tried again, because {reason}", flush=True)
    return []


def run_all(network, parties):
    """Names of what failed."""
    failed = []
    second_life = guest.SecondLife(network.stop_machine, network.boot)
    beside = [party for party in parties if party.beside_kernel]
    arrangements = (("a port of its own", OWN, parties), ("beside the kernel", BESIDE, beside),
                    ("beside the kernel, at best", BESIDE_AT_BEST, beside))
    for name, configuration, chosen in arrangements:
        if not chosen:
            continue
        if configuration is BESIDE:
            link.give_kernel_the_addresses()
            network.machine.do(guest.NO_DETOUR)
        with network.served(configuration):
            print(network.service.status(str(network.arguments.uroce))["devices"][0]["port"], flush=True)
            for party in chosen:
                failed += second_life.run(party.name, run_party, network, party, name)
    counters = network.counters_there()
    print("rxe: " + ", ".join(f"{name} {value}" for name, value in counters.items() if value), flush=True)
    if counters["send_err"] or network.packets == 0:
        failed.append(f"what the link saw: {network.packets} packets of ours")
    return failed


def main():
    arguments = suite.parser("Runs the parties of tests/interop/service_cases.py.", "parties").parse_args()
    parties = [party for party in service_cases.PARTIES if arguments.only in party.name]
    if arguments.list:
        return print("\n".join(party.name for party in parties))
    began = time.monotonic()
    with suite.run("no host service was tried with the kernel", NEEDED) as folder:
        network = Network(arguments, folder)
        network.boot()
        try:
            failed = run_all(network, parties)
        finally:
            network.stop_machine()
    suite.end(f"{len(parties)} parties in {time.monotonic() - began:.0f} s, {network.packets} packets of ours", failed,
              network.kernel_complaints)


main()
