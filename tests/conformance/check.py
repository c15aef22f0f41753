#!/usr/bin/env python3
"""Looks for holes in the table of rules: a rule that nothing implements or tests, code and tests that are not there,
a rule that one source alone supports without a word about it, and packet scripts that belong to no rule.

    tests/conformance/check.py [ROOT]
"""
import fnmatch
import pathlib
import re
import sys

FIELDS = ('rule', 'source', 'peer', 'code', 'test')
OPTIONAL = ('single',)
# How often a field may stand in a rule.
ONCE = ('rule', 'single', 'peer')
GTEST = re.compile(r'^TEST(?:_F|_P)?\((\w+), (\w+)\)', re.M)
CASE = re.compile(r'^case\s+(.*?)\s*(?:#.*)?$', re.M)
# Drops of a port, a neighbour's protocol or a moment that no single packet is.
NOT_SCRIPTED = {
    'drop_neighbour': 'ARP and neighbour discovery: tests/unit/net',
    'drop_group_query': 'IGMP and MLD: tests/unit/net',
    'drop_ethernet': 'Malformed.EthernetAndUdpAreJudgedTheSameOverBothIpVersions',
    'drop_stalled': 'tests/unit/engine/stalled_test.cc',
    'drop_vlan': 'DemuxTest.AnAddressIsHeardInItsVlanOnly',
}


class Rule:
    def __init__(self, name, line):
        self.name = name
        self.line = line
        self.fields = {field: [] for field in FIELDS + OPTIONAL}


class Table:
    """The rules by name, and the origins that their sources are of."""

    def __init__(self):
        self.rules = {}
        self.origins = set()


def parse(text, fail):
    """The table in `text`; fail(line, what) is called for what is no rule."""
    table = Table()
    rules = table.rules
    rule = values = None
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith('#'):
            continue
        begins = re.fullmatch(r'\[([a-z0-9-]+)\]', line)
        if begins:
            if begins.group(1) in rules:
                fail(number, f'there is a rule {begins.group(1)} already')
            rule = rules[begins.group(1)] = Rule(begins.group(1), number)
            values = None
        elif line[0] == ' ' and values:
            values[-1] += ' ' + line.strip()
        else:
            field, _, value = line.partition(' ')
            if rule is None and field == 'origin' and value.split()[1:]:
                table.origins.add(value.split()[0])
                values = ['']
                continue
            if rule is None or field not in FIELDS + OPTIONAL or not value.strip():
                fail(number, f'no field of a rule: {line}')
                continue
            values = rule.fields[field]
            values.append(value.strip())
    return table


def without_comments(source):
    return re.sub(r'/\*.*?\*/|//[^\n]*', '', source, flags=re.S)


def is_definition(source, arguments):
    """Whether a body follows the list that begins at `arguments`."""
    depth = 1
    while depth and arguments < len(source):
        depth += {'(': 1, ')': -1}.get(source[arguments], 0)
        arguments += 1
    return re.match(r'\s*(const|noexcept|override|\s)*(->[^;{]*|:[^;{]*)?\{', source[arguments:]) is not None


class Tree:
    """What there is to refer to."""

    def __init__(self, root):
        self.root = root
        self.gtests = set()
        for path in root.glob('tests/**/*.cc'):
            self.gtests.update('.'.join(found) for found in GTEST.findall(path.read_text(errors='replace')))
        self.scripts = {path.name: path.read_text() for path in root.glob('tests/script/*.pkt')}
        self.cases = {(name, case) for name, text in self.scripts.items() for case in CASE.findall(text)}

    def has_function(self, place):
        name, _, function = place.partition(': ')
        path = self.root / name
        if not function or not path.is_file():
            return False
        source = without_comments(path.read_text())
        return any(is_definition(source, found.end())
                   for found in re.finditer(r'(?<![\w:])' + re.escape(function) + r'\(', source))

    def drop_counters(self):
        source = (self.root / 'lib/base/counters/counters.h').read_text()
        return re.findall(r'X\(k\w+,\s*"(drop_\w+)"\)', source)


def check_sources(rule, known, fail):
    """Two sources that do not depend on each other, or what was looked at besides the one; the origins named."""
    origins = []
    for source in rule.fields['source']:
        origin, colon, place = source.partition(': ')
        if not colon or not place.strip() or origin not in known:
            fail(rule.line, f'{rule.name}: a source begins with its origin and a colon: {source}')
        elif origin in origins:
            fail(rule.line, f'{rule.name}: two sources of one origin: {origin}')
        else:
            origins.append(origin)
    single = bool(rule.fields['single'])
    if len(origins) == 1 and not single:
        fail(rule.line, f'{rule.name} has one source, and no single says what was looked at besides')
    if len(origins) > 1 and single:
        fail(rule.line, f'{rule.name} has a single, and {len(origins)} sources')
    return set(origins)


def check(table, tree, fail):
    """fail(line, what) is called for every hole."""
    covered = set()
    origins = set()
    for rule in table.rules.values():
        for field in FIELDS:
            if not rule.fields[field]:
                fail(rule.line, f'{rule.name} has no {field}')
        for field in ONCE:
            if len(rule.fields[field]) > 1:
                fail(rule.line, f'{rule.name} has more than one {field}')
        origins |= check_sources(rule, table.origins, fail)
        for place in rule.fields['code']:
            if not tree.has_function(place):
                fail(rule.line, f'{rule.name}: no such code: {place}')
        for test in rule.fields['test']:
            script, is_script, case = test.partition('.pkt: ')
            if not is_script:
                if test not in tree.gtests:
                    fail(rule.line, f'{rule.name}: no such test: {test}')
                continue
            found = {(name, there) for name, there in tree.cases
                     if name == script + '.pkt' and fnmatch.fnmatchcase(there, case)}
            if not found or not case.strip('*'):
                fail(rule.line, f'{rule.name}: no such case: {test}')
            covered |= found
    for origin in sorted(table.origins - origins):
        fail(0, f'no rule has a source of this origin: {origin}')
    for script, case in sorted(tree.cases - covered):
        fail(0, f'belongs to no rule: {script}: {case}')
    for counter in tree.drop_counters():
        if counter not in NOT_SCRIPTED and not any(f'counter {counter} +' in text for text in tree.scripts.values()):
            fail(0, f'no script shows what {counter} counts')


def main(root):
    path = root / 'tests/conformance/rules.txt'
    holes = []
    table = parse(path.read_text(), lambda line, what: holes.append((line, what)))
    tree = Tree(root)
    check(table, tree, lambda line, what: holes.append((line, what)))
    for line, what in holes:
        print(f'{path.relative_to(root)}:{line}: {what}')
    rules = table.rules.values()
    single = sum(bool(rule.fields['single']) for rule in rules)
    print(f'{len(rules)} rules, {single} of a single source, {len(tree.cases)} cases of packet scripts, {len(holes)} holes')
    return 1 if holes or not rules else 0


if __name__ == '__main__':
    sys.exit(main(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else '.').resolve()))
