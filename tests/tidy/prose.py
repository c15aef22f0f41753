#!/usr/bin/env python3
"""Pages stay short enough to be read: the words of all Markdown, and the length of its sentences.

    tests/tidy/prose.py [--list] [ROOT]

`--list` prints each page with its words, its sentences and its longest one, and every sentence above 30 words.

A word of the total is what `wc -w` counts. A sentence ends at a full stop, question or exclamation mark, and at the end of its
paragraph, item of a list, or cell of a table. Code blocks and headings have no sentences; `code` is one word; of a link its text counts.
"""
import argparse
import dataclasses
import pathlib
import re
import sys

from tree import files_of


@dataclasses.dataclass(frozen=True)
class Limits:
    """The defaults are those of this repository."""
    words: int = 30_000
    sentence_words: int = 35
    long_sentence_words: int = 30
    long_sentences_percent: float = 1
    # Pages whose sentences are still too long. A page is taken off as soon as it passes; none is added.
    not_yet: tuple = ()


NOT_YET = ()

FENCE = re.compile(r'^\s*(```|~~~)')
HEADING = re.compile(r'^#{1,6}\s')
TABLE_RULE = re.compile(r'^\s*\|?[\s:|-]*-[\s:|-]*$')
ITEM = re.compile(r'^\s*(?:[-*+]|\d+[.)])\s+')
INDENTED = re.compile(r'^(?: {4}|\t)')
CODE = re.compile(r'(`+).+?\1')
LINK = re.compile(r'!?\[([^\]]*)\]\([^)]*\)')
# Not "4.5 us" nor "e.g. this". A sentence may begin with a small letter: "net_tap is a port."
END = re.compile(r'(?<=[.!?])(?<!e\.g\.)(?<!i\.e\.)(?<!cf\.)(?<!vs\.)["\')*\]]*\s+')
WORD = re.compile(r'\w')


def plain(text):
    """Inline code becomes one word, which may begin a sentence."""
    return LINK.sub(r'\1', CODE.sub('Code', text)).replace('**', '')


def cells(line):
    return re.split(r'(?<!\\)\|', CODE.sub('Code', line.strip()).strip('|'))


def blocks(text):
    """(number of its first line, text) of each paragraph, item of a list and cell of a table."""
    paragraph, first, fenced, item = [], 0, False, False

    def finished():
        done = [(first, ' '.join(paragraph))] if paragraph else []
        paragraph.clear()
        return done

    for number, line in enumerate(text.splitlines(), 1):
        if FENCE.match(line):
            fenced = not fenced
            yield from finished()
        elif fenced:
            continue
        elif not line.strip() or HEADING.match(line) or TABLE_RULE.match(line):
            yield from finished()
            item = item and not line.strip()
        elif line.lstrip().startswith('|'):
            yield from finished()
            yield from ((number, cell) for cell in cells(line))
        elif INDENTED.match(line) and not paragraph and not item:
            continue  # A code block.
        else:
            if ITEM.match(line):
                yield from finished()
                item = True
            elif not line[0].isspace() and not paragraph:
                item = False
            first = first if paragraph else number
            paragraph.append(ITEM.sub('', line).strip())
    yield from finished()


def sentences(text):
    """(line, sentence, words)."""
    for line, block in blocks(text):
        for sentence in END.split(plain(block)):
            words = sum(1 for word in sentence.split() if WORD.search(word))
            if words:
                yield line, sentence, words


def problems(pages, limits):
    """Breaches of `limits` by `pages`, their texts by path."""
    words = sum(len(text.split()) for text in pages.values())
    if words > limits.words:
        yield f'{words} words of Markdown, {limits.words} at most'
    yield from (f'{page} is on the list of pages not yet done, and not there' for page in limits.not_yet if page not in pages)
    all_of_them = long_ones = 0
    for page, text in pages.items():
        found = list(sentences(text))
        too_long = [one for one in found if one[2] > limits.sentence_words]
        if page in limits.not_yet:
            if not too_long:
                yield f'{page} passes: take it off the list of pages not yet done'
            continue
        yield from (f'{page}:{line}: a sentence of {count} words, {limits.sentence_words} at most: {sentence[:60]}...'
                    for line, sentence, count in too_long)
        all_of_them += len(found)
        long_ones += sum(1 for one in found if one[2] > limits.long_sentence_words)
    if long_ones * 100 > all_of_them * limits.long_sentences_percent:
        yield (f'{long_ones} of {all_of_them} sentences have more than {limits.long_sentence_words} words, '
               f'{limits.long_sentences_percent} % at most')


def pages_of(root):
    return {str(path): (root / path).read_text() for path in files_of(root) if path.suffix == '.md'}


def show(pages, limits):
    for page, text in sorted(pages.items()):
        found = list(sentences(text))
        print(f'{len(text.split()):6} words {len(found):5} sentences, longest {max((one[2] for one in found), default=0):3}  {page}')
        for line, sentence, count in found:
            if count > limits.long_sentence_words:
                print(f'    {page}:{line}: {count}: {sentence}')


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--list', action='store_true')
    parser.add_argument('root', nargs='?', type=pathlib.Path, default=pathlib.Path(__file__).parents[2])
    arguments = parser.parse_args()
    pages = pages_of(arguments.root.resolve())
    limits = Limits(not_yet=NOT_YET)
    if arguments.list:
        show(pages, limits)
    found = list(problems(pages, limits))
    print('\n'.join(found + [f'prose: {len(found)} problems, {sum(len(text.split()) for text in pages.values())} words']))
    return 1 if found else 0


if __name__ == '__main__':
    sys.exit(main())
