"""What perf/run shows, and what its parts share."""

import subprocess

# Frames that a WRITE's messages travel in: Ethernet 14, IPv4 20, UDP 8, BTH 12, RETH 16, payload, ICRC 4.
HEADERS = 74
SMALL, LARGE = 64, 4096
SMALL_FRAME, LARGE_FRAME = SMALL + HEADERS, LARGE + HEADERS


class Failure(Exception):
    pass


class Row:
    """One line of the table. `better` is 'higher' or 'lower'; the ratio is above 1 when we beat the floor."""

    def __init__(self, name, value, unit, floor=None, floor_name='', better='higher', shown=True, note=''):
        self.name, self.value, self.unit, self.floor, self.floor_name = name, value, unit, floor, floor_name
        self.shown, self.note = shown, note
        self.ratio = None
        if floor and value:
            self.ratio = value / floor if better == 'higher' else floor / value


def command(arguments, **more):
    run = subprocess.run([str(a) for a in arguments], capture_output=True, text=True, **more)
    if run.returncode != 0:
        raise Failure(f'{" ".join(str(a) for a in arguments)}: {run.stderr.strip() or f"status {run.returncode}"}')
    return run.stdout


def figure(value):
    return '-' if value is None else f'{value:.3g}' if value < 100 else f'{value:.0f}'
