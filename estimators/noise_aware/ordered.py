"""Which attributes have an order, and which: as the domain states it, or as labels' texts say.

See noise-aware.md, section 7.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from calmstream.estimators.domain import Attribute
from calmstream.estimators.kinds import Number, Ordered
from calmstream.estimators.noise_aware.layout import MAJORITY, Flags, Floats, Indices

MAX_LEVELS = 256
"""Maximum number of labels of an attribute whose order is used; the cost grows with the cube. The
order of a larger one is ignored."""

UNLIKE = 4.0
"""A level whose width differs by this factor from those about it is not compared with them."""


@dataclass(frozen=True, slots=True, eq=False)
class Levels:
    """How the labels of an attribute are ordered; all arrays have the shape (labels,).

    The first ``count`` are those with a place in the order, ascending.
    """

    offset: Floats  # Logarithm of each level's width, less what is linear in the level
    lone: Flags  # Whether the neighbours of a label say nothing about its probability
    codes: Indices  # The code of each label
    count: int  # Number of labels with a place in the order; the label ``other`` has none


def levels_of(attribute: Attribute) -> Levels | None:
    """Return the order of an attribute; None if it has none, fewer than 3 levels, or too many."""
    kind, size = attribute.kind, attribute.cardinality
    places = _places(attribute) if size <= MAX_LEVELS else None
    if places is None or (count := int(np.isfinite(places).sum())) < 3:
        return None
    codes = np.argsort(places, kind="stable")  # labels without a place last
    offset, lone = np.zeros(size), np.isnan(places[codes])
    if isinstance(kind, Number):
        offset[:count], lone[:count] = _offsets(_widths(kind))
    return Levels(offset, lone, codes, count)


def _places(attribute: Attribute) -> Floats | None:
    """Return the place of each label in the order, nan without one: (labels,); None: no order."""
    kind, codes = attribute.kind, np.arange(attribute.cardinality, dtype=np.float64)
    if kind is None:
        return label_places(attribute.labels)
    if isinstance(kind, Number):
        return np.where(codes < len(kind.labels), codes, np.nan)
    return codes if isinstance(kind, Ordered) else None


def _widths(number: Number) -> Floats:
    """Return the width of each bin, or of the values nearest to each point of a grid."""
    if number.rounding == "bin":
        return np.asarray(np.diff(number.bounds, axis=1)[:, 0])
    points = np.array(number.values)
    # A point at an end has half of the values of one inside.
    ends = np.concatenate([points[:1], (points[:-1] + points[1:]) / 2.0, points[-1:]])
    return np.asarray(np.diff(ends))


def _offsets(widths: Floats) -> tuple[Floats, Flags]:
    """Return logarithms of widths less their linear part, and which levels stand alone: (levels,).

    The slope is left to the prior of margins. Alone, with offset 0, are infinite widths, and those
    that differ from the others' line by more than a factor of `UNLIKE`, as a bin for the value 0.
    """
    finite, level = np.isfinite(widths), np.arange(widths.size)
    logs = np.log(np.where(finite, widths, 1.0))
    alike = finite
    for _ in range(2):  # the second line is not drawn through levels that stand alone
        if alike.sum() < 2:
            return np.zeros(widths.size), ~finite
        away = logs - np.polyval(np.polyfit(level[alike], logs[alike], 1), level)
        alike = finite & (np.abs(away - np.median(away[alike])) < np.log(UNLIKE))
    return np.where(alike, away - away[alike].mean() if alike.any() else 0.0, 0.0), ~alike


_NUMBER = r"[-+−]?\d[\d,]*(?:\.\d+)?(?:[eE][-+]?\d+)?"
_BELOW = r"<=|<|≤|up to|under|below|less than|fewer than"
_ABOVE = r">=|>|≥|over|above|more than|at least"
_LABEL = re.compile(
    rf"[\[(]?\s*(?:(?P<below>{_BELOW})|(?P<above>{_ABOVE}))?\s*[$€£]?(?P<first>{_NUMBER})"
    rf"(?:\s*(?:\.\.|-|–|—|to|or|,|;)\s*[$€£]?(?P<last>{_NUMBER}))?\s*[\])]?"
    r"\s*(?P<more>\+|(?:or|and) (?:more|over|above|older))?\s*(?P<unit>%|[^\W\d]*)\s*(?P<plus>\+)?",
    re.IGNORECASE,
)


def label_places(labels: Sequence[str]) -> Floats | None:
    """Return the place of each label in the order of their numbers: shape (labels,), from 0.

    Labels without a number, such as ``missing``, have the place nan. None if the labels have no
    order: too few have a number, two have the same, or their units differ, as in ``1 child`` and
    ``2 dogs``.
    """
    matches = [_LABEL.fullmatch(label.strip()) for label in labels]
    numbers = {code: match for code, match in enumerate(matches) if match is not None}
    keys = {code: _key(match) for code, match in numbers.items()}
    units = {match["unit"].lower().removesuffix("s") for match in numbers.values()}
    if len(numbers) < MAJORITY * len(labels):
        return None
    if len(set(keys.values())) < len(keys) or len(units - {""}) > 1:
        return None
    places = np.full(len(labels), np.nan)
    places[sorted(keys, key=keys.__getitem__)] = np.arange(len(keys))
    return places


def _key(match: re.Match[str]) -> tuple[float, int]:
    """Return what a label is sorted by: the middle of its range, then the side of an open one."""
    first = _value(match["first"])
    last = _value(match["last"]) if match["last"] else first
    above = match["above"] or match["more"] or match["plus"]
    return (first + last) / 2.0, -1 if match["below"] else 1 if above else 0


def _value(text: str) -> float:
    return float(text.replace(",", "").replace("−", "-"))
