#!/usr/bin/env python3
"""A stranger on the wire against `uroce nvmf`, without logging in: whatever it sends, the target lives, serves its hosts, and its
memory stays bounded.

    tests/hostile/target_test.py LIBRARY_FOLDER SANITIZER_RUNTIME UROCE HOST LISTENER FRAME_VICTIM [SCENARIO ...]

Victim, friend and attacker are in network namespaces of their own on one switch (network.py; root only, else skipped and
said so). The attacker's frames are written from the specifications (wire.py, nvme.py), not by the stack.
"""

import sys
import time

import attacks
import nvme
import scenario
import victims
import wire
from attacker import MAC
from network import ADDRESSES
from scenario import times
from victims import NVME_PORT


class Strangers(scenario.Scenario):
    def test_requests_that_are_taken_back(self):
        self.suffer(attacks.requests_taken_back, times(1_000, 8_000))

    def test_requests_from_addresses_that_no_host_has(self):
        self.suffer(attacks.requests_from_absent_hosts)

    def test_handshakes_that_are_never_finished(self):
        self.suffer(attacks.unfinished_handshakes)

    def test_requests_for_nothing_from_everywhere(self):
        self.suffer(attacks.requests_from_everywhere)

    def test_queue_pair_numbers_that_cannot_be_guessed(self):
        """A peer that has seen the numbers of its own connections does not know the next one."""
        numbers = [self.attacker.connect(NVME_PORT, nvme.private_data()).peer.qp for _ in range(8)]
        steps = {(after - before) % (1 << 24) for before, after in zip(numbers, numbers[1:])}
        self.say(f"numbers {numbers}")
        self.assertGreater(len(steps), 3, numbers)
        self.expect_untouched()

    def test_one_request_brings_few_answers(self):
        """An attacker that sends a REQ in another host's name makes the target send to that one: not much, and not fast."""
        own = self.attacker.request(NVME_PORT, private=nvme.private_data(), response_timeout=0, cm_retries=15)
        self.attacker.pump_until(lambda: self.attacker.replies.get(own, 0) > 8, seconds=10)
        answers = self.attacker.replies.get(own, 0)
        self.say(f"{answers} answers")
        self.assertGreater(answers, 0)
        self.assertLessEqual(answers, 8)
        self.expect_untouched()

    def test_requests_in_the_name_of_a_host_that_is_connected(self):
        """They name its queue pairs and adapter, as a host does that has started anew, and come from somewhere else."""
        with self.net.packet_socket("victim") as sniffer:
            friend = victims.start_friend(self.stack, self.net, sys.argv[4], "write:1:7", f"time:1:{times(20_000, 500_000)}", "verify:1:7")
            self.addCleanup(friend.end)
            requests = {}
            deadline = time.monotonic() + scenario.SERVED_SECONDS
            while friend.lives() and time.monotonic() < deadline:
                self.attacker.pump(0.01)
                requests |= requests_seen(sniffer)
                for qp, guid in requests.items():
                    self.attacker.request(NVME_PORT, source=ADDRESSES["friend"], qp=qp, guid=guid, private=nvme.private_data())
            status, said = friend.end()
        self.assertEqual(len(requests), 2, "the host's queue pairs were not seen")
        self.assertEqual(status, 0, said)
        self.expect_untouched()


def requests_seen(sniffer):
    """Queue pair -> GUID, of the REQs of the friend that have come."""
    seen = {}
    while True:
        try:
            packet = wire.parse(sniffer.recv(8192))
        except BlockingIOError:
            return seen
        if packet is None or packet.source != ADDRESSES["friend"] or packet.destination_qp != wire.GSI_QP or packet.source_mac == MAC:
            continue
        attribute, _, message = wire.parse_management(packet)
        if attribute == wire.REQ:
            seen[int.from_bytes(message[32:35], "big")] = int.from_bytes(message[16:24], "big")


class Connected(scenario.Scenario):
    """Strangers that connect, as any host may, and send capsules."""

    def test_capsules_of_connections_that_receive_nothing(self):
        self.suffer(attacks.capsules_without_receives)

    def test_log_pages_for_no_host(self):
        self.suffer(attacks.log_pages_without_receives)


class StrangersBesideKernel(Strangers):
    """The victim's neighbours are the kernel's."""

    BESIDE_KERNEL = True


if __name__ == "__main__":
    scenario.main()
