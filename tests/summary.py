#!/usr/bin/env python3
"""Adds up the results of several meson test runs.

    tests/summary.py [--failed-steps N] TESTLOG.json ...
Prints what was skipped and what failed, then one line 'N passed, N failed, N skipped'; exit 1 on any failure,
on a step that failed without a test failing, and when nothing ran.
"""
import argparse
import json
import sys


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--failed-steps', type=int, default=0)
    parser.add_argument('logs', nargs='*')
    arguments = parser.parse_args()
    passed, failed, skipped = [], [], []
    for log in arguments.logs:
        with open(log) as lines:
            for line in lines:
                result = json.loads(line)
                name = f"{log.split('/')[0]}: {result['name']}"
                {'OK': passed, 'EXPECTEDFAIL': passed, 'SKIP': skipped}.get(result['result'], failed).append(name)
    for name in skipped:
        print(f'skipped: {name}')
    for name in failed:
        print(f'failed: {name}')
    failures = max(len(failed), arguments.failed_steps)
    print(f'{len(passed)} passed, {failures} failed, {len(skipped)} skipped')
    return 1 if failures or not passed else 0


if __name__ == '__main__':
    sys.exit(main())
