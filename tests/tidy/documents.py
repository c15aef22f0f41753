#!/usr/bin/env python3
"""Documents stay true to the tree: links and paths that they name exist, and the README fits on a few screens.

    tests/tidy/documents.py [ROOT]

Checked are links of every .md file, paths in back quotes that begin with a folder of the top level, and documents (.md)
that a source cites.
"""
import pathlib
import re
import sys

from tree import files_of

README_BYTES = 12 * 1024
TOP_LEVEL = ('lib', 'apps', 'drivers', 'tests', 'perf', 'configs')
LINK = re.compile(r'\[[^\]]*\]\(([^)#\s]+)(?:#[^)]*)?\)')
QUOTED_PATH = re.compile(r'`((?:' + '|'.join(TOP_LEVEL) + r')/[A-Za-z0-9_./*-]+)`')
CITATION = re.compile(r'(?<![\w/.-])([A-Za-z0-9_./-]+\.md)\b')
SOURCES = ('.h', '.cc', '.c', '.S', '.toml', '.build', '.1', '.in')


def exists(root, path):
    return any(root.glob(path)) if '*' in path else (root / path).exists()


def problems_of_document(root, path, text):
    for number, line in enumerate(text.splitlines(), 1):
        for link in LINK.findall(line):
            if '://' not in link and not (root / path.parent / link).exists():
                yield f'{path}:{number}: links to {link}, which is not there'
        for named in QUOTED_PATH.findall(line):
            if not exists(root, named):
                yield f'{path}:{number}: names {named}, which is not there'


def problems_of_source(root, path, text):
    for number, line in enumerate(text.splitlines(), 1):
        for cited in CITATION.findall(line):
            if not (root / cited).exists() and not (root / path.parent / cited).exists():
                yield f'{path}:{number}: cites {cited}, which is not in the repository'


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parents[2]).resolve()
    files = files_of(root)
    problems = []
    for path in files:
        if path.is_relative_to('tests/tidy'):
            continue
        if path.suffix == '.md':
            problems += problems_of_document(root, path, (root / path).read_text())
        elif path.suffix in SOURCES:
            problems += problems_of_source(root, path, (root / path).read_text())
    readme = root / 'README.md'
    size = readme.stat().st_size if readme.exists() else 0
    if size > README_BYTES:
        problems.append(f'README.md has {size} bytes, {README_BYTES} at most')
    for module in sorted(p for p in root.glob('lib/*') if p.is_dir()):
        if not (module / 'README.md').exists():
            problems.append(f'{module.relative_to(root)} has no README.md')
    print('\n'.join(problems + [f'documents: {len(problems)} problems']))
    return 1 if problems else 0


if __name__ == '__main__':
    sys.exit(main())
