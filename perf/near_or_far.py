"""Rounds of measurements between two CPUs, told apart by whether these share a cache, for perf/run."""

import statistics

from rows import SMALL_FRAME, Row

# A bare round trip above it is one between CPUs that share no cache.
FAR_US = 0.8
ROUNDS = 5


def rows_by_state(name, measure_bare, measure, rows_of):
    """Both measure and return {figure: number}, and may return more. Threads and virtual CPUs move, so a round is of the state that bare round trips before
    and after it tell, and of none if these differ. Yields the rows that `rows_of` makes of the medians of a state's rounds; names of
    those of CPUs that share no cache end in `.far`."""
    rounds = {'': [], '.far': []}
    before = measure_bare()
    for _ in range(ROUNDS):
        figures = measure()
        after = measure_bare()
        if is_far(before) == is_far(after):
            rounds['.far' if is_far(before) else ''].append({**figures, **after})
        before = after
    for state, seen in rounds.items():
        yield Row(f'rounds_of_two.{name}{state}', len(seen), 'rounds')
        if seen:
            for row in rows_of(medians(seen)):
                row.name += state
                yield row


def medians(rounds):
    return {figure: statistics.median(one[figure] for one in rounds) for figure, value in rounds[0].items() if isinstance(value, (int, float))}


def is_far(bare):
    return bare[f'bare.{SMALL_FRAME}.round_trip_p50_us'] > FAR_US
