#!/usr/bin/env python3
"""`uroce decode` from outside: what it shows of captures, its exit status, and what it cannot read.

    tests/programs/decode_test.py UROCE
"""
import json
import pathlib
import struct
import subprocess
import unittest

from command_line import TestCase, UROCE, uroce

CAPTURES = pathlib.Path(__file__).resolve().parents[1] / 'captures'
RPING = CAPTURES / 'cm_rping.pcap'
# One frame of a veth, as the kernel passes it on: two packets behind one header.
AGGREGATE = CAPTURES / 'gso' / 'read_responses.pcap'


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

    def frames(self, path=RPING):
        """Those of a pcap in this machine's byte order."""
        data, at = path.read_bytes(), 24
        while at < len(data):
            captured = int.from_bytes(data[at + 8:at + 12], 'little')
            yield data[at + 16:at + 16 + captured]
            at += 16 + captured

    def pcap(self, name, frames):
        path = self.folder / name
        path.write_bytes(RPING.read_bytes()[:24] + b''.join(struct.pack('<IIII', 1, i, len(one), len(one)) + one
                                                            for i, one in enumerate(frames)))
        return path

    def pcapng(self, order, lost_before, statistics):
        """rping's frames, with a count of lost ones at some packets, and in the interface's statistics."""
        def block(kind, body):
            length = struct.pack(order + 'I', 12 + len(body))
            return struct.pack(order + 'I', kind) + length + body + length

        def option(code, value):
            return struct.pack(order + 'HHQ', code, 8, value)

        end = bytes(4)
        parts = [block(0x0a0d0d0a, struct.pack(order + 'IHHq', 0x1a2b3c4d, 1, 0, -1)),
                 block(1, struct.pack(order + 'HHI', 1, 0, 0))]
        for number, frame in enumerate(self.frames(), 1):
            options = option(4, lost_before[number]) + end if number in lost_before else b''
            parts.append(block(6, struct.pack(order + 'IIIII', 0, 0, number, len(frame), len(frame)) + frame +
                               bytes(-len(frame) % 4) + options))
        if statistics:
            parts.append(block(5, struct.pack(order + 'III', 0, 0, 0) + option(4, 90) +
                               b''.join(option(code, value) for code, value in statistics.items()) + end))
        path = self.folder / 'lost.pcapng'
        path.write_bytes(b''.join(parts))
        return path

    def test_what_a_capture_lost_by_its_own_count_is_said(self):
        for order in '<>':
            path = self.pcapng(order, {7: 12, 9: 1}, {5: 4, 7: 11})
            lines = uroce('decode', path).stdout.splitlines()
            self.assertEqual([lines[6], lines[9]], ['the capture lost 12 frames', 'the capture lost 1 frames'])
            run = uroce('decode', '--summary', path)
            self.assertEqual(run.returncode, 0)
            self.assertIn('the capture lacks 15 frames by its own count\n  nothing is wrong with what was captured\n', run.stdout)
            *packets, of_all = map(json.loads, uroce('decode', '--json', path).stdout.splitlines())
            self.assertEqual((of_all['lost'], packets[6]['lost_before']), (15, 12))
        run = uroce('decode', '--summary', self.pcapng('<', {}, {5: 0, 7: 0}))
        self.assertIn('nothing is wrong with it\n', run.stdout)

    def test_what_a_capture_lacks_by_its_packets_is_said(self):
        frames = list(self.frames(CAPTURES / 'rc_send.pcap'))
        one_way = [frame for frame in frames if frame[6:12] == frames[0][6:12]]
        run = uroce('decode', '--summary', self.pcap('one_way.pcap', one_way))
        self.assertEqual(run.returncode, 0)
        self.assertRegex(run.stdout, r'the capture lacks 1 streams in the other direction\n  nothing is wrong with what was captured')
        requests = [i for i, frame in enumerate(frames) if frame[42] >> 5 == 0 and frame[42] < 11]
        lost = self.pcap('lost.pcap', [frame for i, frame in enumerate(frames) if i != requests[1]])
        run = uroce('decode', '--summary', lost)
        self.assertRegex(run.stdout, r'the capture lacks 1 PSNs that were acknowledged\n  nothing is wrong with what was captured')
        of_all = json.loads(uroce('decode', '--summary', '--json', lost).stdout)
        self.assertEqual(sum(stream['not_captured'] for stream in of_all['streams']), 1)

    def test_packets_that_share_a_frame_are_lines_of_their_own(self):
        run = uroce('decode', AGGREGATE)
        self.assertEqual(run.returncode, 0)
        lines = run.stdout.splitlines()
        self.assertEqual(len(lines), 2)
        self.assertRegex(lines[0], r'^1\.1 .* RC READ Response First .* psn 0x05ec79')
        self.assertRegex(lines[1], r'^1\.2 .* RC READ Response Middle .* psn 0x05ec7a')
        of_all = json.loads(uroce('decode', '--summary', '--json', AGGREGATE).stdout)
        self.assertEqual((of_all['frames'], of_all['bytes'], of_all['roce'], of_all['malformed']), (1, 2126, 2, 0))

    def test_an_output_that_is_full_is_said(self):
        with open('/dev/full', 'w') as full:
            run = subprocess.run([UROCE, 'decode', RPING], stdout=full, stderr=subprocess.PIPE, text=True)
        self.assertEqual(run.returncode, 2)
        self.assertRegex(run.stderr, r'\Auroce decode: standard output: No space left on device\n\Z')


if __name__ == '__main__':
    unittest.main(argv=['decode'])
