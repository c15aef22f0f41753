#!/usr/bin/env python3
"""Keys of every kind of region in the hands of a peer (tests/keys), between two processes over memif.

    tests/programs/keys_test.py LIBRARY_FOLDER SANITIZER_RUNTIME OWNER PEER
"""

import sys
import unittest

import programs


class Keys(unittest.TestCase):
    def meet(self, more_configuration=""):
        with programs.Pair(self.stack) as pair:
            pair.more_configuration = more_configuration
            options = ["-d", "uroce0", "-g", "1", "-m", "1024"]
            owner = pair.start_server([sys.argv[3], *options])
            peer = pair.start_client([sys.argv[4], *options])
            ends = {"peer": programs.finish(peer), "owner": programs.finish(owner)}
            story = "\n".join(f"--- {end} ended with {status}:\n{output}" for end, (status, output) in ends.items())
            print(story)
            for status, _ in ends.values():
                self.assertEqual(status, 0, story)

    def test_every_kind_and_every_attempt(self):
        self.meet()

    def test_bus_addresses_are_never_virtual_ones(self):
        self.meet("[memory]\nbus_offset = 0x100000000000\n")


if __name__ == "__main__":
    programs.main()
