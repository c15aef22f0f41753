#!/usr/bin/env python3
"""A table without a hole passes, and each kind of hole is noticed."""
import pathlib
import tempfile
import unittest

import check

RULES = '''
# A comment.
origin  manual  the manual of a device, a fact
        on two lines
origin  driver  a driver

[one]
rule    It does
        something.
source  manual: chapter 1
source  driver: a.c
peer    It waits.
code    lib/a.cc: Claimed::work
test    a.pkt: it works
test    Claimed.Works
'''


class Holes(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        root = pathlib.Path(self.folder.name)
        self.files = {
            'lib/a.cc': 'int Claimed::work(int a) const {\n  other(a);\n}\n// int Claimed::gone() {}\n',
            'lib/base/counters/counters.h': 'X(kDropThis, "drop_this")',
            'tests/unit/a_test.cc': 'TEST_F(Claimed, Works) {}\n',
            'tests/script/a.pkt': 'case it works\n  counter drop_this +1\n',
        }
        self.root = root

    def holes(self, rules=RULES):
        for name, text in self.files.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        found = []
        parsed = check.parse(rules, lambda line, what: found.append(what))
        check.check(parsed, check.Tree(self.root), lambda line, what: found.append(what))
        return found

    def expect(self, what, rules=RULES):
        found = self.holes(rules)
        self.assertEqual(len(found), 1, found)
        self.assertIn(what, found[0])

    def test_none(self):
        self.assertEqual(self.holes(), [])

    def test_rule_without_test(self):
        self.files['tests/script/a.pkt'] = '#  counter drop_this +1\n'
        self.expect('has no test', '\n'.join(l for l in RULES.splitlines() if not l.startswith('test')))

    def test_rule_without_code_or_source(self):
        self.expect('has no code', RULES.replace('code    lib/a.cc: Claimed::work\n', ''))
        found = self.holes('\n'.join(line for line in RULES.splitlines() if not line.startswith(('source', 'origin', '  '))))
        self.assertIn('one has no source', found)

    def test_rule_without_what_the_peer_does(self):
        self.expect('has no peer', RULES.replace('peer    It waits.\n', ''))

    def test_field_that_stands_twice(self):
        self.expect('more than one peer', RULES.replace('peer ', 'peer    It goes on.\npeer '))

    def test_one_source_without_what_was_looked_at(self):
        alone = RULES.replace('source  driver: a.c\n', '').replace('origin  driver  a driver\n', '')
        self.expect('no single says', alone)
        self.assertEqual(self.holes(alone.replace('peer ', 'single  drivers\npeer ')), [])

    def test_two_sources_and_a_single(self):
        self.expect('a single, and 2 sources', RULES.replace('peer ', 'single  drivers\npeer '))

    def test_two_sources_of_one_origin(self):
        self.expect('two sources of one origin: driver', RULES.replace('peer ', 'source  driver: b.c\npeer '))

    def test_source_without_an_origin(self):
        for source in ('a book', 'book: chapter 1', 'driver:', 'driver a.c'):
            self.expect('begins with its origin', RULES.replace('peer ', f'source  {source}\npeer '))

    def test_origin_of_no_source(self):
        self.expect('no rule has a source of this origin: book', RULES.replace('[one]', 'origin  book  a book\n[one]'))

    def test_origin_behind_a_rule_or_without_a_text(self):
        self.expect('no field of a rule', RULES + 'origin  book  a book\n')
        self.expect('no field of a rule', RULES.replace('[one]', 'origin  book\n[one]'))

    def test_function_that_is_not_there(self):
        self.expect('no such code', RULES.replace('Claimed::work', 'Claimed::idle'))

    def test_function_that_is_only_called_or_a_comment(self):
        self.expect('no such code', RULES.replace('Claimed::work', 'other'))
        self.expect('no such code', RULES.replace('Claimed::work', 'Claimed::gone'))

    def test_file_that_is_not_there(self):
        self.expect('no such code', RULES.replace('lib/a.cc', 'lib/b.cc'))

    def test_gtest_that_is_not_there(self):
        self.expect('no such test', RULES.replace('Claimed.Works', 'Claimed.Sleeps'))

    def test_case_that_is_not_there(self):
        self.files['tests/script/a.pkt'] += 'case it also works\n'
        found = self.holes(RULES.replace('a.pkt: it works', 'a.pkt: it also works').replace('also', 'almost'))
        self.assertTrue(any('no such case' in what for what in found), found)

    def test_pattern_for_everything(self):
        self.expect('no such case', RULES.replace('a.pkt: it works', 'a.pkt: *'))

    def test_case_of_no_rule(self):
        self.files['tests/script/a.pkt'] += 'case it also works\n'
        self.expect('belongs to no rule: a.pkt: it also works')

    def test_rule_twice(self):
        self.expect('there is a rule one already', RULES + RULES[RULES.index('[one]'):])

    def test_unknown_field(self):
        self.expect('no field of a rule', RULES + 'note    something\n')

    def test_counter_that_no_script_shows(self):
        self.files['lib/base/counters/counters.h'] += 'X(kDropThat, "drop_that")'
        self.expect('no script shows what drop_that counts')


if __name__ == '__main__':
    unittest.main()
