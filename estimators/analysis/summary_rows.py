"""Statistics of an ordered attribute, overall or within each combination of other attributes.

``mean``, ``median``, ``q0.9``, ``share:10..100``, ``share:100+`` or ``rank``: docs/numbers.md.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import product

import numpy as np

from calmstream.common.errors import InvalidInput
from calmstream.estimators.analysis.grouped import GroupedTable, grouped
from calmstream.estimators.analysis.grouping import of_labels
from calmstream.estimators.analysis.summaries import (
    UNKNOWN,
    Z95,
    Distribution,
    SummaryLevels,
    Value,
    levels,
)
from calmstream.estimators.arrays import Floats
from calmstream.estimators.domain import Attribute, Attributes, Domain
from calmstream.estimators.kinds import Choice, Number, Ordered
from calmstream.estimators.methods.base import Model
from calmstream.estimators.wire.table_summary import Statistic, TableStatistics, TableSummary

RANK = "rank"
_QUANTILE = re.compile(r"q(0?\.[0-9]{1,9})", re.ASCII)
_SHARE = "share:"

BINNED = "binned"
"""Flag: values are known by their bin; the interval of a mean holds the ends of the bins too."""
BLURRED = "blurred"
"""Flag: quantiles of a grid, whose values were rounded at random by up to one step."""
CLAMPED = "clamped"  # flag: values outside the edges count at the nearest edge
MAX_CELLS = 1 << 10
"""Largest table with summaries: its covariance takes 8 MB, which a publisher can spare."""

SHARE_OF_OPTION = "share:yes"


def published_summaries(
    model: Model, domain: Domain, attributes: Attributes, statistics: Sequence[str]
) -> tuple[TableSummary, ...]:
    """Return the summaries of one published table; the same as ``calmstream query --summary``.

    One attribute: statistics of a number or of ordered labels, or the share of an option. Two:
    those within each label of a category or an option, or the rank correlation. Others: none.
    """
    found = [domain.attributes[i] for i in attributes]
    if not statistics or len(found) > 2 or domain.size(attributes) > MAX_CELLS:
        return ()
    if len(found) == 2 and _order_of_kind(found[0]) == _order_of_kind(found[1]) == 2:
        joint = _joint(model, domain, found) if RANK in statistics else None
        return () if joint is None else (correlate(joint, *found),)
    *given, about = sorted(found, key=_order_of_kind)
    if _order_of_kind(about) == 0 or (given and _order_of_kind(given[0]) == _order_of_kind(about)):
        return ()
    asked = [text for text in statistics if text != RANK]
    if isinstance(about.kind, Choice):
        asked = [SHARE_OF_OPTION]
    joint = _joint(model, domain, [*given, about]) if asked else None
    return () if joint is None else (summarise(joint, about, asked),)


def _joint(model: Model, domain: Domain, order: Sequence[Attribute]) -> GroupedTable | None:
    joint = grouped(model, domain, [attribute.name for attribute in order], {})
    return joint if joint.reports and joint.covariance is not None else None


def _order_of_kind(attribute: Attribute) -> int:
    """Return 2 for numbers and ordered labels, 1 for options, 0 for categories."""
    if isinstance(attribute.kind, Number | Ordered):
        return 2
    return int(isinstance(attribute.kind, Choice))


def summarise(joint: GroupedTable, attribute: Attribute, statistics: Sequence[str]) -> TableSummary:
    """Return the statistics of the last attribute of a table, and flags about them."""
    own = _levels(attribute, statistics)
    asked = {text: _statistic(attribute, own, text) for text in statistics}
    cells = np.arange(joint.table.size).reshape(-1, own.count)
    covariance, table = _covariance(joint), joint.raw.ravel()
    rows = []
    for labels, place in zip(product(*joint.labels[:-1]), cells, strict=True):
        found = Distribution(own, table[place], covariance[np.ix_(place, place)])
        values = (_named(text, statistic(found)) for text, statistic in asked.items())
        rows.append(TableStatistics(labels, tuple(values)))
    return TableSummary(
        attributes=(attribute.name,),
        unit=attribute.unit,
        given=joint.attributes[:-1],
        flags=_flags(attribute, statistics),
        rows=tuple(rows),
    )


def correlate(joint: GroupedTable, first: Attribute, second: Attribute) -> TableSummary:
    """Return the rank correlation of the two attributes of an ungrouped table."""
    rows, columns = (_levels(one, [RANK]).size for one in (first, second))
    place = np.arange(joint.table.size).reshape(joint.table.shape)[:rows, :columns].ravel()
    covariance = _covariance(joint)[np.ix_(place, place)]
    found = rank_correlation(joint.raw.ravel()[place].reshape(rows, columns), covariance)
    row = TableStatistics((), (_named(RANK, found),))
    return TableSummary((first.name, second.name), "", (), (), (row,))


def _named(name: str, found: Value) -> Statistic:
    """Return it with numbers of six digits; None where it is not known."""
    numbers = (found.value, found.stderr, found.low, found.high)
    known = np.isfinite(numbers).all()
    return Statistic(name, *(float(f"{n:.6g}") if known else None for n in numbers))


def check(attribute: Attribute, statistics: Sequence[str]) -> None:
    own = _levels(attribute, statistics)
    for text in statistics:
        _statistic(attribute, own, text)


def _levels(attribute: Attribute, statistics: Sequence[str]) -> SummaryLevels:
    if isinstance(attribute.kind, Choice) and not all(s.startswith(_SHARE) for s in statistics):
        raise InvalidInput(f"summary: {attribute.name!r} is an option: ask for share:yes")
    return levels(attribute)


def _covariance(joint: GroupedTable) -> Floats:
    if joint.covariance is None:
        raise InvalidInput(
            f"summary: a table of {joint.table.size:,} cells; its covariance would be too large: "
            "group the labels of the given attributes"
        )
    return joint.covariance


def _statistic(
    attribute: Attribute, own: SummaryLevels, text: str
) -> Callable[[Distribution], Value]:
    if text == "mean":
        return _mean
    if text.startswith(_SHARE):
        member = of_labels(attribute, [text.removeprefix(_SHARE)]).member[0]
        if member[own.size :].any():
            raise InvalidInput(f"summary: {text!r} holds what is not a number")
        return lambda found: found.share_of(member[: own.size])
    matched = _QUANTILE.fullmatch("q0.5" if text == "median" else text)
    if matched is None or not 0.0 < float(matched[1]) < 1.0:
        raise InvalidInput(
            f"summary: {text!r} is none of mean, median, q0.9 (a quantile), share:LOW..HIGH, rank"
        )
    return lambda found: found.quantile(float(matched[1]))


def _mean(found: Distribution) -> Value:
    mean, (low, high) = found.mean(), found.mean_bounds()
    # No value counts beyond the edges, so no mean of values lies beyond them.
    least, most = found.levels.ends
    low_end = min(max(low.low, least), mean.value)
    return Value(mean.value, mean.stderr, low_end, max(min(high.high, most), mean.value))


def _flags(attribute: Attribute, statistics: Sequence[str]) -> tuple[str, ...]:
    kind = attribute.kind
    if not isinstance(kind, Number):
        return ()
    quantiles = any(text == "median" or text.startswith("q") for text in statistics)
    flags = []
    if kind.rounding == "bin" and "mean" in statistics:
        flags.append(BINNED)
    if kind.rounding == "grid" and quantiles:
        flags.append(BLURRED)
    if kind.rounding == "grid" or not (kind.below and kind.above) or "mean" in statistics:
        flags.append(CLAMPED)
    return tuple(flags)


def rank_correlation(table: Floats, covariance: Floats) -> Value:
    """Return Spearman's rank correlation of a table (r, s); ties have the mean of their ranks.

    Its error is of first order; NaN where an attribute has one value only. Cells may be negative.
    """
    total = float(table.sum())
    if total <= 0.0:
        return UNKNOWN
    cells = table / total
    rows, columns = cells.sum(axis=1), cells.sum(axis=0)
    # Ranks are scaled to -1/2 .. 1/2, with mean 0 under the margins.
    first, second = _ranks(rows), _ranks(columns)
    spread = [float(p @ np.square(rank)) for p, rank in ((rows, first), (columns, second))]
    if min(spread) <= 0.0:
        return UNKNOWN
    scale = float(np.sqrt(spread[0] * spread[1]))
    value = float(first @ cells @ second) / scale
    slope = _slope(cells, first, second) / scale
    by_row = np.square(first) + 2.0 * _through_ranks(rows * first)
    by_column = np.square(second) + 2.0 * _through_ranks(columns * second)
    slope = slope - value / 2.0 * (by_row / spread[0])[:, None]
    slope = slope - value / 2.0 * (by_column / spread[1])[None, :]
    # The cells are divided by their sum.
    slope = (slope - float((slope * cells).sum())) / total
    flat = slope.ravel()
    stderr = float(np.sqrt(max(float(flat @ covariance @ flat), 0.0)))
    value = min(max(value, -1.0), 1.0)
    low, high = max(value - Z95 * stderr, -1.0), min(value + Z95 * stderr, 1.0)
    return Value(value, stderr, low, high)


def _ranks(p: Floats) -> Floats:
    return np.asarray(np.cumsum(p) - p / 2.0 - 0.5, np.float64)


def _through_ranks(weights: Floats) -> Floats:
    """Return derivatives by shares; a rank is the sum of the shares before and half of its own."""
    after = weights[::-1].cumsum()[::-1] - weights
    return np.asarray(after + weights / 2.0, np.float64)


def _slope(cells: Floats, first: Floats, second: Floats) -> Floats:
    """Return the derivative of the sum of cells times both ranks, by each cell."""
    own = first[:, None] * second[None, :]
    by_row = _through_ranks(cells @ second)[:, None]
    by_column = _through_ranks(first @ cells)[None, :]
    return np.asarray(own + by_row + by_column, np.float64)
