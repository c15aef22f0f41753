#!/usr/bin/env python3
"""Shows that prose.py counts as it says, and notices what it is there for."""
import pathlib
import subprocess
import sys
import tempfile

import prose

LIMITS = prose.Limits(words=1000, sentence_words=8, long_sentence_words=6, long_sentences_percent=50)

# A page, and how many words its sentences have.
COUNTS = [
    ('a paragraph', 'One two three.\nFour five. Six?\n', [3, 2, 1]),
    ('a sentence over lines', 'One two\nthree four.\n', [4]),
    ('no full stop', 'One two\n\nthree\n', [2, 1]),
    ('a small letter begins', 'One two. net_tap is one.\n', [2, 3]),
    ('numbers and abbreviations', 'It takes 4.5 us, e.g. here, i.e. there.\n', [8]),
    ('a closing bracket', '(One two.) Three.\n', [2, 1]),
    ('bold', '**One two.** Three four.\n', [2, 2]),
    ('code is one word', 'Run `a b c. d` and `e`.\n', [4]),
    ('a link is its text', 'See [one two](three/four.md) now.\n', [4]),
    ('a dash is no word', 'One - two | three.\n', [3]),
    ('headings', '# One two three\n\nFour.\n\n## Five six\nSeven.\n', [1, 1]),
    ('items', 'One:\n\n- two three\n  four\n* five\n1. six seven\n', [1, 3, 1, 2]),
    ('a paragraph in an item', '- one\n\n    two three\n\nfour\n', [1, 2, 1]),
    ('a fence', 'One.\n\n```sh\na b c d e\n```\n\nTwo three.\n', [1, 2]),
    ('a fence in an item', '1. One\n\n   ```\n   a b c\n   ```\n2. two three\n', [1, 2]),
    ('indented code', 'One:\n\n    a b c d e\n    f\n\nTwo.\n', [1, 1]),
    ('a table', '| one two | three |\n|---|:--:|\n| four. five six | `a | b` |\n', [2, 1, 1, 2, 1]),
]

# Pages, and what is said of them; None: nothing.
BREACHES = [
    ('a short page', {'a.md': 'One two three.\n'}, (), None),
    ('many words', {'a.md': 'one. ' * 600, 'b.md': 'one. ' * 401}, (), '1001 words of Markdown, 1000 at most'),
    ('words of code', {'a.md': '```\n' + 'one ' * 1000 + '\n```\n'}, (), '1002 words'),
    ('a long sentence', {'a.md': 'One.\n\nTwo.\none two three four\nfive six seven eight nine.\n'}, (), 'a.md:3: a sentence of 9 words, 8 at most'),
    ('the longest sentence', {'a.md': 'One.\nOne two three four five six seven eight.\n'}, (), None),
    ('many long ones', {'a.md': 'One.\n' + 'One two three four five six seven.\n' * 2}, (), '2 of 3 sentences have more than 6 words, 50 % at most'),
    ('a page not yet done', {'a.md': 'one ' * 9, 'b.md': 'One.\n'}, ('a.md',), None),
    ('a page that is done', {'a.md': 'One.\n'}, ('a.md',), 'a.md passes: take it off'),
    ('a page that has gone', {'b.md': 'One.\n'}, ('a.md',), 'a.md is on the list of pages not yet done, and not there'),
]


def found_by_command(text):
    """Status and output of the command on a tree of one page."""
    with tempfile.TemporaryDirectory() as tree:
        for page in ('lib/wire/README.md', *prose.NOT_YET):
            path = pathlib.Path(tree, page)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text('one ' * 40)
        pathlib.Path(tree, 'lib/wire/README.md').write_text(text)
        run = subprocess.run([sys.executable, str(pathlib.Path(prose.__file__)), tree], capture_output=True, text=True)
    return run.returncode, run.stdout


def main():
    results = []
    for name, page, expected in COUNTS:
        counted = [words for _, _, words in prose.sentences(page)]
        results.append((name, counted == expected, counted))
    for name, pages, not_yet, expected in BREACHES:
        limits = prose.Limits(**{**vars(LIMITS), 'not_yet': not_yet})
        said = list(prose.problems(pages, limits))
        results.append((name, said == [] if expected is None else len(said) == 1 and expected in said[0], said))
    for name, text, expected in (('the command', 'One two.\n', 0), ('the command notices', 'one ' * 36, 1)):
        status, said = found_by_command(text)
        results.append((name, status == expected, said))
    for name, good, seen in results:
        print(('ok  ' if good else 'FAIL'), name, '' if good else seen)
    return 0 if all(good for _, good, _ in results) else 1


if __name__ == '__main__':
    sys.exit(main())
