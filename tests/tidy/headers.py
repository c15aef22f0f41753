#!/usr/bin/env python3
"""Every header of lib/ and drivers/ compiles on its own.

    tests/tidy/headers.py ROOT COMPILER [FLAGS ...]
"""
import concurrent.futures
import os
import pathlib
import subprocess
import sys


def main():
    root, compiler = pathlib.Path(sys.argv[1]), sys.argv[2:]
    headers = sorted(p.relative_to(root) for top in ('lib', 'drivers') for p in (root / top).rglob('*.h'))

    def check(header):
        include = header.relative_to('lib') if header.parts[0] == 'lib' else header
        run = subprocess.run(compiler + ['-std=c++20', '-fsyntax-only', '-I', str(root / 'lib'), '-I', str(root), '-x', 'c++', '-'],
                             input=f'#include "{include}"\n', capture_output=True, text=True)
        return header, run

    bad = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for header, run in pool.map(check, headers):
            if run.returncode != 0:
                bad += 1
                print(f'{header} does not compile on its own:\n{run.stderr}')
    print(f'{len(headers)} headers, {bad} not self-contained')
    return 1 if bad else 0


if __name__ == '__main__':
    sys.exit(main())
