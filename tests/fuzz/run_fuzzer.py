#!/usr/bin/env python3
"""Runs a fuzzer from the inputs that are kept for it, and shows how much of the code it covers.

    tests/fuzz/run_fuzzer.py FUZZER --kept FOLDER [--seeds FOLDER] [--runs N] [--seconds S] [--grow] [-- OPTION_OF_LIBFUZZER ...]

First every input of FOLDER is tried once, then new ones are made from them: N of them, or for S seconds (default:
UROCE_FUZZ_SECONDS, or 20). What is found is forgotten, except with --grow: then FOLDER holds afterwards the fewest inputs
that reach each edge of the code that was ever reached. An input that breaks something is printed in base64.

Decisions:
- One table of fuzzers (meson.build) and this program give every fuzzer the same limits, coverage and report. Cost: a layer between meson
  and libFuzzer.
- Seconds bound the runs of CI, because a minute for each would be a fifth of its hour. Cost: what a run tries depends on the machine.
- Kept inputs cover edges, not counts of edges (--grow): a few dozen small files. Cost: libFuzzer has to find again what differs in counts
  only.
"""
import argparse
import base64
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

# Of one input. Far more than the slowest needs under sanitizers where it is run only when no other program wants the CPU (tests/run).
INPUT_SECONDS = 120
COVERAGE = re.compile(r'#(\d+)\s+(INITED|DONE)\s+cov: (\d+) ft: (\d+)(?: corp: (\d+)/)?')


def parse_arguments():
    own, options = (sys.argv[1:], [])
    if '--' in own:
        at = own.index('--')
        own, options = own[:at], own[at + 1:]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('fuzzer', type=pathlib.Path)
    parser.add_argument('--kept', type=pathlib.Path, required=True)
    parser.add_argument('--seeds', type=pathlib.Path)
    parser.add_argument('--runs', type=int)
    parser.add_argument('--seconds', type=int, default=int(os.environ.get('UROCE_FUZZ_SECONDS', '20')))
    parser.add_argument('--grow', action='store_true')
    return parser.parse_args(own), options


def run(fuzzer, arguments, folder):
    """libFuzzer's exit status; what it says is passed on, and kept in a file of the folder."""
    log = folder / 'log'
    with open(log, 'w') as said:
        process = subprocess.Popen([str(fuzzer), *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, text=True, errors='replace', cwd=folder)
        for line in process.stdout:
            said.write(line)
            # Of each new input there is a line.
            if not re.match(r'#\d+\s+(NEW|REDUCE|pulse|RELOAD)\b', line):
                print(line, end='', flush=True)
    return process.wait(), log.read_text()


def show_coverage(name, said):
    for count, when, edges, features, inputs in COVERAGE.findall(said):
        what = 'kept inputs' if when == 'INITED' else f'{count} inputs'
        print(f'{name}: {what} cover {edges} edges, {features} features')


def main():
    arguments, options = parse_arguments()
    fuzzer, name = arguments.fuzzer.resolve(), arguments.fuzzer.name
    given = [str(folder.resolve()) for folder in (arguments.kept, arguments.seeds) if folder and folder.is_dir()]
    with tempfile.TemporaryDirectory(prefix=f'uroce-{name}-') as temporary:
        folder = pathlib.Path(temporary)
        for made in ('found', 'broken', 'fewest'):
            (folder / made).mkdir()
        limit = [f'-runs={arguments.runs}'] if arguments.runs else [f'-max_total_time={arguments.seconds}']
        status, said = run(fuzzer, [*options, *limit, '-print_final_stats=1', f'-timeout={INPUT_SECONDS}',
                                    f'-artifact_prefix={folder}/broken/', str(folder / 'found'), *given], folder)
        show_coverage(name, said)
        for input_file in (folder / 'broken').iterdir():
            print(f'{name}: {input_file.name} breaks something; it is, in base64:\n{base64.b64encode(input_file.read_bytes()).decode()}')
        if status == 0 and not COVERAGE.search(said):
            print(f'{name}: it did not say what it covers')
            status = 1
        if status == 0 and arguments.grow:
            # Without counters: an input for every edge, not for every number of times that it is passed.
            status, _ = run(fuzzer, [*options, '-merge=1', '-set_cover_merge=1', '-use_counters=0', str(folder / 'fewest'),
                                     *given, str(folder / 'found')], folder)
            if status == 0:
                shutil.rmtree(arguments.kept, ignore_errors=True)
                shutil.copytree(folder / 'fewest', arguments.kept)
    return 1 if status else 0


if __name__ == '__main__':
    sys.exit(main())
