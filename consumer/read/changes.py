"""Tests of change between any windows of one plan, or of two plans over the same attributes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from calmstream.common.errors import InvalidInput
from calmstream.consumer.read.history import History
from calmstream.consumer.read.kept import DEPENDENT, Counted
from calmstream.consumer.read.ranges import PREVIOUS, NoAnswer, Windows
from calmstream.consumer.subscribe.frame import Frame, FrameColumns
from calmstream.estimators.analysis.grouped import difference
from calmstream.estimators.changes import Comparison, Source, compare, source
from calmstream.estimators.changes.compare import Modelled, table_document
from calmstream.estimators.changes.windows import PAIRED, REPEATED, mean_repeats, relation
from calmstream.estimators.domain import Attributes
from calmstream.estimators.kinds import Ordered
from calmstream.estimators.plan import Plan


@dataclass(frozen=True, slots=True, eq=False)
class Changes(Frame):
    """What changed, after minus before; flags: ``paired``, ``repeated``, ``suspicious``."""

    after: Counted
    before: Counted
    comparison: Comparison
    flags: tuple[str, ...]
    # By attributes the differences of the fitted tables; empty until `with_modelled`.
    modelled: Mapping[Attributes, Modelled] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the object that ``calmstream changes --json`` prints."""
        sides = (self.after, self.before)
        return {
            "plan": self.after.plan.digest,
            "other_plan": None
            if self.before.plan.digest == self.after.plan.digest
            else self.before.plan.digest,
            "window": _windows(self.after),
            "against": _windows(self.before),
            "reports": [sum(t.reports for t in side.tallies) for side in sides],
            "flags": list(self.flags),
            "tested": self.comparison.tested,
            "changed": self.comparison.changed,
            "smallest_p_adjusted": self.comparison.smallest,
            "tables": [
                table_document(
                    table, self.after.plan.domain, self.flags, self.modelled.get(table.attributes)
                )
                for table in self.comparison.tables
            ],
        }

    def columns(self) -> FrameColumns:
        """Return one row for each cell, most evidence first; a table without a test has one too."""
        tables = sorted(
            self.to_json()["tables"],
            key=lambda t: (t["p_adjusted"] is None, t["p_adjusted"]),
        )
        rows = [
            table | {"cell": None, "labels": [], "value": None, "stderr": None} | change
            for table in tables
            for change in ([d | {"cell": i} for i, d in enumerate(table["differences"])] or [{}])
        ]
        names = (
            *("attributes", "cell", "labels", "value", "stderr"),
            *("p", "p_adjusted", "flags", "reason"),
        )
        about = (
            f"{self.after.windows} minus {self.before.windows}",
            f"{self.comparison.changed} of {self.comparison.tested} tested tables changed",
            ", ".join(self.flags),
        )
        data = {name: [row[name] for row in rows] for name in names}
        return FrameColumns(data, ("attributes", "labels", "p_adjusted"), about, points=True)


def changes(
    history: History, window: str | Windows = "latest", against: str | Windows = PREVIOUS
) -> Changes:
    """Test the published tables of some windows against those of others of the same plan."""
    after = _counted(history, window, "windows to test")
    before = _counted(history, against, "windows to test against", after.windows)
    if after.windows.overlaps(before.windows):
        raise InvalidInput(
            f"a comparison needs windows apart: {after.windows} and {before.windows} share devices"
        )
    spans = [(c.windows.first, c.windows.last) for c in (after, before)]
    flags, repeats = relation(after.plan.guarantee.windows, spans[0], spans[1])
    sides = [
        _source(history, counted, repeats=often)
        for counted, often in zip((after, before), repeats, strict=True)
    ]
    return _compare(after, before, sides, flags, after.plan.marginals)


def changes_of_plans(
    history: History, other: History, window: str = "total", against: str = "total"
) -> Changes:
    """Test the tables that both plans publish: an A/B test, or before and after a new plan."""
    require_same_domain(history.plan, other.plan)
    tables = [a for a in history.plan.marginals if a in set(other.plan.marginals)]
    if not tables:
        raise InvalidInput("the plans publish no table over the same attributes")
    after = _counted(history, window, "windows to test")
    before = _counted(other, against, "windows of the other plan")
    if after.plan.digest == before.plan.digest:
        raise InvalidInput("--other-plan is the same plan: name its windows with --against")
    once = after.plan.lineage == before.plan.lineage and after.plan.guarantee.windows == 1
    pairs = ((history, after), (other, before))
    sides = [_source(h, c, repeats=c.plan.guarantee.windows < len(c.windows)) for h, c in pairs]
    repeated = any(view.repeats > 1.0 for side in sides for view in side.views)
    flags = (*(() if once else (PAIRED,)), *((REPEATED,) if repeated else ()))
    return _compare(after, before, sides, flags, tables)


def _counted(
    history: History, windows: str | Windows, which: str, after: Windows | None = None
) -> Counted:
    try:
        return history.counted(windows, after)
    except NoAnswer as error:
        if error.why == "not_final":
            raise
        raise NoAnswer(error.why, f"{error}: choose other {which}") from None


def with_modelled(found: Changes) -> Changes:
    """Add the differences of the fitted tables, on which no test rests; one fit per side."""
    names = found.after.plan.domain.names
    modelled = {}
    for table in found.comparison.tables:
        if table.difference is not None:
            chosen = [names[i] for i in table.attributes]
            moved = difference(found.after.table(chosen), found.before.table(chosen))
            modelled[table.attributes] = moved.table, moved.stderr
    return replace(found, modelled=modelled)


def _compare(
    after: Counted,
    before: Counted,
    sides: Sequence[Source],
    flags: Sequence[str],
    tables: Sequence[Attributes],
) -> Changes:
    comparison = compare(sides[1], sides[0], tables)
    every = dict.fromkeys((*flags, *after.flags, *before.flags))
    every.pop(DEPENDENT, None)  # ``repeated`` says what was done about it.
    return Changes(after, before, comparison, tuple(every))


def _source(history: History, counted: Counted, *, repeats: bool) -> Source:
    plan, windows = counted.plan, counted.windows
    period = plan.guarantee.windows
    if not repeats or period == 1:
        return source(plan, counted.tallies)
    each = {w: history.window_counts(w) for w in range(windows.first, windows.last + 1)}
    often = [
        [
            mean_repeats(period, {w: int(tallies[g].n[v]) for w, tallies in each.items()})
            for v in range(len(group.views))
        ]
        for g, group in enumerate(plan.groups)
    ]
    return source(plan, counted.tallies, often)


def _windows(counted: Counted) -> dict[str, Any]:
    found = counted.windows.to_json(counted.plan)
    return {name: found[name] for name in ("first", "last", "start", "end")}


def require_same_domain(plan: Plan, other: Plan) -> None:
    """Check that two plans have the same attributes and labels, and code values alike."""
    names = [[a.name for a in p.domain.attributes] for p in (plan, other)]
    if names[0] != names[1]:
        odd = sorted(set(names[0]) ^ set(names[1]))
        what = f"{odd[0]!r} is in one of them only" if odd else "they are in another order"
        raise InvalidInput(f"the plans have other attributes: {what}")
    for one, two in zip(plan.domain.attributes, other.domain.attributes, strict=True):
        if one.labels != two.labels:
            raise InvalidInput(f"the plans have other labels of {one.name!r}")
        # That labels have an order changes no code; every other kind has its own codes.
        kinds = [None if isinstance(a.kind, Ordered) else a.kind for a in (one, two)]
        if kinds[0] != kinds[1]:
            raise InvalidInput(f"the plans read values of {one.name!r} in other ways")
