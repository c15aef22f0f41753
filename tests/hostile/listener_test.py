#!/usr/bin/env python3
"""A stranger on the wire against a program of rdma_cm that listens and is slow to look at what came.

    tests/hostile/listener_test.py LIBRARY_FOLDER SANITIZER_RUNTIME UROCE HOST LISTENER FRAME_VICTIM [SCENARIO ...]
"""

import signal
import sys
import time

import scenario
import victims
import wire
from network import ADDRESSES
from scenario import times

PORT, FRIENDS_PORT = 7471, 7472


class Listener(scenario.Scenario):
    def start_victim(self):
        friend = victims.Program(self.stack, self.net, "friend", [sys.argv[5], ADDRESSES["friend"], str(FRIENDS_PORT)],
                                 victims.device("friend"))
        self.addCleanup(friend.end)
        friend.wait_for("listening")
        victim = victims.Program(self.stack, self.net, "victim", [
            sys.argv[5], ADDRESSES["victim"], str(PORT), ADDRESSES["friend"], str(FRIENDS_PORT)], victims.device("victim"))
        victim.wait_for("listening")
        return victim

    def expect_served(self, meanwhile=lambda: None):
        """Another id of the program connects to another host."""
        before = self.victim.said().count("connected")
        self.victim.process.send_signal(signal.SIGUSR1)
        began = time.monotonic()
        while self.victim.said().count("connected") == before:
            self.expect_life()
            self.assertNotIn("failed", self.victim.said())
            self.assertLess(time.monotonic(), began + scenario.SERVED_SECONDS, "the victim cannot connect")
            meanwhile()
            self.attacker.pump(0.01)
        self.say(f"connected in {time.monotonic() - began:.2f} s")

    def test_requests_that_are_taken_back(self):
        """The backlog is of the requests that are there and of those that have gone again, as long as the program has not looked at them."""
        for number in range(times(50_000, 400_000)):
            own = self.attacker.request(PORT)
            self.attacker.say(wire.REJ, wire.reject(own, 0, 0, 28))
            if number % 100 == 0:
                self.attacker.pump(0.001)
                self.expect_life(f"after {number} pairs")
        self.expect_untouched()


if __name__ == "__main__":
    scenario.main()
