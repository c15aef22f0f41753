#!/usr/bin/env python3
"""What summary.py says of logs of meson test, in which GoogleTest and unittest tell what they skipped."""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

SUMMARY = pathlib.Path(__file__).with_name('summary.py')

PASSING = '''
import unittest
class Some(unittest.TestCase):
    def test_a(self): pass
    @unittest.skip('no device')
    def test_b(self): pass
    @unittest.skip('no kernel')
    def test_c(self): pass
    @unittest.expectedFailure
    def test_d(self): self.fail()
unittest.main()
'''
GOOGLE_TEST = '''[ RUN      ] Links.Vlan
links_test.cc:5: Skipped
no VLANs here
[  SKIPPED ] Links.Vlan (0 ms)
[==========] 2 tests from 1 test suite ran. (0 ms total)
[  PASSED  ] 1 test.
[  SKIPPED ] 1 test, listed below:
[  SKIPPED ] Links.Vlan
'''


class Summary(unittest.TestCase):
    def summary(self, *results, options=()):
        with tempfile.TemporaryDirectory() as folder:
            log = pathlib.Path(folder) / 'testlog.json'
            log.write_text(''.join(json.dumps(result) + '\n' for result in results))
            run = subprocess.run([sys.executable, SUMMARY, *options, log], capture_output=True, text=True)
        self.assertEqual(run.stderr, '')
        return run.returncode, run.stdout.splitlines()

    def test_only_what_passed(self):
        self.assertEqual(self.summary({'name': 'a', 'result': 'OK', 'stdout': '5 skipped of 7'}), (0, ['1 passed, 0 failed, 0 skipped']))
        self.assertEqual(self.summary(), (1, ['0 passed, 0 failed, 0 skipped']))

    def test_cases_that_were_skipped(self):
        """As the frameworks themselves say it, on either stream."""
        said = subprocess.run([sys.executable, '-c', PASSING, '-v'], capture_output=True, text=True)
        self.assertEqual(said.returncode, 0, said.stderr)
        status, lines = self.summary({'name': 'a', 'result': 'OK', 'stdout': said.stdout, 'stderr': said.stderr},
                                     {'name': 'b', 'result': 'OK', 'stdout': GOOGLE_TEST},
                                     {'name': 'c', 'result': 'SKIP', 'stdout': GOOGLE_TEST})
        self.assertEqual(status, 0)
        self.assertEqual(lines[-1], '2 passed (3 of their cases skipped), 0 failed, 1 skipped')
        self.assertTrue(any(line.endswith('a: 2 of its cases') for line in lines), lines)
        self.assertTrue(any(line.endswith('b: 1 of its cases') for line in lines), lines)

    def test_what_failed(self):
        status, lines = self.summary({'name': 'a', 'result': 'OK'}, {'name': 'b', 'result': 'FAIL', 'stdout': 'x\nb.cc:3: Failure\nno'})
        self.assertEqual((status, lines[-1]), (1, '1 passed, 1 failed, 0 skipped'))
        self.assertIn('    | b.cc:3: Failure', lines)
        self.assertEqual(self.summary({'name': 'a', 'result': 'OK'}, options=['--failed-steps', '1'])[0], 1)


if __name__ == '__main__':
    unittest.main()
