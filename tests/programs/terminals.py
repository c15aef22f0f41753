"""What an ordinary user starts in two terminals, without any configuration: the programs meet at 127.0.0.1."""

import shlex
from dataclasses import dataclass, replace

import exported_disk
from ports import UROCE

LOCALHOST = "127.0.0.1"
# What `uroce nvmf` exports; nothing about devices.
EXPORTED = exported_disk.tables(LOCALHOST)
# Where a server listens when it is ready.
TCP, CM = "tcp", "cm"


@dataclass(frozen=True)
class Terminals:
    """In a command stand {port}, a free one, and {exported}, a file with EXPORTED. `server_says` and `client_says` are regular
    expressions: what tells that data were compared or, of programs that compare none, that all of them were moved."""
    server: str
    client: str
    server_says: str = "^"
    client_says: str = "^"
    ready: str = TCP
    endless: bool = False  # the server serves until SIGTERM
    sanitized: bool = True  # also where everything is slow
    name: str = ""

    def in_uroce_run(self):
        run = f"{UROCE} run --"
        return replace(self, server=f"{run} {self.server}", client=f"{run} {self.client}", name=shlex.split(self.client)[0])


def perftest(tool, **more):
    command = f"{tool} -F -x 1 -n 500 -p {{port}}"
    return Terminals(command, f"{command} {LOCALHOST}", client_says=r"(?m)^ \d+ +500 +[\d.]+ ", **more)


def fio():
    """Its server looks at checksums. It registers 64 times 64 KiB: `ulimit -l` of an ordinary user is 8 MiB."""
    job = "fio --ioengine=rdma --port={port} --bs=64k --size=4m --verify=crc32c --verify_state_save=0"
    return Terminals(f"{job} --iodepth=64 --name=server --rw=read",
                     f"{job} --iodepth=8 --name=client --hostname={LOCALHOST} --verb=send --rw=write --do_verify=0",
                     server_says="err= 0", client_says="err= 0", ready=CM)


def of_other_people():
    yield Terminals("ibv_rc_pingpong -g 1 -c -p {port}", f"ibv_rc_pingpong -g 1 -c -p {{port}} {LOCALHOST}", "1000 iters in", "1000 iters in")
    for operation in ("write", "read", "send", "atomic"):
        yield perftest(f"ib_{operation}_bw")
        yield perftest(f"ib_{operation}_lat", sanitized=False)
    yield Terminals(f"rping -s -a {LOCALHOST} -p {{port}} -C 10 -V", f"rping -c -a {LOCALHOST} -p {{port}} -C 10 -V -v",
                    client_says="ping data: rdma-ping-9: ", ready=CM)
    done = "data transfers complete"
    yield Terminals("ucmatose -p {port}", f"ucmatose -p {{port}} -s {LOCALHOST}", done, done, ready=CM)
    # The test called quit ends the server.
    yield Terminals("qperf -lp {port}", f"qperf {LOCALHOST} -lp {{port}} -t 1 -cm1 rc_lat rc_bw quit",
                    client_says=r"(?s)rc_lat:\n +latency +=.*rc_bw:\n +bw +=")
    yield fio()


def of_ours(nvmf_host):
    yield Terminals(f"{UROCE} perf --server --gid-index 1 --listen {{port}}", f"{UROCE} perf --connect {LOCALHOST}:{{port}} --gid-index 1 --size 4096 --quiet",
                    name="uroce perf")
    yield Terminals(f"{UROCE} nvmf --config {{exported}}",
                    f"{nvmf_host} {LOCALHOST} {LOCALHOST} {exported_disk.SUBSYSTEM} {exported_disk.FRIEND} namespaces write:1:7 verify:1:7",
                    client_says="namespaces 1\nnamespace 1 is right\n", ready=CM, endless=True, name="uroce nvmf")


def all_terminals(nvmf_host):
    return [*(each.in_uroce_run() for each in of_other_people()), *of_ours(nvmf_host)]
