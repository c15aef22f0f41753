"""Other people's programs that use RDMA for their own ends, unmodified and without a knob of theirs: what is started at each
of two hosts, and what has to come of it. Between the hosts is a link beside whose kernels we stand ("interface"), or memif
on one machine.

Decision: libfabric's rxm runs once, on a machine that is not busy. When a connection ends, libfabric 1.17 may post a completed receive
again to the closed endpoint, whatever the provider does. Cost: rxm is not repeated beside busy CPUs."""

import re
from dataclasses import dataclass

# Of the kernels, and so ours, on the link.
SERVER, CLIENT = "192.0.2.1", "192.0.2.2"
PORT = 13337

COMPLAINT = re.compile(r"\berror|fail|mismatch|corrupt|assert|segmentation|abort", re.I)


@dataclass(frozen=True)
class Row:
    """`server` and `client` are command lines. The server is ready when it listens on a TCP port (a number), on an rdma_cm id
    ("cm"), or has said something (a regular expression)."""
    name: str
    server: str
    client: str
    ready: object = PORT
    says: str = ""  # a regular expression that the client's output matches
    server_says: str = ""
    leaves: bool = False  # by _exit, without a word from us
    sanitized: bool = False  # also where everything is slow
    package: str = ""
    not_when_busy: str = ""  # what is wrong with the program where CPUs are busy
    needs_interface: str = ""  # why it finds no device that is at no interface of the kernel's

    def complaints(self, who, status, output):
        if status != 0:
            yield f"{who} ended with status {status}"
        expected = self.says if who == "client" else self.server_says
        if not re.search(expected, output):
            yield f"{who} did not say {expected!r}"
        for line in output.splitlines():
            if not line.startswith("uroce:") and COMPLAINT.search(line) and not re.search(r"err(or)?s?\s*=\s*0\b|errors: *0", line):
                yield f"{who}: {line}"


def ucx(test, size, count, sanitized=False):
    return Row(f"UCX {test} of {size} bytes", f"ucx_perftest -p {PORT}", f"ucx_perftest {SERVER} -p {PORT} -t {test} -s {size} -n {count} -w 10",
               says=r"Final: +\d+", package="ucx-utils", sanitized=sanitized)


def libfabric(kind, provider, not_when_busy=""):
    # -c: every byte is compared.
    command = f"fi_pingpong -p '{provider}' -e {kind} -c"
    return Row(f"libfabric {kind} by {provider}", f"{command} -B {PORT}", f"{command} -P {PORT} {SERVER}",
               says=r"\n(64k|1k|2k|4k) ", package="libfabric-bin", not_when_busy=not_when_busy)


def fio(verb, verified, sanitized=False):
    # What is written by SEND comes with checksums, which the server looks at. It posts receives for all of them before it
    # accepts: fio connects without RNR retries, and a client that overtakes the server stops at the first RNR NAK, and both wait.
    job = f"fio --ioengine=rdma --port={PORT} --bs=64k --size=8m {'--verify=crc32c --verify_state_save=0' if verified else ''}"
    client = f"--iodepth=8 --verb={verb} --rw=write {'--do_verify=0' if verified else ''}"
    return Row(f"fio {verb}", f"{job} --iodepth=128 --name=server --rw=read", f"{job} --name=client --hostname={SERVER} {client}", ready="cm",
               says=r"err= 0", server_says=r"err= 0", leaves=True, package="fio", sanitized=sanitized)


def udapl(options, sanitized=False):
    return Row(f"uDAPL dtest {options}", f"dtest -P uroce -s {options}", f"dtest -P uroce -h {SERVER} {options}", ready=15828, says="PASSED",
               server_says="PASSED", package="dapl2-utils", sanitized=sanitized,
               needs_interface="dat.conf names an interface whose address has a device")


BETWEEN_HOSTS = [
    ucx("tag_lat", 8, 1000, sanitized=True),
    ucx("tag_bw", 1 << 20, 100),
    ucx("ucp_put_bw", 65536, 500),
    ucx("ucp_get", 4096, 500),
    ucx("ucp_fadd", 8, 500),
    ucx("stream_bw", 16384, 500),
    libfabric("dgram", "verbs"),
    libfabric("msg", "verbs"),
    libfabric("rdm", "verbs;ofi_rxm", not_when_busy="libfabric 1.17 closes a connection, then takes a message that came on it out of the queue and posts its "
              "buffer to what is closed (SIGSEGV in 3 of 50)"),
    fio("send", verified=True, sanitized=True),
    fio("write", verified=False),
    fio("read", verified=False),
    udapl("-b 64 -B 4", sanitized=True),
    udapl("-W -D -b 4096"),  # -D: the data are looked at
]
