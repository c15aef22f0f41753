#!/usr/bin/env python3
"""The files of `uroce perf`: CSV, comparisons, and the page, as a browser without a network shows it by day and by night.

    tests/programs/perf_report_test.py UROCE
"""
import csv
import html.parser
import json
import os
import pathlib
import re
import shutil
import struct
import subprocess
import tempfile
import unittest
import zlib

from command_line import TestCase, uroce

BROWSER = shutil.which('chromium')
PAPER = {'light': (0xFF, 0xFF, 0xFF), 'dark': (0x14, 0x17, 0x1C)}
# Of the first three lines of a chart.
LINES = {'light': [(0x00, 0x72, 0xB2), (0xD5, 0x5E, 0x00), (0x00, 0x9E, 0x73)],
         'dark': [(0x4D, 0xA3, 0xE0), (0xFF, 0x8A, 0x3D), (0x2E, 0xCC, 0x9A)]}
SHADES = {'light': '1', 'dark': '0'}  # of blink's preferredColorScheme


def pixels_of(path):
    """Each colour of a PNG of 8 bits a channel and how many pixels have it."""
    data = path.read_bytes()
    at, packed = 8, b''
    while at < len(data):
        length, kind = struct.unpack('>I4s', data[at:at + 8])
        body = data[at + 8:at + 8 + length]
        if kind == b'IHDR':
            width, height, depth, colours = struct.unpack('>IIBB', body[:10])
        if kind == b'IDAT':
            packed += body
        at += length + 12
    assert depth == 8 and colours in (2, 6), (depth, colours)
    channels = 3 if colours == 2 else 4
    raw = zlib.decompress(packed)
    counts, before = {}, bytearray(width * channels)
    for row in range(height):
        start = row * (width * channels + 1)
        kind, line = raw[start], bytearray(raw[start + 1:start + 1 + width * channels])
        unfilter(kind, line, before, channels)
        before = line
        for i in range(0, len(line), channels):
            pixel = (line[i], line[i + 1], line[i + 2])
            counts[pixel] = counts.get(pixel, 0) + 1
    return counts


def unfilter(kind, line, above, step):
    if kind == 0:
        return
    for i in range(len(line)):
        left = line[i - step] if i >= step else 0
        corner = above[i - step] if i >= step else 0
        if kind == 1:
            guess = left
        elif kind == 2:
            guess = above[i]
        elif kind == 3:
            guess = (left + above[i]) // 2
        else:
            guess = min((left, above[i], corner), key=lambda one: abs(left + above[i] - corner - one))
        line[i] = (line[i] + guess) & 0xFF


class Elements(html.parser.HTMLParser):
    """What a page has, and what it would fetch."""

    VOID = {'meta', 'circle', 'line', 'rect', 'polyline'}

    def __init__(self, text):
        super().__init__()
        self.names, self.open, self.fetched = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.names.append(tag)
        if tag not in self.VOID:
            self.open.append(tag)
        self.fetched += [value for name, value in attrs if name in ('src', 'href', 'data', 'action', 'srcset')]

    def handle_startendtag(self, tag, attrs):
        self.names.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, tag


class Reports(TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.made = pathlib.Path(folder.name)
        for name in 'before', 'after':
            run = uroce('perf', '--quiet', '--duration', '0.1', '--size', '64,4K', '--json', str(cls.made / f'{name}.json'),
                        '--csv', str(cls.made / f'{name}.csv'), '--html', str(cls.made / f'{name}.html'))
            assert run.returncode == 0, run.stderr
        run = uroce('perf', '--quiet', '--op', 'send', '--size', '64', '--duration', '0.1', '--rate', '2k', '--ramp', '--bidirectional',
                    '--html', str(cls.made / 'load.html'))
        assert run.returncode == 0, run.stderr

    def test_csv_has_what_json_has(self):
        figures = json.loads((self.made / 'before.json').read_text())
        with open(self.made / 'before.csv', newline='') as file:
            rows = {row['measurement']: row for row in csv.DictReader(file)}
        self.assertEqual(set(rows), {f'{operation}.{size}' for operation in ('write', 'read', 'send') for size in (64, 4096)})
        for name, row in rows.items():
            self.assertEqual(float(row['messages_per_second']), figures[name + '.messages_per_second'])
            self.assertGreater(float(row['cpu_ns_per_message']), 0)

    def test_comparison(self):
        before, after = str(self.made / 'before.json'), str(self.made / 'after.json')
        run = uroce('perf', '--compare', before, after)
        self.assertEqual((run.returncode, run.stderr), (0, ''))
        self.assertRegex(run.stdout, r'write\.64\.messages_per_second +[\d.e+]+ +[\d.e+]+ +[-+][\d.]+ % +[-+][\d.]+ to [-+][\d.]+ % ')
        same = uroce('perf', '--compare', before, before).stdout
        self.assertEqual(len(re.findall(r'\+0\.0 % .*no difference seen', same)), len(same.splitlines()) - 1)
        # Twice the rate and half the latency are seen, whatever the noise of an order of magnitude less.
        figures = json.loads((self.made / 'before.json').read_text())
        figures['samples'] = {'a.messages_per_second': [10, 11, 10, 11], 'a.latency_p50_us': [4, 4.1, 4, 4.1], 'b.latency_p50_us': [1, 9, 2, 7]}
        first = self.file('first.json', json.dumps(figures))
        figures['samples'] = {'a.messages_per_second': [20, 22, 21, 22], 'a.latency_p50_us': [8, 8.1, 8, 8.1], 'b.latency_p50_us': [2, 8, 3, 7]}
        figures['depth'] = 7
        out = uroce('perf', '--compare', first, self.file('second.json', json.dumps(figures))).stdout
        self.assertRegex(out, r'a\.messages_per_second .* better')
        self.assertRegex(out, r'a\.latency_p50_us .* worse')
        self.assertRegex(out, r'b\.latency_p50_us .* no difference seen')
        self.assertIn('depth: 128 and 7', out)

    def test_wrong_comparisons_are_named(self):
        good = str(self.made / 'before.json')
        self.refused('perf', '--compare', good, naming=['--compare'])
        self.refused('perf', '--compare', good, '/nonexistent.json', status=1, naming=['/nonexistent.json'])
        for text in '', '[]', '{"samples": 1}', '{"machine": {}, "samples": {"a": "b"}', '\x00':
            self.refused('perf', '--compare', self.file('x.json', text), good, status=1, naming=['x.json'])
        self.refused('perf', '--compare', self.file('x.json', '{"machine": {}, "samples": {"a": [null, {}]}}'), good, status=1, naming=['in common'])
        self.refused('perf', '--html', '/nonexistent/x.html', naming=['--html', '/nonexistent'])

    def test_the_page_needs_nothing_else(self):
        for name, plots in ('before', 6), ('load', 4):
            text = (self.made / f'{name}.html').read_text()
            page = Elements(text)
            self.assertEqual((page.open, page.fetched), ([], []))
            self.assertEqual(page.names.count('svg'), plots)
            self.assertNotIn('script', page.names)
            self.assertNotIn('@import', text)
            self.assertNotIn('url(', text)
            self.assertNotRegex(text, r'\b(nan|inf)\b')
            for word in 'kernel', 'usable_cpus', 'prefers-color-scheme':
                self.assertIn(word, text)

    @unittest.skipUnless(BROWSER, 'there is no chromium (apps/install-packages test)')
    def test_the_page_in_a_browser(self):
        for page in 'before', 'load':
            shown = {shade: self.shown(page, shade) for shade in PAPER}
            for shade, counts in shown.items():
                with self.subTest(page=page, shade=shade):
                    everything = sum(counts.values())
                    self.assertGreater(counts.get(PAPER[shade], 0), everything / 2, 'the ground has its colour')
                    self.assertLess(counts[PAPER[shade]], everything * 0.99, 'it is not blank')
                    for colour in LINES[shade][:3 if page == 'before' else 2]:
                        self.assertGreater(counts.get(colour, 0), 50, f'a line of {colour}')
            self.assertLess(shown['light'].get(PAPER['dark'], 0), shown['dark'][PAPER['dark']] / 10)

    def shown(self, page, shade):
        """A screenshot, of a browser that has no network where that can be had."""
        picture = self.folder / f'{page}-{shade}.png'
        alone = ['unshare', '--net'] if os.geteuid() == 0 else []
        subprocess.run([*alone, BROWSER, '--headless', '--no-sandbox', '--disable-gpu', '--hide-scrollbars', '--no-first-run',
                        '--disable-background-networking', f'--user-data-dir={self.folder}/profile', '--window-size=700,1500',
                        f'--blink-settings=preferredColorScheme={SHADES[shade]}', f'--screenshot={picture}',
                        (self.made / f'{page}.html').as_uri()],
                       check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=120)
        return pixels_of(picture)


if __name__ == '__main__':
    unittest.main(argv=['perf_report_test.py', '-v'])
