"""The table of cases: programs that meet over the link, one end on uroce and the other on the kernel's rxe.

In a command stand {device}, {gid} (index), {mtu} (of the path), {port}, {peer} (the server's TCP address), {uroce} (the
program), {keys} and {tests} (the folders of what tests/keys and all tests are built to), {seed}, {requests}, {judged} (options of tests/judge for
the end), and what tests/programs/cm_rows.py has: its rows are cases, too. A case is run once
for each of its GIDs, link MTUs, impairments and directions.
"""

from dataclasses import dataclass, replace

import cm_rows
from cm_rows import CM, TCP, V4, V6

# Link MTU -> path MTU.
PATH_MTU = {1500: 1024, 4200: 4096}
# Which end is the client.
GUEST, UROCE = "guest", "uroce"
# Both ends are the guest's: what the kernel can do at all.
ALONE = "alone"

# 4.096 us * 2^16 = 0.27 s: an emulated CPU is slow to answer.
ACK_TIMEOUT = 16

# Of each run of tests/judge.
JUDGED_REQUESTS = 900

# What netem does to every frame that leaves the guest or comes to it.
IMPAIRMENTS = {
    "loss": "loss 5%",
    "reordering": "delay 1ms reorder 25%",
    "duplication": "duplicate 20%",
    "delay": "delay 4ms",
    "corruption": "corrupt 3%",
}
# What is lost or late at our end alone, on its way to uroce (lib/faults).
FAULTS = {
    "our-loss": "loss=5%",
    "our-reordering": "reorder=20%",
    "our-duplication": "duplicate=20%",
    "our-delay": "delay=2ms,jitter=1ms",
    "our-corruption": "corrupt=3%",
}


@dataclass(frozen=True)
class Case:
    name: str
    server: str
    client: str
    gids: tuple = (V4,)
    link_mtus: tuple = (1500,)
    impairments: tuple = (None,)
    clients: tuple = (GUEST, UROCE)
    # What is killed once they run: "server", "client", or "guest" with all that is in it. The survivor's status is not 0 then,
    # unless it takes it for an ordinary end.
    killed: str = ""
    ordinary_end: bool = False
    # What the survivor says, as a regular expression.
    told: str = ""
    # As in cm_rows.Row.
    server_says: str = ""
    client_says: str = ""
    ready: str = TCP
    endless: bool = False
    client_fails: bool = False
    number_of_clients: int = 1
    listens_late: bool = False
    not_with_kernel: str = ""
    flaky: str = ""
    # Only in long runs (--minutes).
    long: bool = False


@dataclass(frozen=True)
class Run:
    """One run of a case."""

    case: Case
    gid: str
    link_mtu: int
    impairment: str
    client: str

    def name(self):
        way = "kernel-alone" if self.client == ALONE else f"{self.client}-is-client"
        words = [self.case.name, self.gid, str(self.link_mtu), way, self.impairment]
        return "/".join(word for word in words if word)


def runs():
    """All runs, those of one link MTU together: it takes a moment to change."""
    every = [Run(case, gid, link_mtu, impairment, client) for case in CASES for gid in case.gids
             for link_mtu in case.link_mtus for impairment in case.impairments for client in case.clients]
    return sorted(every, key=lambda run: run.link_mtu)


def runs_of_the_kernel_alone():
    """What is connected by the connection manager, with the kernel at both ends, also what it cannot do."""
    return [Run(case, gid, 1500, None, ALONE) for case in connected(all_of_them=True) for gid in case.gids]


def pair(name, command, **options):
    """Server and client that differ by the client's being told where the server is, as is the custom."""
    return Case(name, command, command + " {peer}", **options)


def pingpong(name, options, **more):
    return pair(name, "ibv_rc_pingpong -c -d {device} -g {gid} -m {mtu} -p {port} " + options, **more)


def perftest(tool, options, **more):
    command = f"{tool} -F -d {{device}} -x {{gid}} -m {{mtu}} -u {ACK_TIMEOUT} -p {{port}} {options}"
    return pair(f"{tool} {options}", command, **more)


def unreliable_pingpong(service, **more):
    """The end that sends first must not be before the other is ready: the two tell each other when that is. Nothing is lost on
    this link."""
    options = "-m {mtu} " if service == "uc" else ""
    command = f"ibv_{service}_pingpong -d {{device}} -g {{gid}} -p {{port}} -c -s 1000 -n 50 {options}"
    return pair(f"ibv_{service}_pingpong", command, **more)


def perf(name, options, **more):
    common = "{uroce} perf --quiet --device {device} --gid-index {gid} --path-mtu {mtu}"
    return Case(name, f"{common} --server --listen {{port}}",
                f"{common} --ack-timeout {ACK_TIMEOUT} --connect {{peer}}:{{port}} {options}", **more)


def plain():
    both = {"gids": (V4, V6), "link_mtus": (1500, 4200)}
    yield pingpong("pingpong", "-n 100", **both)
    yield pingpong("pingpong with events", "-e -n 50 -s 10000")
    yield unreliable_pingpong("uc", gids=(V4, V6))
    yield unreliable_pingpong("ud", gids=(V4, V6))
    for operation in ("write", "read", "send"):
        yield perftest(f"ib_{operation}_bw", "-n 64 -s 4000")
        yield perftest(f"ib_{operation}_lat", "-n 32 -s 2")
        yield perftest(f"ib_{operation}_bw", "-n 10 -s 300000", gids=(V6,), link_mtus=(4200,))
        yield perftest(f"ib_{operation}_lat", "-n 10 -s 30000", gids=(V6,), link_mtus=(4200,))
    yield perftest("ib_atomic_bw", "-n 64 -A FETCH_AND_ADD")
    yield perf("perf, a load", "--op write,send,add --size 64,3000 --queue-pairs 4 --depth 8 --rate 40 --bidirectional --duration 0.5")
    yield perf("perf, atomics", "--op add,swap --iterations 16 --depth 8")
    every_size = "--size all --measure bandwidth --iterations 1 --depth 1"
    yield perf("perf, every size", every_size)
    yield perf("perf, every size", every_size, gids=(V6,), link_mtus=(4200,))
    yield perf("perf", "--size 1,1025,30000 --iterations 8 --depth 16", **both)


def memory():
    """Keys of every kind of region on uroce in the hands of rxe, and a window of rxe in ours: tests/keys."""
    options = "-d {device} -g {gid} -m {mtu} -p {port}"
    yield Case("keys", f"{{keys}}/keys_owner {options}", f"{{keys}}/keys_peer {options} {{peer}}", clients=(GUEST,))


def connected(all_of_them=False):
    """Connected by the connection manager."""
    for row in cm_rows.ROWS:
        yield Case("cm, " + row.name, row.server, row.client, gids=row.families if all_of_them else row.with_kernel, server_says=row.server_says,
                   client_says=row.client_says, clients=(UROCE,) if row.not_with_kernel_as_client else (GUEST, UROCE),
                   ready=row.ready, endless=row.endless, client_fails=row.client_fails, number_of_clients=row.clients, listens_late=row.listens_late,
                   not_with_kernel=row.not_with_kernel, flaky=row.flaky_with_kernel)


def judged():
    """Random lists of requests, compared with a model: tests/judge. Both ends have requests, whichever is the server, which decides.
    rxe falls silent in most long lists of its own under loss and reordering, which costs the time that the judge waits for it."""
    command = f"{{tests}}/judge/judge -d {{device}} -g {{gid}} -m {{mtu}} -p {{port}} -t {ACK_TIMEOUT} {{judged}}"
    server = f"{command} -n {{requests}} -s {{seed}} -w 4 -k 30"
    falls_silent = ("loss", "reordering", "corruption", "our-loss", "our-corruption")
    others = (None, *(name for name in (*IMPAIRMENTS, *FAULTS) if name not in falls_silent))
    yield Case("judge", server, command + " {peer}", impairments=others, clients=(GUEST,))
    yield Case("judge", f"{server} -b 6", command + " {peer}", impairments=("loss",), clients=(UROCE,))
    # With these Linux's rxe warns in rxe_mr_copy() now and then and fails a request; a packet that our fault drops is on the link.
    yield Case("judge", f"{server} -b 6", command + " {peer}", impairments=falls_silent[1:], clients=(UROCE,), long=True)


def impaired():
    # Not ibv_rc_pingpong: the end that has all answers leaves, and when the other's last ACK is lost, rxe asks for it for ever.
    every = {"impairments": ("loss", "reordering", "duplication")}
    yield perf("perf", "--size 1,1024,40000 --measure bandwidth --iterations 8 --depth 8", **every)
    yield perf("perf, atomics", "--op add,swap --measure bandwidth --iterations 32 --depth 8",
               **every)
    yield perftest("ib_read_bw", "-n 16 -s 65536", **every)
    yield perftest("ib_send_lat", "-n 32 -s 3000", **every)


def killed():
    endless = "--size 65536 --measure bandwidth --duration 600"
    # The connection of TCP between the two tells of it.
    yield perf("server killed", f"--op write {endless}", killed="server", told="closed the connection")
    yield perf("client killed", f"--op send {endless}", killed="client", told="closed the connection")
    # Nothing but RDMA tells of it.
    yield replace(perftest("ib_write_bw", "-D 60", clients=(UROCE,)), name="server killed, unnoticed by TCP",
                  killed="server", told="error")
    yield pingpong("pingpong after that", "-n 50")
    # The kernel closes the connections of a program that is killed, and takes its memory away before or after: a WRITE then
    # ends with a remote access error (10), a SEND, for which the receive request is still there, with an operation error (11).
    rping = {"server": "rping -s -a {any} -p {port} -S 60000", "client": "rping -c -a {server} -p {port} -S 60000",
             "ready": CM, "told": "DISCONNECT EVENT|cq completion failed status 1[01]", "ordinary_end": True}
    yield Case("cm, rping's server killed", **rping, clients=(UROCE,), killed="server")
    yield Case("cm, rping's client killed", **rping, clients=(GUEST,), killed="client")
    # No test does that of a guest, which is the last thing that happens: it has to be booted anew, and this MTU comes last.
    command = "ib_write_bw -R -F -p {port} -s 65536 -D 600"
    yield Case("cm, the guest is killed", command, command + " {server}", link_mtus=(4200,), clients=(UROCE,), ready=CM,
               killed="guest", told="error", listens_late=True)


CASES = [*plain(), *memory(), *connected(), *impaired(), *judged(), *killed()]
