"""The table of other people's programs that connect by the connection manager, unmodified: what is run at either end and
what it must say. rdmacm_test.py runs it between two of our processes, tests/interop with the Linux kernel at one end.

In a command stand {server} and {client} (their RDMA addresses), {absent} (an address of the link that no host has), {any}
(0.0.0.0 or ::), {port}, and {group}, a multicast address; all of one family.
"""

import re
from dataclasses import dataclass, replace

V4, V6 = "v4", "v6"
ANY = {V4: "0.0.0.0", V6: "::"}
GROUP = {V4: "239.2.3.4", V6: "ff35::2:3:4"}

# How a server tells that a client may be started: it listens by the connection manager or has joined (cm_ready.c), or it
# listens on the TCP port.
CM, TCP = "cm", "tcp"


@dataclass(frozen=True)
class Row:
    name: str
    server: str
    client: str
    families: tuple = (V4, V6)
    # Of these the ones that are run with the kernel, which takes its time. `interop_test.py --kernel-alone` runs all.
    with_kernel: tuple = ()
    # Why the kernel at both ends cannot do it.
    not_with_kernel: str = ""
    # Why it is not run with the kernel as the client.
    not_with_kernel_as_client: str = ""
    # Regular expressions, one a line; each must be found.
    server_says: str = ""
    client_says: str = ""
    ready: str = CM
    # The server serves until it is killed.
    endless: bool = False
    # Not 0: the program reports what the row is about by its status.
    client_fails: bool = False
    # One after the other: of two requests that come at once rping's server forgets one.
    clients: int = 1
    # The client may connect before the server listens, which says nothing of it; cm_ready.c has the client wait.
    listens_late: bool = False
    # Why it may fail with the kernel though both ends are right, so that it is tried up to three times, which is said.
    flaky_with_kernel: str = ""


def complaints(who, status, output, says, fails=False):
    """What is wrong with how a program ended."""
    if (status != 0) != fails:
        yield f"{who} ended with status {status}"
    for pattern in says.splitlines():
        if not re.search(pattern, output):
            yield f"{who} does not say '{pattern}'"


def both(program, options="", **more):
    """Programs that take -s of the server's address at the client, and -b of the own one at the server."""
    return {"server": f"{program} -b {{server}} {options}", "client": f"{program} -s {{server}} {options}", **more}


def says(*patterns):
    return "\n".join(patterns)


def rping(name, options, last=None, client_options="", **more):
    common = f"-p {{port}} -V {options}"
    row = Row(f"rping {name}", f"rping -s -a {{any}} {common}", f"rping -c -a {{server}} {common} {client_options}",
              server_says="server DISCONNECT EVENT", **more)
    if last is None:  # it would say too much
        return row
    return replace(row, server=row.server + " -v", client=row.client + " -v", client_says=f"(?m)^ping data: rdma-ping-{last}: ",
                   server_says=says(row.server_says, f"server ping data: rdma-ping-{last}: "))


DONE = says("data transfers complete", "return status 0")


def cmatose(name, options, ends=DONE, **more):
    return Row(f"ucmatose {name}", **both("ucmatose", f"-p {{port}} {options}"), server_says=ends, client_says=ends, **more)


# An emulated CPU may be too slow for what comes, and such a program waits for all of it.
LOSSES = "datagrams may be lost"


def datagrams(name, options, **more):
    return Row(f"udaddy {name}", **both("udaddy", options), server_says=DONE, client_says=DONE, flaky_with_kernel=LOSSES,
               **more)


def cmtime(count, **more):
    steps = ("create id", "resolve addr", "resolve route", "create qp", "connect", "disconnect", "destroy")
    return Row(f"cmtime, {count} connections", **both("cmtime", f"-p {{port}} -c {count}"), endless=True,
               client_says=says(*(rf"(?m)^{step} *: +[\d.]+ +[\d.]+ +[\d.]+ +[\d.]+$" for step in steps)), **more)


def multicast(name, options, sender_options="", **more):
    done = says("joined dgid: ", DONE)
    more |= {"flaky_with_kernel": LOSSES,
             "not_with_kernel_as_client": "it leaves when it has posted what it sends, and rxe does not send all of that any more"}
    return Row(f"mckey {name}", f"mckey -m {{group}} -b {{server}} {options}",
               f"mckey -m {{group}} -b {{client}} -s {options} {sender_options}", server_says=done, client_says=done, **more)


def perftest(tool, options, **more):
    """IPv4 only: this perftest cannot say an IPv6 address to the connection manager."""
    command = f"{tool} -R -F -p {{port}} {options}"
    count = options.split("-n ")[1].split()[0]
    return Row(f"{tool} -R {options}", command, command + " {server}", families=(V4,), listens_late=True,
               flaky_with_kernel="its second connection may come before the server listens again",
               client_says=rf"(?m)^ \d+ +{count} +[\d.]+ ", **more)


def granted_less(options):
    """The server answers one READ at a time, and the client asks for sixteen."""
    row = perftest("ib_read_bw", options)
    return replace(row, name="ib_read_bw -R, the server answers less than the client asks for",
                   server=row.server + " -o 1", client=row.client.replace(" {server}", " -o 16 {server}"))


def qperf(tests, **more):
    """Only those of RC: with UD and without -cm1 it makes addresses that RoCE does not have, and -n hangs, all with the
    kernel as well. Its server tells its port, and then listens at it (mended after 0.4.11)."""
    return Row(f"qperf {tests}", "qperf -lp {port}", f"qperf {{server}} -lp {{port}} -t 1 -cm1 {tests}", families=(V4,),
               listens_late=True, flaky_with_kernel="it may connect before the server listens",
               ready=TCP, endless=True, client_says=says(*(rf"(?m)^{test}:\n +\w+ +=" for test in tests.split())), **more)


def traffic():
    yield rping("of 100 bytes", "-C 10 -S 100", 9, with_kernel=(V4, V6))
    yield rping("of 60000 bytes", "-C 20 -S 60000", with_kernel=(V6,))
    yield rping("on queue pairs of its own", "-C 10 -q", 9, with_kernel=(V4, V6))
    yield rping("from an address", "-C 10", 9, client_options="-I {client}", with_kernel=(V4,))
    yield Row("rping, several clients", "rping -s -P -a {any} -p {port}", "rping -c -a {server} -p {port} -v -V -C 50",
              endless=True, clients=4, client_says="(?m)^ping data: rdma-ping-49: ", with_kernel=(V4,))
    yield cmatose("of ten messages", "", with_kernel=(V4, V6))
    yield cmatose("of 20 connections", "-c 20 -C 30 -S 2000", with_kernel=(V6,))
    yield cmatose("without messages", "-c 10 -C 0", "return status 0")
    yield cmatose("with migration", "-m -c 5", with_kernel=(V4,))
    yield cmatose("with options", "-a 17 -t 32", with_kernel=(V6,))
    yield Row("ucmatose from an address", "ucmatose -b {any} -p {port}", "ucmatose -b {client} -s {server} -p {port}",
              server_says=DONE, client_says=DONE, with_kernel=(V4,))
    yield datagrams("of ten messages", "", with_kernel=(V4,))
    yield datagrams("of 5 queue pairs", "-c 5 -C 20 -S 1000 -t 32", with_kernel=(V6,))
    yield cmtime(20, with_kernel=(V6,))
    yield cmtime(200, with_kernel=(V4,))
    yield Row("rdma_server", "rdma_server -s {any} -p {port}", "rdma_client -s {server} -p {port}",
              server_says="rdma_server: end 0", client_says="rdma_client: end 0", with_kernel=(V4, V6))
    for kind, more in (("r", {"with_kernel": (V4,)}), ("x", {"not_with_kernel": "rxe has no XRC"})):
        yield Row(f"rdma_xserver -c {kind}", f"rdma_xserver -p {{port}} -c {kind}",
                  f"rdma_xclient -s {{server}} -p {{port}} -c {kind}", families=(V4,),
                  server_says="rdma_xserver: end 0", client_says="rdma_xclient: end 0", **more)
    yield multicast("to one", "", families=(V4,), with_kernel=(V4,))
    yield multicast("to three", "-c 3 -C 5 -S 500", families=(V4,))
    yield multicast("from no member", "", "-o", families=(V4,))
    yield multicast("over IPv6", "", families=(V6,), not_with_kernel="with RoCE rdma_cm joins groups of IPv4 only (ENOTSUPP)")
    yield perftest("ib_send_bw", "-s 4096 -n 200", with_kernel=(V4,))
    yield perftest("ib_write_lat", "-s 64 -n 200")
    yield perftest("ib_read_bw", "-s 65536 -n 100", with_kernel=(V4,))
    yield granted_less("-s 65536 -n 100")
    yield qperf("rc_lat rc_bw", with_kernel=(V4,))
    yield qperf("rc_rdma_read_lat rc_rdma_write_bw")


def refusals():
    # A program is there, and listens on another port.
    other = {"server": "ucmatose -b {any} -p 7000", "endless": True}
    yield Row("rping, no program listens", **other, client="rping -c -a {server} -p {port} -C 1", client_fails=True,
              client_says="RDMA_CM_EVENT_REJECTED, error 8", with_kernel=(V4,))
    yield Row("ucmatose, no program listens", **other, client="ucmatose -s {server} -p {port} -c 5", client_fails=True,
              client_says=says("RDMA_CM_EVENT_REJECTED, error: 8", "return status 8"), with_kernel=(V6,))
    yield Row("udaddy, no program listens", **other, client="udaddy -s {server}", client_fails=True,
              client_says="event: RDMA_CM_EVENT_UNREACHABLE, error: 1", with_kernel=(V4,))
    yield Row("cmtime, no program listens", **other, client="cmtime -s {server} -p {port} -c 3",
              client_says="RDMA_CM_EVENT_REJECTED, error: 8")
    yield Row("rdma_client, no program listens", **other, client="rdma_client -s {server} -p {port}", client_fails=True,
              client_says=says("rdma_connect: Connection refused", "rdma_client: end -1"), with_kernel=(V4,))
    yield Row("ucmatose, no such host", **other, client="ucmatose -s {absent} -p {port}", client_fails=True,
              client_says="event: RDMA_CM_EVENT_ADDR_ERROR, error: -110")
    yield Row("ucmatose, no such network", **other, client="ucmatose -s 203.0.113.1 -p {port}", families=(V4,),
              client_fails=True, client_says="Network is unreachable")
    yield Row("ucmatose, no such address here", **other, client="ucmatose -b {absent} -s {server} -p {port}",
              client_fails=True, client_says="Cannot assign requested address")


ROWS = [*traffic(), *refusals()]
