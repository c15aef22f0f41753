#!/usr/bin/env python3
"""The probes in liburoce.so.0 are those of the man page, and bpftrace sees a program go through them.

    tests/programs/probes_test.py LIBRARIES EXAMPLE_FAST_REGION
"""
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

LIBRARY = pathlib.Path(sys.argv[1]).resolve() / 'liburoce.so.0'
EXAMPLE = os.path.abspath(sys.argv[2])
ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = ROOT / 'configs/probes.bt'
WAIT_S = 20


def in_library():
    """Name -> how many arguments, of each place where the probe is."""
    notes = subprocess.run(['readelf', '--notes', '--wide', LIBRARY], capture_output=True, text=True, check=True).stdout
    found = {}
    for name, arguments in re.findall(r'Provider: uroce\n\s*Name: (\w+)\n.*\n\s*Arguments: (.*)\n', notes):
        found.setdefault(name, set()).add(len(arguments.split(' ')))
    return found


def why_no_tracing():
    if os.geteuid() != 0:
        return 'not root'
    if not shutil.which('bpftrace'):
        return 'no bpftrace'
    run = subprocess.run(['bpftrace', '-e', f'usdt:{LIBRARY}:uroce:nak_sent {{}} BEGIN {{ exit(); }}'], capture_output=True, text=True)
    return '' if run.returncode == 0 else f'bpftrace cannot trace here: {run.stderr.strip().splitlines()[:1]}'


class Probes(unittest.TestCase):
    def test_the_library_has_those_of_the_man_page_with_their_arguments(self):
        page = re.search(r'^\.Sh TRACING\n(.*?)^\.Sh', (ROOT / 'apps/uroce.1').read_text(), re.M | re.S)[1]
        described = {name: {len(arguments.split())} for name, arguments in re.findall(r'^\.It Ic (\w+) Ar (.*)$', page, re.M)}
        self.assertGreater(len(described), 4)
        self.assertEqual(in_library(), described)
        self.assertEqual(set(re.findall(r'^usdt:\*:uroce:(\w+)', SCRIPT.read_text(), re.M)), set(described))

    def test_bpftrace_sees_them(self):
        if reason := why_no_tracing():
            self.skipTest(reason)
        script = SCRIPT.read_text().replace('usdt:*:', f'usdt:{LIBRARY}:').replace('BEGIN {', 'BEGIN { printf("tracing\\n");')
        with tempfile.TemporaryDirectory() as folder:
            output = pathlib.Path(folder) / 'output'
            with open(output, 'w') as to:
                trace = subprocess.Popen(['bpftrace', '-e', script], stdout=to, stderr=subprocess.STDOUT)
            self.addCleanup(trace.wait)
            self.addCleanup(trace.kill)
            self.wait_for(output, 'tracing')
            subprocess.run([EXAMPLE], check=True, stdout=subprocess.DEVNULL)
            self.wait_for(output, 'got NAK')
            trace.send_signal(signal.SIGINT)
            trace.wait(WAIT_S)
            said = output.read_text()
        self.assertRegex(said, r'(?m)^\d+ qp 0x[0-9a-f]{6} RTR -> RTS$')
        self.assertRegex(said, r'(?m)^\d+ qp 0x[0-9a-f]{6} RTS -> ERR$')
        self.assertRegex(said, r'(?m)^\d+ qp 0x[0-9a-f]{6} sent NAK 0x62 of PSN')
        self.assertRegex(said, r'(?m)^\d+ key 0x[0-9a-f]{8} is invalid$')

    def wait_for(self, output, what):
        until = time.monotonic() + WAIT_S
        while what not in output.read_text():
            self.assertLess(time.monotonic(), until, output.read_text())
            time.sleep(0.05)


if __name__ == '__main__':
    unittest.main(argv=['probes'])
