"""What a reader of counts learns about one of n devices: a bound by clones.

A reader sees which reports n devices sent, with a local loss of at most epsilon, not whose. Each
report of another device is, with probability ``exp(-epsilon)``, as good as one of two copies of the
device's own (Feldman, McMillan and Talwar, "Hiding among the clones", FOCS 2021). Any function of
the reports is at least as private as the pair ``(A + D, C - A + 1 - D)`` and
``(A + 1 - D, C - A + D)`` with ``C ~ Bin(n - 1, exp(-epsilon))``, ``A ~ Bin(C, 1/2)`` and
``D ~ Bernoulli(exp(epsilon) / (exp(epsilon) + 1))``. That holds for every local mechanism; the
smaller bound of the authors' later paper does not. All roundings are upwards.
"""

from __future__ import annotations

from functools import lru_cache
from math import exp, lgamma, log, log1p, sqrt

import numpy as np

from calmstream.estimators.arrays import Counts, Floats

_SPREAD = 12.0  # standard deviations of C, and beyond that 50 clones, within which it is summed
_BLOCK = 50.0
"""Blocks of C per standard deviation. More clones hide better, so a block counts as its least C."""

_SLACK = 1.0 + 1e-6
"""Factor above the errors of the logarithms of factorials, which are below 1e-7 at n = 10^8."""

_TERMS = 200_000
_STEPS = 50


@lru_cache(maxsize=1024)
def central_epsilon(epsilon: float, n: int, delta: float) -> float:
    """Return an epsilon, at most the local one, with which n shuffled reports are private."""
    low, high = 0.0, epsilon
    for _ in range(_STEPS):
        if high - low < 1e-4 * high:
            break
        middle = (low + high) / 2.0
        if divergence(epsilon, n, middle) <= delta:
            high = middle
        else:
            low = middle
    return high


def divergence(epsilon: float, n: int, central: float) -> float:
    """Return the delta at which n shuffled reports are (central, delta)-private, or more."""
    probability = exp(-epsilon)
    clones, chances, missed = _clones(n - 1, probability)
    own = 1.0 / (1.0 + probability)
    each = _given_clones(clones, own, exp(central))
    return min(float(chances @ each) * _SLACK + missed, 1.0)


def _clones(n: int, probability: float) -> tuple[Counts, Floats, float]:
    """Return values of C, their probabilities, and the probability of all others."""
    mean, spread = n * probability, sqrt(n * probability * (1.0 - probability))
    reach = _SPREAD * spread + 50.0
    first, last = max(0, int(mean - reach)), min(n, int(mean + reach) + 1)
    values = np.arange(first, last + 1)
    logs = np.array([_log_choose(n, c) for c in values.tolist()])
    masses = np.exp(logs + values * log(probability) + (n - values) * log1p(-probability))
    # Bernstein's inequality for both tails; none where all values are summed.
    whole = first == 0 and last == n
    missed = 0.0 if whole else 2.0 * exp(-(reach**2) / (2.0 * (spread**2 + reach / 3.0)))
    starts = np.arange(0, len(values), max(1, int(spread / _BLOCK)))
    return values[starts], np.add.reduceat(masses, starts), missed


def _log_choose(n: int, k: int) -> float:
    return lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1)


def _given_clones(clones: Counts, own: float, ratio: float) -> Floats:
    """Return the hockey-stick divergence for each number of clones.

    The likelihood ratio increases with the first counter k, so the worst set is all counts from
    some k on. Around the exact k all neighbours are tried.
    """
    gain = own - ratio * (1.0 - own)
    if gain <= 0.0:
        return np.zeros(len(clones))
    # own k + (1 - own)(c - k + 1) > ratio ((1 - own) k + own (c - k + 1))
    weight = ratio * own - (1.0 - own)
    best = np.ceil(weight * (clones + 1) / (weight + gain)).astype(np.int64)
    found = np.zeros(len(clones))
    for shift in (-1, 0, 1):
        k = np.clip(best + shift, 1, clones + 1)
        found = np.maximum(found, _from(k, clones, gain, ratio))
    return found


def _from(k: Counts, clones: Counts, gain: float, ratio: float) -> Floats:
    """Return P(first counter >= k) minus ratio times the same under the other distribution.

    With b the probability of k - 1 under Bin(c, 1/2) and r b that of k or more, it is
    ``b (gain - (ratio - 1) r)``. A truncated sum is below r, so the result is an upper bound.
    """
    logs = np.array(
        [_log_choose(c, j - 1) for c, j in zip(clones.tolist(), k.tolist(), strict=True)]
    )
    base = np.exp(logs - clones * log(2.0))
    term = (clones - k + 1) / k
    total = term.astype(np.float64)
    term = total.copy()
    for i in range(1, _TERMS):
        term *= np.maximum(clones - k + 1 - i, 0) / (k + i)
        total += term
        if float(term.max(initial=0.0)) < 1e-12:
            break
    return np.asarray(np.maximum(base * (gain - (ratio - 1.0) * total * (1.0 - 1e-9)), 0.0))
