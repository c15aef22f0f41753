#!/usr/bin/env python3
"""Rules of the house that a machine can check. Fails on a broken rule; reports long files and functions.

    tests/tidy/tidy.py [ROOT [FOLDER]]

FOLDER: where the graph of modules and rooms is written, modules.dot and modules.svg.
"""
import pathlib
import re
import sys

import graph
from tree import files_of

TOP_LEVEL = {'meson.build', 'meson_options.txt', 'LICENSE', 'README.md', 'lib', 'apps', 'drivers', 'tests', 'perf', 'configs'}

# Arrows point down only: a module may include itself and what stands strictly lower.
LEVEL = {
    'base': 0,
    'wire': 1, 'queue': 1, 'mem': 1, 'port': 1, 'copy': 1, 'block': 1, 'host': 1,
    'net': 2, 'qp': 2, 'faults': 2, 'capture': 2, 'drivers': 2, 'block_drivers': 2,
    'cm': 3,
    'engine': 4,
    'verbs': 5, 'service': 5,
    'rdmacm': 6, 'nvmf': 6,
    # Of programs; nothing of the stack sees them.
    'client': 7, 'nvmf_host': 7, 'nvmf_target': 7,
}
ENGINE = LEVEL['engine']
# Rooms inside a module, bottom up. A module without an entry is one room.
ROOMS = {
    'engine': ('configuration', 'platform', 'poller', 'scheduling', 'device'),
    'nvmf': ('format', 'subsystem', 'queue', 'rdma'),
}
# Rooms of a module that has others: policies, which see nothing of their module but themselves.
POLICIES = {
    'qp': ('congestion',),
}
# Linked beside the stack, as any program of verbs is: of what stands lower they see this only.
SEES = {
    'block_drivers': ('base', 'block'),
    'nvmf': ('base', 'block'),
    'client': ('base',),
    'nvmf_host': ('base', 'nvmf'),
}
# What is built without the tests.
NEEDS_NO_TESTS = ('lib', 'drivers', 'apps', 'perf')
LIBURING = re.compile(r'#include\s*[<"]liburing')

BELOW_ENGINE_BANNED = [
    (re.compile(r'\bstd::chrono\b|#include <chrono>|\bclock_gettime\b|\bgettimeofday\b|\brdtscp?\b|__rdtscp?\b|\btime\(NULL|\btime\(nullptr'),
     'reads a clock'),
    (re.compile(r'\brandom_device\b|\bmt19937|\brand\(|\bsrand\(|\bdrand48\b|\bgetrandom\b|\barc4random'), 'makes randomness'),
]
DPDK = re.compile(r'#include\s*[<"]rte_')
INCLUDE = re.compile(r'#include\s*"([^"]+)"')
BAD_NAME = re.compile(r'(^|[_/])(utils?|common|misc|helpers?|manager|mgr)([_./]|$)')
LEFT_OVER = re.compile(r'\b(TODO|FIXME|XXX|HACK)\b|#if 0\b|\bif \(false\)')
# Threads, pollers and peers are "it"; a doc comment is read alone, on hover.
COMMENT = re.compile(r'(?:^|\s)//+ ?(.*)')
PRONOUN = re.compile(r'\b(who(m|ever)?|(some|no|any)body|he|his|him)\b', re.IGNORECASE)
NAMED_WHO = re.compile(r'`who`|superuser, who')
NEEDS_THE_ONE_BEFORE = re.compile(r'(Of|The same|That|It|As|Likewise|Those|These|Such|This|And|Also)\b|\.\.\.')
NEEDS_THE_NEXT_ONE = re.compile(r'\bas the next\b')
WORDS_CHECKED = ('lib', 'drivers', 'apps', 'perf')
FILE_LINES = 400
FUNCTION_LINES = 60


def module_of(path):
    """The module a path (relative to the root) belongs to, or None for tests, apps and perf."""
    parts = path.parts
    if parts[0] == 'drivers':
        return 'block_drivers' if parts[1].startswith('block') else 'drivers'
    return parts[1] if parts[0] == 'lib' and len(parts) > 2 else None


def included_module(name):
    if name.startswith('drivers/block'):
        return 'block_drivers'
    first = name.split('/')[0]
    return first if first in LEVEL else None


def room_of(path):
    """Where a path stands in its module: (module, room), the room None without one."""
    module = module_of(path)
    if module not in ROOMS:
        return module, None
    return module, path.parts[2] if len(path.parts) > 3 else None


def check_rooms(path, text, fail):
    module, room = room_of(path)
    if module not in ROOMS or path.suffix not in ('.h', '.cc', '.c'):
        return
    rooms = ROOMS[module]
    if room not in rooms:
        return fail(path, 0, f'stands in no room of {module}: ' + ', '.join(rooms))
    for number, line in enumerate(text.splitlines(), 1):
        found = INCLUDE.match(line.strip())
        parts = found.group(1).split('/') if found else ()
        if len(parts) > 2 and parts[0] == module and parts[1] in rooms and rooms.index(parts[1]) > rooms.index(room):
            fail(path, number, f'includes upwards: {module}/{room} -> {module}/{parts[1]}')


def check_policies(path, text, fail):
    module = module_of(path)
    room = path.parts[2] if len(path.parts) > 3 else None
    if room not in POLICIES.get(module, ()) or path.suffix not in ('.h', '.cc', '.c'):
        return
    for number, line in enumerate(text.splitlines(), 1):
        found = INCLUDE.match(line.strip())
        parts = found.group(1).split('/') if found else ()
        if len(parts) > 1 and parts[0] == module and parts[1] != room:
            fail(path, number, f'{module}/{room} sees nothing else of {module}')


def check_circles(includes, fail):
    for circle in graph.circles(includes.edges):
        fail(circle[0], 0, 'a circle of includes: ' + ', '.join(circle))


def draw_rooms(includes, folder):
    def name_of(unit):
        module, room = room_of(pathlib.Path(unit + '.h'))
        return module if room is None else f'{module}/{room}'

    def level_of(name):
        module, _, room = name.partition('/')
        return LEVEL[module], ROOMS[module].index(room) if room else 0

    text = graph.dot(includes.rooms(name_of), level_of)
    (folder / 'modules.dot').write_text(text)
    if not graph.draw(text, folder / 'modules.svg'):
        print('no modules.svg: graphviz is not installed')


def check_layers(path, text, fail):
    module = module_of(path)
    if module is None:
        return
    if module not in LEVEL:
        return fail(path, 0, f"module '{module}' has no level in tests/tidy/tidy.py")
    level = LEVEL[module]
    for number, line in enumerate(text.splitlines(), 1):
        found = INCLUDE.match(line.strip())
        if found:
            target = included_module(found.group(1))
            if target and target != module and LEVEL[target] >= level:
                fail(path, number, f'includes upwards or sideways: {module} (level {level}) -> {target} (level {LEVEL[target]})')
            elif target and target != module and target not in SEES.get(module, LEVEL):
                seen = ' and '.join(SEES[module]) or 'itself'
                fail(path, number, f'{module} sees {seen} only, not {target}')
        if DPDK.search(line) and module not in ('engine', 'drivers'):
            fail(path, number, 'includes DPDK: only engine and drivers may')
        if LIBURING.search(line) and module != 'block_drivers':
            fail(path, number, 'includes liburing: only block drivers may')
        if (level < ENGINE or module == 'nvmf') and module not in ('drivers', 'block_drivers'):
            code = line.split('//')[0]
            for pattern, what in BELOW_ENGINE_BANNED:
                if pattern.search(code):
                    fail(path, number, f'{what} below engine')


def check_tests(path, lines, fail):
    if path.parts[0] not in NEEDS_NO_TESTS:
        return
    for number, line in enumerate(lines, 1):
        found = INCLUDE.match(line.strip())
        if found and found.group(1).startswith('tests/'):
            fail(path, number, 'includes a file of tests/, without which it is built, too')


def check_words(path, lines, fail):
    if path.parts[0] not in WORDS_CHECKED or path.suffix not in ('.h', '.cc'):
        return
    before = ''
    for number, line in enumerate(lines, 1):
        found = COMMENT.search(line)
        if found and (said := PRONOUN.search(NAMED_WHO.sub('', found.group(1)))):
            fail(path, number, f'"{said.group(0)}" in a comment: threads, pollers and peers are "it"')
        doc = line.strip().startswith('/// ')
        first = doc and not before.strip().startswith('///')
        if (first and NEEDS_THE_ONE_BEFORE.match(line.strip()[4:])) or (doc and NEEDS_THE_NEXT_ONE.search(line)):
            fail(path, number, 'a doc comment that cannot be read alone')
        before = line


def functions(lines):
    """(first line, length) of every function-like block: it opens at column 0 or, in a class, at column 2."""
    start = {}
    for number, line in enumerate(lines, 1):
        for indent in ('', '  '):
            opens = re.match(indent + r'[^\s#/}].*', line)
            if opens and not line.startswith(indent + '}'):
                if not re.match(indent + r'(namespace|struct|class|enum|union|extern|public|private|using|typedef|template|static_assert)\b', line):
                    start.setdefault(indent, number)
            if line.rstrip() == indent + '}' and indent in start:
                yield start[indent], number - start[indent] + 1
            if line.startswith(indent + '}') or line.rstrip().endswith(';') and re.match(indent + r'\S', line):
                start.pop(indent, None)


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parents[2]).resolve()
    files = files_of(root)
    failures = []
    report = []

    def fail(path, line, what):
        failures.append(f'{path}:{line}: {what}' if line else f'{path}: {what}')

    for path in files:
        top = path.parts[0]
        if top not in TOP_LEVEL and not top.startswith('.'):
            fail(path, 0, 'the top level is fixed')
        if BAD_NAME.search(str(path)):
            fail(path, 0, 'a name that says nothing (util, common, misc, helper, manager)')
        if path.suffix not in ('.h', '.cc', '.c', '.py', '.sh') and path.suffix != '':
            continue
        try:
            text = (root / path).read_text()
        except UnicodeDecodeError:
            continue
        lines = text.splitlines()
        if path.suffix in ('.h', '.cc', '.c'):
            check_layers(path, text, fail)
            check_rooms(path, text, fail)
            check_policies(path, text, fail)
            check_tests(path, lines, fail)
            check_words(path, lines, fail)
            if path.suffix == '.h' and top in ('lib', 'drivers') and '#pragma once' not in text and 'ifndef' not in text:
                fail(path, 0, 'no include guard')
            report += [(f'{path}:{first}', length, 'function') for first, length in functions(lines) if length > FUNCTION_LINES]
        if path.name != 'tidy.py':
            for number, line in enumerate(lines, 1):
                if LEFT_OVER.search(line):
                    fail(path, number, 'left over: ' + line.strip()[:80])
        if len(lines) > FILE_LINES:
            report.append((str(path), len(lines), 'file'))

    includes = graph.Graph(root, files)
    check_circles(includes, fail)
    if len(sys.argv) > 2:
        draw_rooms(includes, pathlib.Path(sys.argv[2]))

    for where, length, kind in sorted(report, key=lambda r: -r[1]):
        print(f'long {kind}: {where}: {length} lines')
    for line in failures:
        print(line)
    print(f'tidy: {len(files)} files, {len(failures)} rules broken, {len(report)} long files or functions reported')
    return 1 if failures else 0


if __name__ == '__main__':
    sys.exit(main())
