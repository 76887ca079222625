"""The summaries of a published table that a plan asks for."""

from __future__ import annotations

from collections.abc import Sequence

from calmstream.estimators.analysis.grouped import GroupedTable, grouped
from calmstream.estimators.analysis.summary_rows import RANK, correlate, summarise
from calmstream.estimators.domain import Attribute, Attributes, Domain
from calmstream.estimators.kinds import Choice, Number, Ordered
from calmstream.estimators.methods.base import Model
from calmstream.estimators.wire.table_summary import TableSummary

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
    if len(found) == 2 and _rank(found[0]) == _rank(found[1]) == 2:
        joint = _joint(model, domain, found) if RANK in statistics else None
        if joint is None:
            return ()
        names = tuple(attribute.name for attribute in found)
        return (TableSummary(names, "", (), (), (correlate(joint, *found),)),)
    *given, about = sorted(found, key=_rank)
    if _rank(about) == 0 or (given and _rank(given[0]) == _rank(about)):
        return ()
    asked = [text for text in statistics if text != RANK]
    if isinstance(about.kind, Choice):
        asked = [SHARE_OF_OPTION]
    joint = _joint(model, domain, [*given, about]) if asked else None
    if joint is None:
        return ()
    rows, flags = summarise(joint, about, asked)
    return (
        TableSummary(
            attributes=(about.name,),
            unit=about.unit,
            given=tuple(attribute.name for attribute in given),
            flags=flags,
            rows=tuple(rows),
        ),
    )


def _joint(model: Model, domain: Domain, order: Sequence[Attribute]) -> GroupedTable | None:
    joint = grouped(model, domain, [attribute.name for attribute in order], {})
    return joint if joint.reports and joint.covariance is not None else None


def _rank(attribute: Attribute) -> int:
    """Return 2 for numbers and ordered labels, 1 for options, 0 for categories."""
    if isinstance(attribute.kind, Number | Ordered):
        return 2
    return int(isinstance(attribute.kind, Choice))
