#!/usr/bin/env python3
"""What the programs of a device share of the network: rdma_cm's ports, and the questions for stations. One user takes as much of both as it
gets; the others have their share, and frames flow as before."""

import re
import time

import control
import users

# As lib/service/service.h, configuration.h and lib/host/free_ports.h have them.
FIRST, LAST = 32768, 60999
RESERVED, FEW = 2048, 256
OF_USER = 16384
ENOBUFS, ETIMEDOUT, EDQUOT = 105, 110, 122

# Asks on all connections until each has had `count` answers, at most 12 questions ahead of the answers.
PIPELINE = """
def pipeline(ones, count, ask):
    said = {}
    for one in ones:
        one.asked = one.answered = 0
    while any(one.answered < count for one in ones):
        for one in ones:
            while one.asked < count and one.asked - one.answered < 12:
                ask(one, one.asked)
                one.asked += 1
        for one in ones:
            while one.answered < one.asked and (one.asked == count or one.asked - one.answered > 6):
                got = one.receive()
                if got.type == 'Done':
                    one.answered += 1
                    said[got.error] = said.get(got.error, 0) + 1
    return said

def flood(ones, ask):
    for one in ones:
        one.socket.setblocking(False)
    while True:
        for one in ones:
            with contextlib.suppress(BlockingIOError):
                for _ in range(14):
                    ask(one)
            with contextlib.suppress(BlockingIOError):
                while one.receive() is not None:
                    pass
        time.sleep(0.001)
"""

# Both programs bind all of their ids to one port, then listen with them again and again.
ONE_PORT = PIPELINE + """
ones = [attached() for _ in range(2)]
said = pipeline(ones, int(sys.argv[1]), lambda one, i: one.send('Bind', space=PORT_SPACE_TCP, port=5000, flags=1, id=i, address=ANY))
print('bound', said.get(0, 0), said, flush=True)
flood(ones, lambda one: one.send('Listen', id=7))
"""

# Four programs bind every port that is given out, then ask for one more again and again.
ALL_PORTS = PIPELINE + """
ones = [attached() for _ in range(4)]
places = {one: number for number, one in enumerate(ones)}
first, last = int(sys.argv[1]), int(sys.argv[2])
said = pipeline(ones, (last - first + 1) // 4, lambda one, i: one.send('Bind', space=PORT_SPACE_TCP, port=first + 4 * i + places[one], id=i, address=ANY))
print('bound', said.get(0, 0), said, flush=True)
flood(ones, lambda one: one.send('Bind', space=PORT_SPACE_TCP, port=0, id=10**6, address=ANY))
"""

# Connections that say something every half second, and do not attach.
UNATTACHED = """
ones = [Control() for _ in range(16)]
print('asks', len(ones), flush=True)
ended = 0
while ones:
    for one in list(ones):
        try:
            got = one.ask('List')
        except OSError:
            got = None
        if got is None or got.error != 0:
            ones.remove(one)
            ended += 1
    time.sleep(0.5)
print('ended', ended)
"""

# Asks for stations that are not there.
QUESTIONS = """
import random
ones = [attached() for _ in range(12)]
for one in ones:
    one.socket.setblocking(False)
print('asks', flush=True)
while True:
    for one in ones:
        with contextlib.suppress(BlockingIOError):
            for _ in range(10):
                one.send('Resolve', address=mapped_address(10, 77, random.randrange(1, 200), random.randrange(1, 255)))
        with contextlib.suppress(BlockingIOError):
            while one.receive() is not None:
                pass
    time.sleep(0.001)
"""


def bound_of(line):
    return int(re.match(r"bound (\d+)", line).group(1))


class Ports(users.Scenario):
    def setUp(self):
        super().setUp()
        self.alone = min(self.machine.list_seconds() for _ in range(5))
        self.round_trip = self.machine.round_trip_us()

    def expect_victim_unharmed(self):
        self.expect_round_trip(self.round_trip)
        self.expect_answers(self.alone)
        self.expect_others_bind()

    def expect_others_bind(self):
        """By name and without, one after the other."""
        victim = self.machine.python("victim", "one = attached()\nfor i in range(100):\n"
                                     "    got = one.ask('Bind', space=PORT_SPACE_TCP, port=7000 if i == 0 else 0, id=i, address=ANY)\n"
                                     "    assert got.error == 0, (i, got)\nprint('well', flush=True)")
        code, said = users.programs.finish(victim)
        self.assertEqual((code, said), (0, "well\n"))

    def expect_all_back(self):
        self.expect_given_back()
        self.wait_for(lambda: self.machine.programs() == [], "programs are left", users.RETURN_SECONDS)

    def test_ids_that_share_a_port(self):
        attacker = self.machine.python("attacker", ONE_PORT, "8000")
        self.assertEqual(bound_of(self.ready(attacker)), 16000)
        self.expect_victim_unharmed()
        users.programs.end(attacker)
        self.expect_all_back()

    def test_all_ports(self):
        attacker = self.machine.python("attacker", ALL_PORTS, str(FIRST), str(LAST))
        self.assertEqual(bound_of(self.ready(attacker)), OF_USER)
        self.expect_victim_unharmed()
        users.programs.end(attacker)
        self.expect_all_back()

    def test_the_last_ports_are_for_users_with_few(self):
        first = self.machine.python("attacker", ALL_PORTS, str(FIRST), str(FIRST + OF_USER - 1))
        self.assertEqual(bound_of(self.ready(first)), OF_USER)
        second = self.machine.python("friend", ALL_PORTS, str(FIRST + OF_USER), str(LAST))
        self.assertEqual(bound_of(self.ready(second)), LAST - FIRST + 1 - OF_USER - RESERVED)
        self.expect_others_bind()
        for one in first, second:
            users.programs.end(one)
        self.expect_all_back()


class Connections(users.Scenario):
    def test_connections_that_ask_and_do_not_attach(self):
        """As many users as it takes to have all that there may be, none more than it may."""
        crowd = []
        for number in range(16):
            users.USERS[f"asker {number}"] = 65200 + number
            crowd.append(self.machine.python(f"asker {number}", UNATTACHED))
        for one in crowd:
            self.assertEqual(self.ready(one), "asks 16\n")
        victim = self.machine.python("victim", "one = attached(attempts=20)\nprint('well', flush=True)")
        self.assertEqual(users.programs.finish(victim), (0, "well\n"))
        # All of them end by themselves, though they ask.
        for one in crowd:
            code, said = users.programs.finish(one)
            self.assertEqual((code, said), (0, "ended 16\n"))
        self.expect_given_back()


class Stations(users.Scenario):
    DEVICES = '[[device]]\nname = "uroce0"\nport = "loopback0"\naddresses = ["10.77.0.1/16"]\n'

    def resolve(self, count):
        """What a victim's questions for so many stations come to: error -> how many."""
        said = {}
        with self.as_victim() as one:
            for i in range(count):
                one.send("Resolve", address=control.mapped_address(10, 77, 200, 1 + i))
            while sum(said.values()) < count:
                got = one.receive()
                if got.type == "Resolved":
                    said[got.error] = said.get(got.error, 0) + 1
        return said

    def as_victim(self):
        # Root is another user than the attacker, too.
        one = control.Control(str(self.machine.socket))
        self.addCleanup(one.close)
        self.assertEqual(one.attach().type, "Attached")
        return one

    def test_questions_for_stations_that_are_not_there(self):
        alone = min(self.machine.list_seconds() for _ in range(5))
        round_trip = self.machine.round_trip_us()
        attacker = self.machine.python("attacker", QUESTIONS)
        self.ready(attacker)
        time.sleep(1)
        # Nobody is there: all are asked for to the end, and none is refused.
        self.assertEqual(self.resolve(15), {ETIMEDOUT: 15})
        self.expect_round_trip(round_trip)
        self.expect_answers(alone)
        users.programs.end(attacker)
        self.expect_given_back()


if __name__ == "__main__":
    users.main()
