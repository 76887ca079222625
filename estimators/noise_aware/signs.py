"""Chooses how many of the reports are on coarse functions of the level (bin) of a number.

A report on one of many levels says little about wide ranges; one on the parity of some of the
highest bits of the level says much. See noise-aware.md, section 3, "Signs of numbers' levels".
"""

from __future__ import annotations

from functools import lru_cache
from itertools import product
from math import log
from typing import NamedTuple

import numpy as np

from calmstream.estimators.noise_aware.design import oracle
from calmstream.estimators.noise_aware.layout import Floats, Indices
from calmstream.estimators.noise_aware.priors import level_covariances
from calmstream.estimators.numerics.hadamard import signs

MOST_LEVELS = 64
"""Number of levels of the margin whose error is computed; finer ones have the error of this one."""

LEAST_GAIN = 0.03
"""Least expected gain in log error for which coarse functions are used."""

MOST_BITS, SHARES = 4, (0.1, 0.2, 0.3, 0.4, 0.5)
"""Number of highest bits, all of whose parities are used equally, and shares of the reports on
them. Ranges are coarse functions only of levels that fill all these bits."""


class CoarseViews(NamedTuple):
    """The reports on coarse functions of a level."""

    masks: tuple[int, ...]  # Bits of the code whose parities are reported, equally often
    share: float  # Of the attribute's part of all reports


def choose(count: int, precision: float, reports: float, epsilon: str) -> CoarseViews:
    """Return the masks and the share of least expected error; no masks where signs gain nothing.

    ``precision`` is that of a coefficient of the attribute, ``reports`` its part of all reports.
    """
    if count < 1 << MOST_BITS:
        return CoarseViews((), 0.0)
    # To two digits, so that attributes that are nearly alike share one computation.
    rounded = (float(f"{number:.2g}") for number in (precision, reports))
    bits, share = _best(min(count, MOST_LEVELS), *rounded, epsilon)
    return CoarseViews(tuple(_masks(count, bits).tolist()), share)


@lru_cache(maxsize=256)
def _best(count: int, precision: float, reports: float, epsilon: str) -> tuple[int, float]:
    """Return the number of bits, and the share of reports on them, of least expected error.

    It is the mean log error of ranges, of cells, and of what only the tables show, such as pairs
    and spikes: they get fewer reports, so this error grows as 1 / (1 - share).
    """
    scenarios, one = _scenarios(count), oracle(epsilon, 2)[1]
    cells = np.eye(count) * (count * precision)
    least, best = _error(scenarios, cells) - LEAST_GAIN, (0, 0.0)
    for bits, share in product(range(1, MOST_BITS + 1), SHARES):
        rows = signs(_masks(count, bits)[:, None] & np.arange(count))
        information = rows.T @ rows * (reports * one * share / len(rows))
        error = _error(scenarios, cells * (1.0 - share) + information) - log(1.0 - share) / 3.0
        if error < least:
            least, best = error, (bits, share)
    return best


def _masks(count: int, bits: int) -> Indices:
    """Return the masks of all parities of the highest bits of levels."""
    return np.arange(1, 1 << bits) << max((count - 1).bit_length() - bits, 0)


@lru_cache(maxsize=16)
def _scenarios(count: int) -> tuple[Floats, ...]:
    """Return covariances of a nearly even margin, one for each pair of scales of the prior."""
    centre = (np.eye(count) - 1.0 / count) / count
    return tuple(centre @ prior @ centre for prior in level_covariances(count))


def _error(scenarios: tuple[Floats, ...], information: Floats) -> float:
    """Return a third of the log errors of ranges and of cells, mean over scenarios.

    ``information`` is the precision of the reports: (count, count).
    """
    count = len(information)
    place = np.arange(count)
    # Mean product of the indicators of a random range at two levels.
    both = (np.minimum.outer(place, place) + 1) * (count - np.maximum.outer(place, place))
    total = 0.0
    for prior in scenarios:
        posterior = np.linalg.solve(np.eye(count) + prior @ information, prior)
        ranges = float((both * posterior).sum()) / (count * (count + 1) / 2)
        total += float(np.log(ranges)) + float(np.log(np.trace(posterior)))
    return total / (3 * len(scenarios))
