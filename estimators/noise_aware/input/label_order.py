"""The order of labels that are numbers, where nobody stated an order.

Labels such as ``3``, ``1,500``, ``18-24``, ``0..9``, ``[0, 5)``, ``< 1 year`` and ``65+`` have one.
See noise-aware.md, section 7.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from calmstream.estimators.noise_aware.arrays import Floats

LEAST_NUMBERS = 3
"""Least number of labels with a number; two labels have the same order in both directions."""

LEAST_SHARE = 2 / 3
"""Least share of labels with a number. The others, such as ``missing``, have no place."""

_NUMBER = r"[-+−]?\d[\d,]*(?:\.\d+)?(?:[eE][-+]?\d+)?"
_BELOW = r"<=|<|≤|up to|under|below|less than|fewer than"
_ABOVE = r">=|>|≥|over|above|more than|at least"
_LABEL = re.compile(
    rf"[\[(]?\s*(?:(?P<below>{_BELOW})|(?P<above>{_ABOVE}))?\s*[$€£]?(?P<first>{_NUMBER})"
    rf"(?:\s*(?:\.\.|-|–|—|to|or|,|;)\s*[$€£]?(?P<last>{_NUMBER}))?\s*[\])]?"
    r"\s*(?P<more>\+|(?:or|and) (?:more|over|above|older))?\s*(?P<unit>%|[^\W\d]*)\s*(?P<plus>\+)?",
    re.IGNORECASE,
)


def places(labels: Sequence[str]) -> Floats | None:
    """Return the place of each label in the order of their numbers: shape (labels,), from 0.

    Labels without a number have the place nan. None if the labels have no order: too few have a
    number, two have the same, or their units differ, as in ``1 child`` and ``2 dogs``.
    """
    found = [_LABEL.fullmatch(label.strip()) for label in labels]
    there = np.array([match is not None for match in found])
    if there.sum() < max(LEAST_NUMBERS, LEAST_SHARE * len(labels)):
        return None
    keys = [_key(match) for match in found if match is not None]
    units = {match["unit"].lower().removesuffix("s") for match in found if match is not None}
    if len(set(keys)) < len(keys) or len(units - {""}) > 1:
        return None
    out = np.full(len(labels), np.nan)
    order = sorted(range(len(keys)), key=keys.__getitem__)
    out[np.flatnonzero(there)[order]] = np.arange(len(keys))
    return out


def _key(match: re.Match[str]) -> tuple[float, int]:
    """Return what a label is sorted by: the middle of its range, then the side of an open one."""
    first = _value(match["first"])
    last = _value(match["last"]) if match["last"] else first
    above = match["above"] or match["more"] or match["plus"]
    return (first + last) / 2.0, -1 if match["below"] else 1 if above else 0


def _value(text: str) -> float:
    return float(text.replace(",", "").replace("−", "-"))
