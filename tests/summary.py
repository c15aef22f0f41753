#!/usr/bin/env python3
"""Adds up the results of several meson test runs.

    tests/summary.py [--failed-steps N] TESTLOG.json ...
Prints what was skipped, also cases inside of programs that passed, what failed and what it said, then one line 'N passed (N of
their cases skipped), N failed, N skipped'; exit 1 on any failure, on a step that failed without a test failing, and when nothing ran.
"""
import argparse
import json
import re
import sys

# A reader that sees only the end of a run's output has to find the reason there.
FIRST_LINES = 10
LAST_LINES = 4
COMPLAINT = re.compile(r'FAILED|Failure|DIED|Error|ERROR|hangs|rror:')
# What GoogleTest and unittest say of cases that they skipped, at the end of a run.
SKIPPED_CASES = re.compile(r'^\[  SKIPPED \] (\d+) tests?, listed below:$|^(?:OK|FAILED) \((?:.*, )?skipped=(\d+)[,)]', re.MULTILINE)


def skipped_cases(result):
    said = result.get('stdout', '') + '\n' + result.get('stderr', '')
    return sum(int(of_google_test or of_unittest) for of_google_test, of_unittest in SKIPPED_CASES.findall(said))


def excerpt(result):
    """Of what a failed test printed: the first complaint with what follows it, and the end."""
    lines = (result.get('stdout', '') + '\n' + result.get('stderr', '')).strip().splitlines()
    start = next((i for i, line in enumerate(lines) if COMPLAINT.search(line)), 0)
    first = lines[start:start + FIRST_LINES]
    rest = lines[start + FIRST_LINES:]
    return first + ['...'] * (len(rest) > LAST_LINES) + rest[-LAST_LINES:]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--failed-steps', type=int, default=0)
    parser.add_argument('logs', nargs='*')
    arguments = parser.parse_args()
    passed, failed, skipped, said, inside = [], [], [], {}, {}
    for log in arguments.logs:
        with open(log) as lines:
            for line in lines:
                result = json.loads(line)
                name = f"{log.split('/')[0]}: {result['name']}"
                if result['result'] not in ('OK', 'EXPECTEDFAIL', 'SKIP'):
                    said[name] = [result['result'], *excerpt(result)]
                elif result['result'] != 'SKIP' and (cases := skipped_cases(result)):
                    inside[name] = inside.get(name, 0) + cases
                {'OK': passed, 'EXPECTEDFAIL': passed, 'SKIP': skipped}.get(result['result'], failed).append(name)
    for name in skipped:
        print(f'skipped: {name}')
    for name, cases in inside.items():
        print(f'skipped: {name}: {cases} of its cases')
    for name in failed:
        print(f'failed: {name}')
        for line in said[name]:
            print(f'    | {line[:200]}')
    failures = max(len(failed), arguments.failed_steps)
    within = f' ({sum(inside.values())} of their cases skipped)' if inside else ''
    print(f'{len(passed)} passed{within}, {failures} failed, {len(skipped)} skipped')
    return 1 if failures or not passed else 0


if __name__ == '__main__':
    sys.exit(main())
