#!/usr/bin/env python3
"""Every header of lib/ and drivers/ compiles on its own.

    tests/tidy/headers.py ROOT BUILD COMPILER [FLAGS ...]

That of most headers the build has shown already: there is a source that begins with it, and its object is
newer than the header. Only the others are compiled here.
"""
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys

# Nothing but comments stands before it.
FIRST_INCLUDE = re.compile(r'(?:\s|//[^\n]*|/\*.*?\*/)*#\s*include\s+["<]([^">]+)[">]', re.DOTALL)


def include_of(header):
    return str(header.relative_to('lib') if header.parts[0] == 'lib' else header)


def compiled_first(build):
    """What some source begins with, and when the latest such object was made."""
    made = {}
    for entry in json.loads((build / 'compile_commands.json').read_text()):
        source, compiled = (pathlib.Path(entry['directory'], entry[of]) for of in ('file', 'output'))
        first = FIRST_INCLUDE.match(source.read_text()) if source.exists() and compiled.exists() else None
        if first and compiled.stat().st_mtime_ns >= source.stat().st_mtime_ns:
            made[first[1]] = max(made.get(first[1], 0), compiled.stat().st_mtime_ns)
    return made


def main():
    root, build, compiler = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3:]
    headers = sorted(p.relative_to(root) for top in ('lib', 'drivers') for p in (root / top).rglob('*.h'))
    made = compiled_first(build)
    left = [h for h in headers if made.get(include_of(h), 0) < (root / h).stat().st_mtime_ns]

    def check(header):
        return header, subprocess.run(
            compiler + ['-std=c++20', '-fsyntax-only', '-I', str(root / 'lib'), '-I', str(root), '-x', 'c++', '-'],
            input=f'#include "{include_of(header)}"\n', capture_output=True, text=True)

    bad = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for header, run in pool.map(check, left):
            if run.returncode != 0:
                bad += 1
                print(f'{header} does not compile on its own:\n{run.stderr}')
    print(f'{len(headers)} headers, {len(left)} of them compiled here, {bad} not self-contained')
    return 1 if bad else 0


if __name__ == '__main__':
    sys.exit(main())
