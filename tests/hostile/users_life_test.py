#!/usr/bin/env python3
"""Programs of an attacker that end, and what they have the service say for them: it disconnects the connections that a program says it has."""

import time

import users

PORT = "7481"
# Each is a program that says it has as many connections as there is room for, and ends at once.
LIARS = 400 if users.LONG else 12
SAY_AND_END = """
number, rows = int(sys.argv[1]), []
victims = [int(word) for word in sys.argv[2:]]
for _ in range(number):
    mine = attached()
    prefix = mine.number >> 12 << 20
    # Its own ids, to each id of the victims' programs that can be a first one; their ids as its own; and nonsense.
    rows = [{"local": prefix | i + 1, "remote": victim >> 12 << 20 | i * 7 % (1 << 20) or 1} for i in range(12000) for victim in victims]
    rows += [{"local": victim >> 12 << 20 | i, "remote": victims[0] >> 12 << 20 | i} for i in range(1, 4000) for victim in victims]
    rows += [{"local": prefix | i, "ours": ipv4("192.0.2.99")} for i in range(100)] + [{"local": prefix | i, "mac": b"\\xff" * 6} for i in range(100)]
    mine.write_rows(rows[:32768])
    mine.close()
print("ended", number, flush=True)
"""


class EndedUsers(users.Scenario):
    def start_victims(self):
        """An rping between two users that goes on for ever."""
        server = self.machine.start("friend", ["rping", "-s", "-a", "192.0.2.1", "-p", PORT])
        self.wait_for(lambda: any(one["ports"] for one in self.machine.programs()), "rping does not listen")
        client = self.machine.start("victim", ["rping", "-c", "-a", "192.0.2.1", "-p", PORT, "-C", "100000000"])
        self.wait_for(lambda: sum(one["queue_pairs"] for one in self.machine.programs()) >= 2, "rping does not connect")
        return server, client

    def test_rows_of_an_attacker_end_no_connection_of_others(self):
        server, client = self.start_victims()
        alone = min(self.machine.list_seconds() for _ in range(5))
        memory = self.machine.memory_kib()
        numbers = [str(one["numbers"]["first"]) for one in self.machine.programs()]
        began = time.monotonic()
        self.ready(self.machine.python("attacker", SAY_AND_END, str(LIARS), *numbers))
        self.say(f"after {time.monotonic() - began:.1f} s")
        self.expect_answers(alone)
        # All that is kept of them: the connections of one program, at most.
        self.assertLess(self.machine.memory_kib() - memory, (64 << 10) + self.stack.kept_kib())
        # What is left to be said is said.
        time.sleep(2)
        self.assertIsNone(client.poll(), "the client has ended")
        self.assertIsNone(server.poll(), "the server has ended")
        self.wait_for(lambda: len(self.machine.programs()) == 2, "programs of the attacker are left", users.RETURN_SECONDS)
        users.programs.end(client)
        # A connection that has really been left behind is disconnected beside them all.
        self.wait_for(lambda: server.poll() is not None, "the server does not hear of it", users.RETURN_SECONDS)
        self.expect_given_back()

    def test_an_endless_number_of_ended_programs_costs_others_little(self):
        round_trip = self.machine.round_trip_us()
        liars = self.machine.python("attacker", "print('begins', flush=True)\nwhile True:\n    mine = attached()\n    prefix = mine.number >> 12 << 20\n"
                                    "    mine.write_rows([{'local': prefix | i + 1, 'remote': i + 1} for i in range(8000)])\n    mine.close()\n")
        self.ready(liars)
        self.expect_round_trip(round_trip)
        users.programs.end(liars)
        self.expect_given_back()


if __name__ == "__main__":
    users.main("rping")
