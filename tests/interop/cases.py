"""The table of cases: programs that meet over the link, one end on uroce and the other on the kernel's rxe.

In a command stand {device}, {gid} (index), {mtu} (of the path), {port} (TCP), {peer} (the server's TCP address) and
{uroce} (the program). A case is run once for each of its GIDs, link MTUs, impairments and directions.
"""

from dataclasses import dataclass, replace

V4, V6 = "v4", "v6"
# Link MTU -> path MTU.
PATH_MTU = {1500: 1024, 4200: 4096}
# Who is the client.
GUEST, UROCE = "guest", "uroce"

# What netem does to every frame that leaves the guest or comes to it.
IMPAIRMENTS = {
    "loss": "loss 5%",
    "reordering": "delay 2ms reorder 50%",
    "duplication": "duplicate 20%",
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
    # Which end is killed once they run: "server" or "client". The other's status is not 0 then.
    killed: str = ""
    # A word that the survivor says.
    told: str = ""


@dataclass(frozen=True)
class Run:
    """One run of a case."""

    case: Case
    gid: str
    link_mtu: int
    impairment: str
    client: str

    def name(self):
        words = [self.case.name, self.gid, str(self.link_mtu), f"{self.client}-is-client", self.impairment]
        return "/".join(word for word in words if word)


def runs():
    """All runs, those of one link MTU together: it takes a moment to change."""
    every = [Run(case, gid, link_mtu, impairment, client) for case in CASES for gid in case.gids
             for link_mtu in case.link_mtus for impairment in case.impairments for client in case.clients]
    return sorted(every, key=lambda run: run.link_mtu)


def pair(name, command, **options):
    """Server and client that differ by the client's being told where the server is, as is the custom."""
    return Case(name, command, command + " {peer}", **options)


def pingpong(name, options, **more):
    return pair(name, "ibv_rc_pingpong -c -d {device} -g {gid} -m {mtu} -p {port} " + options, **more)


def perftest(tool, options, **more):
    return pair(f"{tool} {options}", f"{tool} -F -d {{device}} -x {{gid}} -m {{mtu}} -p {{port}} {options}", **more)


def perf(name, options, **more):
    common = "{uroce} perf --quiet --device {device} --gid-index {gid} --path-mtu {mtu}"
    return Case(name, f"{common} --server --listen {{port}}", f"{common} --connect {{peer}}:{{port}} {options}", **more)


def plain():
    both = {"gids": (V4, V6), "link_mtus": (1500, 4200)}
    yield pingpong("pingpong", "-n 200", **both)
    yield pingpong("pingpong with events", "-e -n 100 -s 10000")
    for operation in ("write", "read", "send"):
        for size in (2, 65536):
            yield perftest(f"ib_{operation}_bw", f"-n 64 -s {size}")
            yield perftest(f"ib_{operation}_lat", f"-n 64 -s {size}")
        yield perftest(f"ib_{operation}_bw", "-n 20 -s 1000000", gids=(V6,), link_mtus=(4200,))
    yield perf("perf, every size", "--size all --measure bandwidth --iterations 2 --depth 2", **both)
    yield perf("perf, round trips", "--size 1,1024,4097,20000 --measure latency --iterations 16", **both)


def impaired():
    every = {"impairments": tuple(IMPAIRMENTS)}
    yield pingpong("pingpong", "-n 100 -s 5000", **every)
    yield perf("perf", "--size 1,1024,50000,1M --measure bandwidth --iterations 8 --depth 8", **every)
    yield perf("perf, round trips", "--size 100,5000 --measure latency --iterations 10", **every)
    yield perftest("ib_read_bw", "-n 32 -s 65536", **every)


def killed():
    endless = "--size 65536 --measure bandwidth --duration 600"
    # The connection of TCP between the two tells of it.
    yield perf("server killed", f"--op write {endless}", killed="server", told="closed the connection")
    yield perf("client killed", f"--op send {endless}", killed="client", told="closed the connection")
    # Nothing but RDMA tells of it.
    yield replace(perftest("ib_write_bw", "-D 60", clients=(UROCE,)), name="server killed, unnoticed by TCP",
                  killed="server", told="error")
    yield pingpong("pingpong after that", "-n 50")


CASES = [*plain(), *impaired(), *killed()]
