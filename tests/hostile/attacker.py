"""An attacker on the victim's link, which has nothing but raw frames: addresses of its own, for which it answers ARP, and others
that no host has; the connection manager's messages; reliable connections that are as rude as they like."""

import itertools
import select
import time

import wire

MAC = bytes.fromhex("02000000bad0")
# How long a victim may take for one step of a connection, on a busy machine and under sanitizers.
STEP_SECONDS = 20


class Gone(Exception):
    """The victim refused, or does not answer."""


class Connection:
    """A reliable connection of which the attacker holds one end. Its peer's requests are answered by `policy`: "acknowledge",
    "not_ready" (as one that has no receive, for ever, for a SEND; the rest is acknowledged) or "silence"."""

    def __init__(self, attacker, own_address, qp, policy):
        self.attacker = attacker
        self.own_address = own_address
        self.qp = qp
        self.policy = policy
        self.communication_id = 0x66000000 | qp
        self.peer = None  # wire.Reply
        self.rejected = None
        self.disconnected = False
        self.psn = 0              # of the next packet; the peer says where it begins
        self.acknowledged = None  # the newest PSN of ours
        self.unanswered = {}      # our requests, by PSN
        self.refused = 0          # how many got a NAK
        self.expected = 0         # the PSN that our REQ asked for
        self.msn = 0
        self.sends = self.writes = 0  # of the peer

    def send(self, opcode, extension=b"", payload=b"", ack_request=True):
        self.unanswered[self.psn] = wire.request(opcode, self.peer.qp, self.psn, extension, payload, ack_request)
        self.attacker.transmit(self.own_address, self.unanswered[self.psn])
        self.psn = self.psn + 1 & wire.PSN_MASK

    def send_again(self):
        """What was lost on the way."""
        for transport in self.unanswered.values():
            self.attacker.transmit(self.own_address, transport)

    def answer(self, packet):
        if packet.opcode == wire.ACKNOWLEDGE:
            if packet.body[0] < 0x20:
                self.acknowledged = packet.psn
                for psn in [psn for psn in self.unanswered if packet.psn - psn & wire.PSN_MASK < 1 << 23]:
                    del self.unanswered[psn]
            elif packet.body[0] >= 0x60:
                self.refused += 1
            return
        if self.policy == "silence" or packet.psn != self.expected:
            return
        if packet.opcode in (wire.SEND_ONLY, wire.SEND_FIRST, wire.SEND_ONLY_INVALIDATE):
            self.sends += 1
            if self.policy == "not_ready":
                return self._acknowledge(packet.psn, wire.rnr_nak(1))
        self.expected = packet.psn + 1 & wire.PSN_MASK
        if packet.opcode in (wire.SEND_ONLY, wire.SEND_LAST, wire.WRITE_ONLY, wire.WRITE_LAST, wire.SEND_ONLY_INVALIDATE):
            self.msn += 1
        self.writes += packet.opcode in (wire.WRITE_ONLY, wire.WRITE_LAST)
        if packet.ack_request:
            self._acknowledge(packet.psn, wire.ACK_NO_CREDITS)

    def _acknowledge(self, psn, syndrome):
        self.attacker.transmit(self.own_address, wire.acknowledge(self.peer.qp, psn, syndrome, self.msn))


class Attacker:
    def __init__(self, sock, victim, addresses):
        """`addresses`: those for which it answers ARP; the first is its own. The victim is learned."""
        self.sock = sock
        self.addresses = set(addresses)
        self.own = addresses[0]
        self.victim = (None, victim)
        self.connections = {}  # by queue pair
        self.by_communication_id = {}
        self.replies = {}      # how many REPs came for a communication id
        self.numbers = itertools.count(0x100)
        self.transactions = itertools.count(1)
        self._learn()

    # Frames

    def transmit(self, source, transport, source_mac=MAC):
        self.send(wire.frame((source_mac, source), self.victim, transport))

    def send(self, frame):
        while True:
            try:
                return self.sock.send(frame)
            except (BlockingIOError, OSError) as error:
                if not isinstance(error, BlockingIOError) and error.errno != 105:  # ENOBUFS
                    raise
                select.select([], [self.sock], [], 0.01)

    def pump(self, seconds=0.0):
        """Answers what comes, for so long."""
        deadline = time.monotonic() + seconds
        while True:
            try:
                while True:
                    data, address = self.sock.recvfrom(8192)
                    if address[2] != 4:  # PACKET_OUTGOING
                        self._receive(data)
            except BlockingIOError:
                pass
            left = deadline - time.monotonic()
            if left <= 0:
                return
            select.select([self.sock], [], [], min(left, 0.05))

    def settle(self, connections, seconds=3):
        """What the victim does not answer is sent again, until all is answered or for so long."""
        deadline = time.monotonic() + seconds
        while any(connection.unanswered for connection in connections) and time.monotonic() < deadline:
            self.pump(0.1)
            for connection in connections:
                connection.send_again()

    def pump_until(self, condition, seconds=STEP_SECONDS):
        """Whether it came true in time."""
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                return False
            self.pump(0.01)
        return True

    def _receive(self, data):
        if asked := wire.asked_for(data):
            resolver, address = asked
            if address in self.addresses:
                self.send(wire.arp(2, (MAC, address), resolver))
            return
        if len(data) >= 42 and data[12:14] == b"\x08\x06" and data[28:32] == bytes(map(int, self.victim[1].split("."))):
            self.victim = (data[22:28], self.victim[1])
            return
        packet = wire.parse(data)
        if packet is None or packet.source != self.victim[1]:
            return
        if packet.destination_qp == wire.GSI_QP:
            return self._receive_management(packet)
        if packet.destination_qp in self.connections:
            self.connections[packet.destination_qp].answer(packet)

    def _learn(self):
        def asks():
            self.send(wire.arp(1, (MAC, self.own), (wire.BROADCAST, self.victim[1])))
            self.pump(0.1)
            return self.victim[0] is not None
        if not self.pump_until(asks):
            raise Gone("no host has the victim's address")

    # The connection manager

    def say(self, attribute, message, source=None, transaction=None):
        number = next(self.transactions) if transaction is None else transaction
        self.transmit(source or self.own, wire.management(attribute, message, number))

    def request(self, port, source=None, **fields):
        """Sends a REQ, and waits for nothing. Its communication id."""
        source = source or self.own
        qp = next(self.numbers)
        fields = {"communication_id": 0x66000000 | qp, "qp": qp} | fields
        self.say(wire.REQ, wire.connection_request(source, self.victim[1], port=port, **fields), source)
        return fields["communication_id"]

    def connect(self, port, private=b"", policy="acknowledge", **fields):
        """A connection that is established. Raises Gone."""
        qp = next(self.numbers)
        made = Connection(self, self.own, qp, policy)
        self.connections[qp] = self.by_communication_id[made.communication_id] = made

        def answered():
            return made.peer is not None or made.rejected is not None
        for _ in range(4):
            self.say(wire.REQ, wire.connection_request(self.own, self.victim[1], communication_id=made.communication_id, qp=qp,
                                                       port=port, private=private, **fields), transaction=qp)
            if self.pump_until(answered, STEP_SECONDS / 4):
                break
        if made.peer is None:
            raise Gone(f"no connection: rejected with reason {made.rejected}" if answered() else "no answer to a REQ")
        made.psn = made.peer.psn
        return made

    def _receive_management(self, packet):
        datagram = wire.parse_management(packet)
        if datagram is None:
            return
        attribute, transaction, message = datagram
        if attribute == wire.REP:
            reply = wire.parse_reply(message)
            self.replies[reply.peer_communication_id] = self.replies.get(reply.peer_communication_id, 0) + 1
            if connection := self.by_communication_id.get(reply.peer_communication_id):
                connection.peer = reply
                self.say(wire.RTU, wire.ready_to_use(connection.communication_id, reply.communication_id), transaction=transaction)
        elif attribute == wire.REJ:
            _, peers = int.from_bytes(message[:4], "big"), int.from_bytes(message[4:8], "big")
            if connection := self.by_communication_id.get(peers):
                connection.rejected = int.from_bytes(message[10:12], "big")
        elif attribute == wire.DREQ:
            own, peers = int.from_bytes(message[:4], "big"), int.from_bytes(message[4:8], "big")
            if connection := self.by_communication_id.get(peers):
                connection.disconnected = True
                if connection.policy != "silence":
                    self.say(wire.DREP, wire.ready_to_use(peers, own), transaction=transaction)
