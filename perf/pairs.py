"""Two measurements that are set beside each other, as pairs of runs, for perf/run."""

import statistics


def measure_pairs(count, ours, theirs):
    """So many pairs of what the two return, run one right after the other, each first in every second pair: virtual CPUs are as near
    to each other in both runs of most pairs, so that the median of the pairs' ratios suffers less from their moves than the ratio of
    two medians."""
    pairs = []
    for i in range(count):
        if i % 2 == 0:
            mine, other = ours(), theirs()
        else:
            other, mine = theirs(), ours()
        pairs.append((mine, other))
    return pairs


class Pairs:
    """Numbers of pairs, all of which count. `ratio`: the median of the pairs' ratios; `ours`: that of our numbers; `theirs`: what makes
    that ratio of it; `spread`: between which bounds the middle half of the ratios lies."""

    def __init__(self, pairs):
        ratios = [mine / other for mine, other in pairs]
        self.ratio = statistics.median(ratios)
        self.ours = statistics.median(mine for mine, _ in pairs)
        self.theirs = self.ours / self.ratio
        quarter, _, three_quarters = statistics.quantiles(ratios, n=4)
        self.spread = three_quarters - quarter
