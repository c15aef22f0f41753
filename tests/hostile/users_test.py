#!/usr/bin/env python3
"""Three users of one service, each with programs that come and go: what the other scenarios of users compare with."""

import users


class Users(users.Scenario):
    def test_programs_of_three_users_share_a_device(self):
        alone = min(self.machine.list_seconds() for _ in range(5))
        round_trip = self.machine.round_trip_us()
        self.say(f"answers in {alone * 1e3:.2f} ms, round trips of {round_trip} us")
        others = [self.machine.python(user, "mine = [attached() for _ in range(4)]\nprint('has', len(mine), flush=True)\ntime.sleep(15)")
                  for user in ("victim", "friend", "attacker")]
        for one in others:
            self.assertEqual(self.ready(one), "has 4\n")
        self.assertEqual(len(self.machine.programs()), 12)
        self.expect_round_trip(round_trip)
        self.expect_answers(alone)
        for one in others:
            users.programs.end(one)
        self.expect_given_back()
        self.assertEqual(self.machine.programs(), [])


if __name__ == "__main__":
    users.main()
