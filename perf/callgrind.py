"""Whose the instructions are that callgrind has counted, for perf/run."""

import collections
import re

# The clock that counted_clock.cc replaces in what is counted.
SYSTEM_CLOCK = '--poller-cycle-clock', 'false'


def layer_of(function, layers):
    """Of "name [object]"; None: the caller's."""
    name, _, path = function.partition(' [')
    said = path.rsplit('/', 1)[-1]
    return next((layer for layer, beginnings in layers if name.startswith(beginnings) or said.startswith(beginnings)), None)


def instructions_by_layer(profile, layers):
    """Of the text of callgrind's file. `layers`: name, and what names of functions or of their objects begin with. A function
    of no layer counts for those that call it, in the proportion of what the calls of each take."""
    own, calls = read_profile(profile)
    sums = collections.Counter()
    callers = collections.defaultdict(collections.Counter)
    for (caller, callee), count in calls.items():
        callers[callee][caller] += count

    def charge(function, count, seen):
        layer = layer_of(function, layers)
        paid = {caller: taken for caller, taken in callers[function].items() if caller not in seen}
        if layer or not paid:
            sums[layer or 'other'] += count
            return
        whole = sum(paid.values())
        for caller, taken in paid.items():
            charge(caller, count * taken / whole, seen | {caller})

    for function, count in own.items():
        charge(function, count, {function})
    return sums


def read_profile(text):
    """Instructions of functions themselves, and of calls: (caller, callee) -> all that they took. Names are
    "name [object]"; the format numbers names, and says them once."""
    names, own, calls = {}, collections.Counter(), collections.Counter()
    objects = {'ob': '', 'cob': ''}
    function = callee = None

    def name_of(kind, word):
        number, said = re.fullmatch(r'\((\d+)\)(?: (.*))?', word).groups()
        return names.setdefault((kind, number), said)

    is_call = False
    for line in text.splitlines():
        key, _, value = line.partition('=')
        if key in objects:
            objects[key] = name_of('object', value)
        elif key == 'fn':
            function = f'{name_of("function", value)} [{objects["ob"]}]'
        elif key == 'cfn':
            callee = f'{name_of("function", value)} [{objects["cob"] or objects["ob"]}]'
        elif key == 'calls':
            is_call = True
        elif re.match(r'[+*\d-]', line):
            count = int(line.split()[1]) if len(line.split()) > 1 else 0
            if is_call:
                calls[function, callee] += count
                objects['cob'] = ''
            else:
                own[function] += count
            is_call = False
    return own, calls
