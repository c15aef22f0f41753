"""Which end of a connection that has come to a halt is the one that had to go on, by the frames on the link.

An end that a whole request has reached owes an answer to it; an end whose requests are not answered owes them again; an end all of
whose requests are answered, and that has answered all that reached it, waits for the other. What leaves room for doubt is ours: only
a stall that is the peer's may be forgiven.
"""

from dataclasses import dataclass

from station import ETH_P_IP, ETH_P_IPV6, ROCE_PORT, is_whole

OURS, PEERS = "ours", "the peer's"
# More than any answer or repetition takes, with the peer's CPU emulated.
QUIET_SECONDS = 3
QP_NUMBERS_OF_SERVICES = 2
REQUESTS = {*range(0x00, 0x0D), 0x13, 0x14, 0x16, 0x17}
READ_REQUEST, ATOMIC_REQUESTS = 0x0C, (0x13, 0x14)
ANSWERS = {*range(0x0D, 0x13)}
ACK = 0x11
HALF = 1 << 23


@dataclass(frozen=True)
class Packet:
    time: float
    outgoing: bool  # from uroce
    opcode: int
    queue_pair: int
    psn: int
    asks: bool
    syndrome: int  # of an ACK or NAK
    psns: int = 1  # that a READ takes

    def wants_answer(self):
        return self.asks or self.opcode == READ_REQUEST or self.opcode in ATOMIC_REQUESTS

    def is_nak(self):
        return self.opcode == ACK and self.syndrome >> 5 != 0

    def answers(self, request):
        """A NAK answers whatever it is about: the requester has to go on."""
        if self.is_nak():
            return True
        ahead = (self.psn - (request.psn + request.psns - 1)) % (2 * HALF)
        return ahead < HALF


def packet_of(frame, path_mtu):
    """None of what is no RC packet, or damaged on its way to us. (Ours leave whole.)"""
    data = frame.data
    header = {ETH_P_IP: 20, ETH_P_IPV6: 40}.get(data[12:14])
    if header is None or int.from_bytes(data[16 + header:18 + header], "big") != ROCE_PORT:
        return None
    end = 14 + header + int.from_bytes(data[18 + header:20 + header], "big")
    bth = data[14 + header + 8:]
    if len(bth) < 16 or not (frame.outgoing or is_whole(data[14:end], header)):
        return None
    queue_pair = int.from_bytes(bth[5:8], "big")
    if queue_pair < QP_NUMBERS_OF_SERVICES or bth[0] not in REQUESTS | ANSWERS:
        return None
    psns = max(1, -(-int.from_bytes(bth[24:28], "big") // path_mtu)) if bth[0] == READ_REQUEST else 1
    return Packet(frame.time, frame.outgoing, bth[0], queue_pair, int.from_bytes(bth[9:12], "big"), bool(bth[8] & 0x80), bth[12],
                  psns)


def whose(frames, lost, end_time, path_mtu, queue_pairs=None, waits=None):
    """(OURS or PEERS, why). `lost`: frames that the capture misses. `end_time`: when the run was given up. Where it is known:
    `queue_pairs`, (uroce's, the peer's); else the last ones; `waits`: which end has requests that are not complete, {True (uroce),
    False (the peer)}."""
    packets = connection([packet for frame in frames if frame.time <= end_time and (packet := packet_of(frame, path_mtu))], queue_pairs)
    if lost:
        return OURS, f"the capture has lost {lost} frames, so that it proves nothing"
    if not packets:
        return OURS, "no packet of a connection was seen"
    found = [direction(packets, of_uroce, end_time) for of_uroce in (True, False)]
    for verdict in (OURS, PEERS):
        for decided, why in found:
            if decided == verdict:
                return decided, why
    return nothing_owed(packets, waits)


def connection(packets, queue_pairs):
    """What goes to these, or to the two that were last heard of."""
    wanted = {packet.outgoing: packet.queue_pair for packet in packets}
    if queue_pairs is not None:
        wanted = {False: queue_pairs[0], True: queue_pairs[1]}
    return [packet for packet in packets if wanted[packet.outgoing] == packet.queue_pair]


def direction(packets, of_uroce, end_time):
    """What is owed for the requests of one end: (verdict or None, why)."""
    requester, responder = ("uroce", "the peer") if of_uroce else ("the peer", "uroce")
    its, others = (OURS, PEERS) if of_uroce else (PEERS, OURS)
    requests = [packet for packet in packets if packet.outgoing == of_uroce and packet.opcode in REQUESTS]
    answers = [packet for packet in packets if packet.outgoing != of_uroce and packet.opcode in ANSWERS]
    asking = [packet for packet in requests if packet.wants_answer()]
    if not asking:
        return (its, f"{requester} has sent no request that asks for an answer") if requests else (None, "")
    repeats = requests[-1].time > end_time - QUIET_SECONDS
    missing = first_missing(requests)
    if not of_uroce and not repeats and (wanted := ignored_nak(requests, answers)) is not None:
        return PEERS, f"the peer does not repeat {wanted:#x}, which a NAK names"
    if not of_uroce and not repeats:
        reached = [request for request in asking if before(request.psn, missing)]
        if reached and not any(answer.answers(reached[-1]) for answer in answers if answer.time >= reached[-1].time):
            return OURS, f"the peer's request {reached[-1].psn:#x} has reached uroce and is not answered"
        if missing != after(requests):
            return PEERS, f"the peer does not repeat {missing:#x}, which has not reached uroce"
    if repeats:
        lately = [answer for answer in answers if answer.time > end_time - QUIET_SECONDS]
        if not lately:
            return others, f"{requester} repeats request {requests[-1].psn:#x}, and {responder} does not answer"
        if not of_uroce and (steps := advancing_reads(requests, end_time)):
            return PEERS, f"the peer resumes a READ once a timeout: it came from {steps[0]:#x} to {steps[-1]:#x}"
        return OURS, f"{requester} repeats request {requests[-1].psn:#x}, and {responder} answers: neither gets on"
    newest = max(asking, key=lambda packet: (packet.psn - asking[0].psn) % (2 * HALF))
    unanswered = not any(answer.answers(newest) and not answer.is_nak() for answer in answers if answer.time >= asking[0].time)
    if unanswered:
        return its, f"{requester} does not repeat request {newest.psn:#x}, which is not answered"
    return None, ""


def ignored_nak(requests, answers):
    """The PSN that the last NAK names, if it has not come again since: what follows it is not answered, for the requester has to go
    back first."""
    naks = [answer for answer in answers if answer.is_nak()]
    if not naks or any(request.time > naks[-1].time and request.psn == naks[-1].psn for request in requests):
        return None
    return naks[-1].psn


def advancing_reads(requests, end_time):
    """The PSNs from which one READ was asked for again lately, if each is behind the one before: its responses arrive, and rxe asks
    for those behind a gap when its timer expires, which is 64 times under reordering for a READ of 64 KiB. Empty of anything else."""
    psns = []
    for request in requests:
        if request.time <= end_time - QUIET_SECONDS:
            continue
        if request.opcode != READ_REQUEST or psns and not before(psns[-1], request.psn):
            return []
        psns.append(request.psn)
    return psns if len(psns) > 1 else []


def before(psn, other):
    return psn != other and (other - psn) % (2 * HALF) < HALF


def after(requests):
    """The PSN behind all of them."""
    newest = requests[0]
    for request in requests:
        if before(newest.psn, request.psn):
            newest = request
    return (newest.psn + newest.psns) % (2 * HALF)


def first_missing(requests):
    """The first PSN that has not come, of those from the first request on."""
    come = {request.psn: request.psns for request in requests}
    psn = requests[0].psn
    while psn in come:
        psn = (psn + come[psn]) % (2 * HALF)
    return psn


def nothing_owed(packets, waits):
    """All that was asked is answered, and both ends are silent."""
    if waits is not None and any(waits.values()):
        if waits[True]:
            return OURS, "all requests are answered, and uroce does not go on"
        return PEERS, "all requests are answered, and the peer does not go on"
    requesters = {packet.outgoing for packet in packets if packet.opcode in REQUESTS}
    last = [packet for packet in packets if packet.opcode in REQUESTS][-1]
    # Of two that take turns the one that was sent something; of one that sends that one.
    owes_uroce = not last.outgoing if len(requesters) == 2 else last.outgoing
    if owes_uroce:
        return OURS, "all requests are answered, and it is uroce's turn"
    return PEERS, "all requests are answered, and it is the peer's turn"
