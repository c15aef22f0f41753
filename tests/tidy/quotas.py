#!/usr/bin/env python3
"""The table of shares in lib/service/README.md is true: the tests that it names exist, and its keys are those of the service.

    tests/tidy/quotas.py [ROOT]
"""
import pathlib
import re
import sys

README = 'lib/service/README.md'
HEADING = '## What users share'
COLUMNS = 5  # resource, quota of a user, reserve, where enforced, test
KEY = re.compile(r'`service\.(?!cc`|h`)([a-z_]+)`')
NAMED_KEY = re.compile(r'\{"([a-z_]+)",')
FILE = re.compile(r'`([a-z_]+\.(?:h|cc))`')
TEST = re.compile(r'`([A-Za-z_]\w*)\.([A-Za-z_]\w*)`')


def rows_of(text):
    """The cells of each row, without the heading of the table."""
    part = text.partition(HEADING)[2].partition('\n## ')[0]
    lines = [line for line in part.splitlines() if line.startswith('|')]
    return [[cell.strip() for cell in line.strip('|').split('|')] for line in lines[2:]]


def exists(root, suite, name):
    cc = re.compile(rf'TEST(?:_[FP])?\({suite}, {name}\)')
    py = re.compile(rf'^class {suite}\b.*?^    def {name}\(', re.S | re.M)
    return any(cc.search(path.read_text()) for path in root.glob('tests/**/*.cc')) or \
        any(py.search(path.read_text()) for path in root.glob('tests/**/*.py'))


def problems(root):
    rows = rows_of((root / README).read_text())
    if not rows:
        yield f'{README}: there is no table below "{HEADING}"'
    keys = set(NAMED_KEY.findall((root / 'lib/service/configuration.cc').read_text()))
    example = (root / 'configs/serve.toml').read_text()
    named = set()
    for row in rows:
        if len(row) != COLUMNS:
            yield f'{README}: "{row[0]}" has {len(row)} columns, not {COLUMNS}'
            continue
        for key in KEY.findall(' '.join(row)):
            named.add(key)
            if key not in keys:
                yield f'{README}: "{row[0]}" names service.{key}, which is no key'
        for file in FILE.findall(row[3]):
            if not any(root.glob(f'lib/**/{file}')):
                yield f'{README}: "{row[0]}" is enforced in {file}, which is not there'
        if not FILE.search(row[3]):
            yield f'{README}: "{row[0]}" does not say where it is enforced'
        tests = TEST.findall(row[4])
        if not tests:
            yield f'{README}: "{row[0]}" has no test'
        for suite, name in tests:
            if not exists(root, suite, name):
                yield f'{README}: "{row[0]}" has test {suite}.{name}, which is not there'
    for key in sorted(key for key in keys if key.endswith(('_per_user', '_per_program'))):
        if key not in named:
            yield f'{README}: service.{key} is not in the table'
        if not re.search(rf'^(# )?{key} = ', example, re.M):
            yield f'configs/serve.toml: {key} is not explained'


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parents[2]).resolve()
    found = list(problems(root))
    for problem in found:
        print(problem, file=sys.stderr)
    sys.exit(1 if found else 0)


if __name__ == '__main__':
    main()
