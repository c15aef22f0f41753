"""What the ends of a run say of how it went: wrong data, or a halt."""

import re
from dataclasses import dataclass

# Of tests/judge, `uroce perf`, and programs of others that look at what arrives. Never forgiven.
WRONG = re.compile(r"^WRONG|WRONG,|is not what was sent|was written (though|behind)|data mismatch|invalid data|status 139|status -\d", re.MULTILINE | re.IGNORECASE)
STALL = re.compile(r"hangs|nothing came (from the peer )?for|retry (counter )?exceeded|transport retry|status 12\b|no progress", re.MULTILINE | re.IGNORECASE)
# tests/judge: what it survives by a new connection.
HALT = re.compile(r"^halt at ([\d.]+), queue pair (\d+), peer's (\d+), (.*)$", re.MULTILINE)
# tests/judge: requests of one end that are not complete.
UNFINISHED = re.compile(r"^requester: \d+ requests posted", re.MULTILINE)


def is_stall(problem):
    """Whether all that was wrong is that nothing came any more."""
    return not WRONG.search(problem) and bool(STALL.search(problem))


@dataclass(frozen=True)
class Halt:
    time: float
    queue_pairs: tuple  # (uroce's, the peer's)
    what: str
    waits: dict  # {True (uroce), False (the peer)}: whether requests of its are not complete


def halts(said):
    """Of a run of tests/judge, by what its ends say ("client on uroce: ...", "server on guest: ...")."""
    ours, peers = (parts(text) for text in (by_side(said, "uroce"), by_side(said, "guest")))
    return [Halt(float(time), (int(own), int(peer)), what, {True: bool(UNFINISHED.search(text)), False: bool(UNFINISHED.search(other))})
            for ((time, own, peer, what), text), (_, other) in zip(ours, peers)]


def judged(said):
    """How many requests of tests/judge were right at both ends; 0 where it does not say so."""
    found = [re.search(r"^right: (\d+) requests", text, re.MULTILINE) for text in said]
    return int(found[0][1]) if found and all(found) else 0


def by_side(said, name):
    return "\n".join(text for text in said if f" on {name}: " in text)


def parts(text):
    """[(what a halt's line has, the text up to the next one)]"""
    found = list(HALT.finditer(text))
    ends = [match.start() for match in found[1:]] + [len(text)]
    return [(match.groups(), text[match.end():end]) for match, end in zip(found, ends)]
