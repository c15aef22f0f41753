"""Rows of the programs in perf/micro, for perf/run."""

import json
import os
import pathlib
import sys

from rows import Row, command

EMBEDDED = pathlib.Path(__file__).resolve().parents[1] / 'configs/embedded.toml'

# Of the micro-benchmarks: which are floors (a component of the name that begins with 'floor' is one, too), and which
# the table shows without --all.
FLOORS = {'icrc': 'copy', 'objects': '1000'}
SHOWN = {'icrc': ('copy', 'icrc', 'isal'), 'copy': ('floor_memcpy', 'auto'), 'objects': ('qp', 'cq', 'srq', 'mr')}


def value_of(one):
    """(value, unit, which is better) of one result of Google Benchmark."""
    if 'bytes_per_second' in one:
        return one['bytes_per_second'] / 1e9, 'GB/s', 'higher'
    if 'items_per_second' in one:
        return 1e9 / one['items_per_second'], 'ns', 'lower'
    if 'bytes_per_region' in one:
        return one['bytes_per_region'], 'B', 'lower'
    per = next((key for key in one if key.startswith('ns_per_')), 'cpu_time')
    # Where the clock on the wall counts, the benchmark says so.
    if per == 'cpu_time' and one['name'].endswith('/real_time'):
        per = 'real_time'
    return one[per], 'ns', 'lower'


def floor_part(program, parts):
    return next((part for part in parts if part == FLOORS.get(program) or part.startswith('floor')), None)


def is_in(few, many):
    """`few` are among `many`, in this order."""
    rest = iter(many)
    return all(part in rest for part in few)


def results(program, duration, *options, env=None):
    """Of one Google Benchmark program: components of the name -> value_of()."""
    name = program.name.removesuffix('_bench')
    report = json.loads(command([program, '--benchmark_format=json', f'--benchmark_min_time={duration / 5}', *options], env=env))
    values = {}
    for one in report['benchmarks']:
        if one.get('error_occurred'):
            print(f'perf/run: {one["name"]} is absent: {one.get("error_message", "")}', file=sys.stderr)
        elif one.get('run_type') != 'aggregate' or one['aggregate_name'] == 'median':
            parts = tuple(part for part in one['run_name'].split('/')
                          if part not in ('real_time', 'manual_time') and not part.startswith('iterations:'))
            values[parts[1:] if parts[0] == name and len(parts) > 2 else parts] = value_of(one)
    return values


def micro(program, duration, *options, env=None):
    """Rows of one Google Benchmark program. The floor of a/b/c/64 is the floor whose other components are among them,
    such as a/floor/64."""
    name = program.name.removesuffix('_bench')
    values = results(program, duration, *options, env=env)
    floors = {parts: floor_part(name, parts) for parts in values if floor_part(name, parts)}
    for parts, (value, unit, better) in values.items():
        floor = None
        if parts not in floors:
            floor = next((one for one, part in floors.items() if is_in([p for p in one if p != part], parts)), None)
        shown = name not in SHOWN or any(part in SHOWN[name] for part in parts)
        yield Row('.'.join((name, *parts)), value, unit, values[floor][0] if floor else None,
                  floors[floor].removeprefix('floor_') if floor else '', better, shown)


def objects(program, duration):
    """On devices of the process's own: of one that a service shares a program has but a share of the numbers."""
    yield from micro(program, duration, env=os.environ | {'UROCE_CONFIG': str(EMBEDDED)})


def key_lookup(program, duration):
    """Beside the rows of its floor, those of the lookup in a burst by the number of live regions, and how many times
    faster it is than DPDK's rte_hash with the same checks."""
    values = {}
    lives = {'1K': 1 << 10, '1M': 1 << 20, '16M': 1 << 24}
    for row in micro(program, duration, f'--benchmark_filter=/({"|".join(str(live) for live in lives.values())})$'):
        values[row.name] = row.value
        row.shown = row.name.startswith('key_lookup.table')
        yield row
    for name, live in lives.items():
        table, rte_hash = (values[f'key_lookup.{one}.burst.{live}'] for one in ('table', 'rte_hash'))
        yield Row(f'lookup_ns.{name}', table, 'ns')
        yield Row(f'lookup_vs_rte_hash.{name}', rte_hash / table, 'x')


def placement(program, duration):
    """Into memory that is cold beside the best kernel that computes the CRC while it copies, and beside memcpy without a
    CRC; into memory that is in cache beside the better CRC and then memcpy."""
    values = {parts: value for parts, (value, *_) in results(program, duration, '--benchmark_repetitions=5',
                                                             '--benchmark_enable_random_interleaving=true',
                                                             '--benchmark_report_aggregates_only=true').items()}
    for (region, way), value in sorted(values.items()):
        yield Row(f'placement.{region}.{way}.goodput', value, 'GB/s')
    fused = max(value for (region, way), value in values.items() if region == 'cold' and way.startswith('fused'))
    cold, single = values['cold', 'long_messages'], values['cold', 'one_packet']
    yield Row('placement.cold', cold / fused, 'x fused')
    yield Row('placement.cold.over_memcpy', cold / values['cold', 'memcpy'], 'x')
    yield Row('placement.cold.one_packet', single / fused, 'x fused')
    crc_first = max(values['hot', 'crc_memcpy'], values['hot', 'icrc_memcpy'])
    for name, way in ('', 'long_messages'), ('.one_packet', 'one_packet'):
        yield Row(f'placement.hot{name}', values['hot', way] / crc_first, 'x CRC+cp')


# What makes the rows of a micro-benchmark, where it is not micro() itself.
ROWS_OF = {'key_lookup': key_lookup, 'objects': objects, 'placement': placement}
