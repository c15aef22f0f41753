#!/usr/bin/env python3
"""`uroce decode` from outside: what it shows of captures, its exit status, and what it cannot read.

    tests/programs/decode_test.py UROCE
"""
import json
import pathlib
import subprocess
import unittest

from command_line import TestCase, UROCE, uroce

CAPTURES = pathlib.Path(__file__).resolve().parents[1] / 'captures'
RPING = CAPTURES / 'cm_rping.pcap'


class Decode(TestCase):
    def damaged(self):
        """The last byte of the first frame, which is of its ICRC, is another."""
        data = bytearray(RPING.read_bytes())
        data[24 + 16 + int.from_bytes(data[24 + 8:24 + 12], 'little') - 1] ^= 1
        path = self.folder / 'damaged.pcap'
        path.write_bytes(data)
        return path

    def test_each_packet_is_a_line(self):
        run = uroce('decode', RPING)
        self.assertEqual((run.returncode, run.stderr), (0, ''))
        lines = run.stdout.splitlines()
        self.assertEqual(len(lines), 29)
        self.assertRegex(lines[0], r'^1 0\.000000 UD SEND Only 10\.9\.0\.1 > 10\.9\.0\.2 .* CM REQ ')
        self.assertIn('RC READ Request', lines[5])

    def test_summary_and_json_name_connections(self):
        run = uroce('decode', '--summary', CAPTURES / 'loss_requests.pcap')
        self.assertEqual(run.returncode, 0)
        self.assertRegex(run.stdout, r'97 frames, .*\n.* from qp 0x000012: .* retransmissions')
        of_all = json.loads(uroce('decode', '--summary', '--json', CAPTURES / 'loss_requests.pcap').stdout)
        self.assertEqual((of_all['frames'], of_all['findings'], len(of_all['streams'])), (97, 0, 2))
        self.assertEqual(sum(stream['sequence_naks'] for stream in of_all['streams']), 3)

    def test_what_is_wrong_is_status_1_and_names_rule_and_frame(self):
        run = uroce('decode', self.damaged(), RPING)
        self.assertEqual(run.returncode, 1)
        self.assertIn('! frame 1: drop-icrc: ', run.stdout)
        objects = [json.loads(line) for line in uroce('decode', '--json', self.damaged()).stdout.splitlines()]
        self.assertEqual(len(objects), 30)
        self.assertEqual((objects[0]['findings'][0]['rule'], objects[-1]['rules']), ('drop-icrc', {'drop-icrc': 1}))
        self.assertIn('drop-icrc ', uroce('decode', '--rules').stdout)

    def test_standard_input_and_what_is_cut_off(self):
        data = RPING.read_bytes()
        run = subprocess.run([UROCE, 'decode', '--summary', '-'], input=data, capture_output=True)
        self.assertEqual(run.returncode, 0)
        self.assertIn(b'29 frames', run.stdout)
        run = subprocess.run([UROCE, 'decode', '--summary', '-'], input=data[:-3], capture_output=True, text=False)
        self.assertEqual(run.returncode, 2)
        self.assertIn(b'28 frames', run.stdout)
        self.assertRegex(run.stderr, rb'\Auroce decode: -: [^\n]*\(after 28 frames\)\n\Z')

    def test_what_cannot_be_read_is_one_line(self):
        self.refused('decode', naming=['no capture'])
        self.refused('decode', '/nowhere/x.pcap', naming=['/nowhere/x.pcap', 'No such file'])
        self.refused('decode', self.file('text', 'no capture at all, but a text of some length'), naming=['text'])
        self.refused('decode', self.folder, naming=[str(self.folder)])
        self.refused('decode', '--threads', '0', RPING, naming=['--threads'])
        # A pcap of link type 147, which is a user's own.
        header = bytes.fromhex('d4c3b2a1020004000000000000000000ffff000093000000')
        other = self.folder / 'other.pcap'
        other.write_bytes(header)
        self.refused('decode', other, naming=[str(other), 'link type 147'])

    def test_an_output_that_is_full_is_said(self):
        with open('/dev/full', 'w') as full:
            run = subprocess.run([UROCE, 'decode', RPING], stdout=full, stderr=subprocess.PIPE, text=True)
        self.assertEqual(run.returncode, 2)
        self.assertRegex(run.stderr, r'\Auroce decode: standard output: No space left on device\n\Z')


if __name__ == '__main__':
    unittest.main(argv=['decode'])
