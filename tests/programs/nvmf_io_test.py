#!/usr/bin/env python3
"""perf's nvmf_io verifies what it has moved, however few commands it is told to send.

    nvmf_io_test.py UROCE NVMF_IO
"""
import json
import subprocess
import sys
import unittest

UROCE, NVMF_IO = sys.argv[1:3]
ENDS = ['--port', 'net_ring0', '--ip', '192.0.2.1/24', '--port', 'net_ring1', '--ip', '192.0.2.2/24']
LIMIT_SECONDS = 60
DEPTH = 32


def run(*options):
    return subprocess.run([UROCE, 'run', *ENDS, '--poller-takeover-us', '1000000', '--', NVMF_IO, '--namespace-mb', '1', '--depth', str(DEPTH), *options],
                          capture_output=True, text=True, timeout=LIMIT_SECONDS)


class NvmfIo(unittest.TestCase):
    def test_any_number_of_commands(self):
        for pattern in [], ['--sequential'], ['--write'], ['--write', '--in-capsule'], ['--write', '--sequential']:
            for commands in 1, DEPTH - 1, DEPTH, 3 * DEPTH:
                with self.subTest(pattern=pattern, commands=commands):
                    done = run('--commands', str(commands), *pattern)
                    self.assertEqual(done.returncode, 0, done.stderr)
                    self.assertEqual(json.loads(done.stdout)['commands'], commands)

    def test_wrong_data_are_found(self):
        """A namespace that keeps nothing, in the place of one that does."""
        done = run('--commands', str(DEPTH), '--driver', 'null', '--verify')
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r'^nvmf_io: byte 0 of I/O \d+ of the namespace is wrong\n$')


if __name__ == '__main__':
    unittest.main(argv=sys.argv[:1], verbosity=2)
