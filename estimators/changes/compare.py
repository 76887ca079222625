"""Compares tables of two sources: the tests, the differences, and corrections for many tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from calmstream.estimators.arrays import Floats
from calmstream.estimators.changes.basis import contrasts, interactions, own_positions
from calmstream.estimators.changes.dependence import dependence
from calmstream.estimators.changes.fit import Fit, fit, homogeneity
from calmstream.estimators.changes.readings import MIN_EXPECTED, MIN_UNEVEN, UNEVEN, Readings
from calmstream.estimators.changes.source import Source
from calmstream.estimators.domain import Attributes, Domain
from calmstream.estimators.numerics.distribution import tail

MAX_CELLS = 1 << 10
"""Maximum number of cells of a table that is tested; it limits the cost of a fit."""

FALSE_SHARE = 0.05
ALPHA = 0.001  # the alert fires on a smallest adjusted p-value below this
PARTIAL = "partial"
LEFT_OUT = "left-out"

Modelled = tuple[Floats, Floats]
"""Differences of fitted tables and their standard errors, cells in row-major order."""


@dataclass(frozen=True, slots=True, eq=False)
class ComparedTable:
    """The result for one table."""

    attributes: Attributes  # ascending positions
    statistic: float | None = None  # None, and p, where there is no test
    freedom: int = 0
    p: float | None = None
    adjusted: float | None = None
    dependence: float | None = None  # p-value of that test; None where it does not apply
    uncovered: tuple[Attributes, ...] = ()  # the test says nothing of these interactions
    left_out: tuple[Attributes, ...] = ()
    reason: str = ""  # why there is no test
    difference: Floats | None = None  # second minus first, per cell; unchanged if uncovered
    stderr: Floats | None = None

    @property
    def covered(self) -> bool:
        return not self.reason and not self.uncovered

    @property
    def changed(self) -> bool:
        return self.adjusted is not None and self.adjusted < FALSE_SHARE


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """The results for all tables."""

    tables: tuple[ComparedTable, ...]

    @property
    def tested(self) -> int:
        return sum(table.p is not None for table in self.tables)

    @property
    def changed(self) -> int:
        return sum(table.changed for table in self.tables)

    @property
    def smallest(self) -> float:
        """Smallest adjusted p-value; 1 without a test."""
        return min((t.adjusted for t in self.tables if t.adjusted is not None), default=1.0)


def compare(
    first: Source, second: Source, targets: Sequence[Attributes], *, details: bool = True
) -> Comparison:
    """Test for every table whether two sources of one domain have the same distribution.

    With ``details``, tables also get the test of dependence and the differences of their cells.
    Cost: O(coefficients^3) per table.
    """
    readings = Readings(first, second)
    tested = [_test(readings, target) for target in targets]
    adjusted = benjamini_hochberg([table.p for table in tested])
    found = [replace(table, adjusted=value) for table, value in zip(tested, adjusted, strict=True)]
    if details:
        found = [t if t.p is None else _detailed(readings, t) for t in found]
    return Comparison(tuple(found))


def benjamini_hochberg(values: Sequence[float | None]) -> list[float | None]:
    """Return p-values adjusted for the false discovery rate (1995); None is no test."""
    tested = [i for i, p in enumerate(values) if p is not None]
    p = np.array([values[i] for i in tested], np.float64)
    order = np.argsort(p, kind="stable")
    ranked = p[order] * len(p) / np.arange(1, len(p) + 1)
    smallest = np.minimum(np.minimum.accumulate(ranked[::-1])[::-1], 1.0)
    out: list[float | None] = [None] * len(values)
    for rank, place in enumerate(order.tolist()):
        out[tested[place]] = float(smallest[rank])
    return out


def _test(readings: Readings, target: Attributes) -> ComparedTable:
    shape = readings.sides[0].domain.shape(target)
    if np.prod(shape) > MAX_CELLS:
        return ComparedTable(target, reason=f"more than {MAX_CELLS:,} cells")
    fits, left_out = _fits(readings, target, together=True)
    statistic, freedom = homogeneity(*fits)
    known = fits[0].known & fits[1].known
    uncovered = tuple(
        tuple(target[a] for a in axes)
        for axes in interactions(len(target))
        if not known[own_positions(shape, axes)].all()
    )
    if not freedom:
        return ComparedTable(target, uncovered=uncovered, left_out=left_out, reason=_why(left_out))
    p = tail(statistic, freedom)
    return ComparedTable(target, statistic, freedom, p, uncovered=uncovered, left_out=left_out)


def _why(left_out: tuple[Attributes, ...]) -> str:
    if left_out:
        return (
            f"too few reports: fewer than {MIN_EXPECTED:g} expected of some outcome, or than "
            f"{MIN_UNEVEN:g} where one side has more than {UNEVEN:g} times as many reports"
        )
    return "no views of both sides speak about it"


def _fits(
    readings: Readings, target: Attributes, *, together: bool
) -> tuple[tuple[Fit, Fit], tuple[Attributes, ...]]:
    coefficients = int(np.prod(readings.sides[0].domain.shape(target))) - 1
    (one, out), (other, more) = (readings.of(s, target, together=together) for s in (0, 1))
    return (fit(one, coefficients), fit(other, coefficients)), tuple(dict.fromkeys((*out, *more)))


def _detailed(readings: Readings, table: ComparedTable) -> ComparedTable:
    target = table.attributes
    shape = readings.sides[0].domain.shape(target)
    (first, second), _ = _fits(readings, target, together=False)
    known = first.known & second.known
    delta = np.where(known, second.theta - first.theta, 0.0)
    spread = (first.covariance + second.covariance) * np.outer(known, known)
    basis = contrasts(shape) / len(contrasts(shape))
    variance = np.einsum("ci,ij,cj->c", basis, spread, basis, optimize=True)
    return replace(
        table,
        dependence=dependence(first, second, shape) if len(target) > 1 else None,
        difference=basis @ delta,
        stderr=np.sqrt(np.maximum(variance, 0.0)),
    )


def table_document(
    change: ComparedTable,
    domain: Domain,
    flags: Sequence[str] = (),
    modelled: Modelled | None = None,
) -> dict[str, Any]:
    """Return the object of one table; ``modelled`` where the method's fits were asked for."""
    own = [PARTIAL] if change.uncovered and not change.reason else []
    own += [LEFT_OUT] if change.left_out else []
    return {
        "attributes": _names(change.attributes, domain),
        "covered": change.covered,
        "statistic": rounded(change.statistic),
        "df": change.freedom,
        "p": rounded(change.p),
        "p_adjusted": rounded(change.adjusted),
        "dependence_p": rounded(change.dependence),
        "flags": [*flags, *own],
        "reason": change.reason,
        "uncovered": [_names(a, domain) for a in change.uncovered],
        "left_out": [_names(a, domain) for a in change.left_out],
        "differences": _differences(change, domain, modelled),
    }


def rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.6g}")


def _names(attributes: Attributes, domain: Domain) -> list[str]:
    return [domain.names[i] for i in attributes]


def _differences(
    change: ComparedTable, domain: Domain, modelled: Modelled | None
) -> list[dict[str, Any]]:
    if change.difference is None or change.stderr is None:
        return []
    columns = {"value": change.difference, "stderr": change.stderr}
    if modelled is not None:
        columns |= {"modelled": modelled[0], "modelled_stderr": modelled[1]}
    labels = product(*(domain.attributes[i].labels for i in change.attributes))
    rows = zip(*(values.ravel().tolist() for values in columns.values()), strict=True)
    return [
        {"labels": list(cell), **{n: rounded(v) for n, v in zip(columns, row, strict=True)}}
        for cell, row in zip(labels, rows, strict=True)
    ]
