"""A differentially private quantile of small integers, by the exponential mechanism, exactly."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from calmstream.estimators.central.discrete_gaussian import NEVER, Integers, bernoulli_exp
from calmstream.estimators.randomness import Randomness, uniform_below

_BATCH = 1 << 12


def private_quantile(
    sizes: Integers,
    largest: int,
    quantile: Fraction,
    epsilon: Fraction,
    randomness: Randomness,
) -> int:
    """Return an integer near the quantile, with epsilon-differential privacy.

    The result x has probability proportional to ``exp(epsilon · u(x) / 2)`` over 0..largest, with
    the utility ``u(x) = -|#{sizes <= x} - quantile · N|``. If one user is added or removed, the
    utility changes by at most max(quantile, 1 - quantile) <= 1, so its sensitivity is 1. Candidates
    are drawn uniformly and accepted by coins of exact probability exp(-rational), without floating
    point.

    Cost: O(N + largest), and at most about ``largest`` proposals in the mean.

    Args:
        sizes: shape (N,), non-negative integers, one per user; larger ones count as ``largest``.
    """
    of_size = np.bincount(np.minimum(sizes, largest), minlength=largest + 1)
    wanted = quantile.numerator * len(sizes)
    # Python integers, because N and epsilon can be large.
    gaps = [abs(quantile.denominator * n - wanted) for n in np.cumsum(of_size).tolist()]
    least = min(gaps)
    denominator = 2 * quantile.denominator * epsilon.denominator
    exponents = [(gap - least) * epsilon.numerator for gap in gaps]
    whole = np.array([min(e // denominator, NEVER) for e in exponents], np.int64)
    part = np.array([e % denominator for e in exponents], np.int64)
    while True:
        proposed = uniform_below(largest + 1, _BATCH, randomness)
        heads = bernoulli_exp(whole[proposed], part[proposed], denominator, randomness)
        if heads.any():
            return int(proposed[heads][0])
