"""The table of meetings: a program of one host service, and one on the kernel's rxe in the guest or another one of the same
service. Those of a party run at once. Commands are as in cases.py, where the words in braces are explained; each meeting has a
port of its own.
"""

from dataclasses import dataclass, field

import cases
import cm_rows

# Where a program runs: on the service's device, or on the guest's.
HERE, THERE = "here", "there"
ROWS = {row.name: row for row in cm_rows.ROWS}


@dataclass(frozen=True)
class Meeting:
    """A server and its client."""

    case: object  # cases.Case or cm_rows.Row
    server: str
    client: str
    # The one that is killed once frames flow; what the other one says then, as a regular expression.
    killed: str = ""
    told: str = ""


@dataclass(frozen=True)
class Party:
    """Meetings at once."""

    name: str
    meetings: tuple = field(default_factory=tuple)
    # The service is killed while they run, and started again.
    restart: bool = False
    # Datagrams may be lost where an emulated CPU is too slow for them: it is tried up to three times, which is said.
    flaky: str = ""
    # Also where the service stands beside the kernel on its interface.
    beside_kernel: bool = False
    # How many programs the service has at least before the first client comes.
    attached: int = 0


def of(server, client, all_of_them):
    return tuple(Meeting(case, server, client) for case in all_of_them)


def pingpong(options):
    return cases.pingpong(f"pingpong {options}", options)


EIGHT = (pingpong("-n 100 -s 4096"), pingpong("-e -n 50 -s 10000"), cases.perftest("ib_write_bw", "-n 64 -s 4000"),
         cases.perftest("ib_send_bw", "-n 64 -s 4000"), cases.perftest("ib_read_bw", "-n 16 -s 65536"), ROWS["rping of 100 bytes"],
         ROWS["rping from an address"], ROWS["ucmatose of ten messages"])
OF_THIS_HOST = of(HERE, HERE, (pingpong("-n 1000 -s 4096"), ROWS["rping of 60000 bytes"]))

# What is sent must be far more than what is waited for: mckey leaves when it has posted all, and rxe does not send what is left.
GROUP = "-m {group} -C 5"
JOINED = cm_rows.says("joined dgid: ", "data transfers complete", "return status 0")
MEMBER = f"mckey {GROUP} -b {{server}}"


def members(server, client, count, sent):
    """Programs that join a group, of which the last one's client sends to all."""
    member = cm_rows.Row("mckey, a member", MEMBER, "", server_says=JOINED)
    sender = cm_rows.Row("mckey, the last member and the sender", MEMBER, f"mckey -m {{group}} -C {sent} -b {{client}} -s",
                         server_says=JOINED, client_says=JOINED)
    return (*of(server, client, [member] * (count - 1)), *of(server, client, [sender]))


# As long as is needed to be killed. With 7 retries, which other programs ask for, rxe tries for ever (rxe_completer).
ENDLESS = "ib_write_bw -R -F -p {port} -s 16384 -D 60 --retry_count 3"
LASTING = cases.Case("ib_write_bw with a few retries", ENDLESS, ENDLESS + " {server}", ready=cm_rows.CM, listens_late=True)
# 4.096 us * 2^18 = 1 s, seven times: longer than the service is away.
PATIENT = [cases.pair(f"{tool}, patient", f"{tool} -F -d {{device}} -x {{gid}} -m {{mtu}} -u 18 -p {{port}} -s 16384 -D {{duration}}")
           for tool in ("ib_write_bw", "ib_read_bw", "ib_send_bw")]

PARTIES = (
    Party("eight servers here", of(HERE, THERE, EIGHT) + OF_THIS_HOST, attached=10, beside_kernel=True),
    Party("eight clients here", of(THERE, HERE, EIGHT) + OF_THIS_HOST),
    Party("datagrams and qperf", of(HERE, THERE, [cases.unreliable_pingpong("ud"), ROWS["qperf rc_lat rc_bw"]]) +
          of(THERE, HERE, [ROWS["udaddy of ten messages"]]), flaky=cm_rows.LOSSES + ", or qperf connects before its server listens"),
    Party("the kernel sends to a group of three here", members(HERE, THERE, 3, 2000), flaky=cm_rows.LOSSES),
    Party("one here sends to a group of two there", members(THERE, HERE, 2, 20), flaky=cm_rows.LOSSES),
    Party("one is killed", (Meeting(LASTING, HERE, THERE, killed=HERE, told="status 12|syndrom"), *of(HERE, THERE, EIGHT[:5]),
                            *of(THERE, HERE, EIGHT[5:7]), *OF_THIS_HOST)),
    Party("the service is started again", of(HERE, THERE, PATIENT[:2]) + of(THERE, HERE, PATIENT[1:]) + of(HERE, HERE, PATIENT[:1]),
          restart=True),
)
