#!/usr/bin/env python3
"""All C and C++ files are formatted as .clang-format says. Exit 77 (skipped) without clang-format-16."""
import pathlib
import shutil
import subprocess
import sys

root = pathlib.Path(__file__).parents[2]
tool = shutil.which('clang-format-16')
if not tool:
    print('SKIPPED: clang-format-16 is not installed')
    sys.exit(77)
files = sorted(str(p) for top in ('lib', 'drivers', 'apps', 'tests', 'perf') for end in ('*.h', '*.cc', '*.c')
               for p in (root / top).rglob(end))
sys.exit(subprocess.run([tool, '--dry-run', '-Werror', *files]).returncode)
