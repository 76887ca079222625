"""Results of tests of change as JSON-ready objects."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

from calmstream.estimators.changes.basis import Floats
from calmstream.estimators.changes.compare import ComparedTable
from calmstream.estimators.domain import Attributes, Domain

PARTIAL = "partial"
LEFT_OUT = "left-out"


Modelled = tuple[Floats, Floats]
"""Differences of fitted tables and their standard errors, cells in row-major order."""


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
