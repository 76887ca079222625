"""Builds the set of snapshot records of a window, from the plan and the merged counts alone."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from calmstream.common.errors import FatalError
from calmstream.common.version import version
from calmstream.consumer.publish.merge import MergedWindow
from calmstream.estimators import methods
from calmstream.estimators.analysis.poisoning import examine
from calmstream.estimators.analysis.report import analyse
from calmstream.estimators.analysis.summary_rows import published_summaries
from calmstream.estimators.domain import Attributes
from calmstream.estimators.methods.base import Model
from calmstream.estimators.plan import Plan
from calmstream.estimators.plan.central_statement import central_statement
from calmstream.estimators.plan.loss import loss_plan
from calmstream.estimators.tracking.tracker import Current
from calmstream.estimators.wire.counts import GroupCounts, counts_key, encode_counts
from calmstream.estimators.wire.snapshot import Kind, Manifest, MarginalRecord, encode

# The processing steps that follow from the flags of tables.
_STEPS = {"clipped": "non-negativity", "maxent": "maximum entropy where no view covers"}


@dataclass(frozen=True, slots=True)
class SnapshotSet:
    """All records of one window and kind, ready to be written."""

    manifest: Manifest
    marginals: tuple[MarginalRecord, ...]

    def tables(self) -> list[tuple[bytes, bytes]]:
        return [(record.key, encode(record)) for record in self.marginals]

    def closing(self) -> tuple[bytes, bytes]:
        return self.manifest.key, encode(self.manifest)

    @property
    def standard_error(self) -> float:
        """The root mean square of the standard errors of all cells; 0 without tables."""
        cells = [np.square(np.array(record.stderr)) for record in self.marginals]
        return math.sqrt(float(np.concatenate(cells).mean())) if cells else 0.0


def build_set(plan: Plan, merged: MergedWindow, *, counts: bool = False) -> SnapshotSet:
    """Estimate every published marginal; a window without reports gets a manifest without tables.

    With the same software, the same counts give the same bytes.
    """
    tables: tuple[MarginalRecord, ...] = ()
    steps: tuple[str, ...] = ()
    association: dict[str, Any] = {}
    windows = merged.window + 1 if merged.kind is Kind.TOTAL else 1
    examination = examine(plan, merged.tallies, windows) if merged.reports else None
    suspicious = examination is not None and examination.suspicious
    if merged.reports:
        model = methods.fit(plan, merged.tallies, total=merged.kind is Kind.TOTAL)
        tables = tuple(
            _record(plan, merged, attributes, model, suspicious=suspicious)
            for attributes in plan.marginals
        )
        steps = processing(model, tables)
        if plan.analysis:
            association = analyse(model, plan.domain, plan.marginals, merged.reports)
    manifest = _manifest(plan, merged, tables, steps)
    poisoning = {} if examination is None else examination.to_json()
    central = {} if suspicious else _central(plan, merged)
    manifest = replace(
        manifest, poisoning=poisoning, analysis=association, counts=counts, central=central
    )
    return SnapshotSet(manifest, tables)


def build_current(plan: Plan, merged: MergedWindow, current: Current) -> SnapshotSet:
    """Estimate every published marginal from discounted counts, as :func:`build_set` does."""
    model = current.model(plan)
    tables = tuple(
        _record(plan, merged, attributes, model, suspicious=False)
        for attributes in (plan.marginals if merged.reports else ())
    )
    manifest = _manifest(plan, merged, tables, processing(model, tables) if tables else ())
    return SnapshotSet(replace(manifest, tracking=current.to_json()), tables)


def count_records(
    plan: Plan, final: MergedWindow, total: MergedWindow
) -> Iterator[tuple[bytes, bytes]]:
    """Yield a record per group, to be acknowledged before the final is written."""
    suspicious = final.reports > 0 and examine(plan, final.tallies).suspicious
    for group, tally in enumerate(final.tallies):
        first = group * plan.partitions
        kept = GroupCounts(
            window=final.window,
            group=group,
            revision=final.revision[first : first + plan.partitions],
            tally=tally,
            total=total.tallies[group],
            suspicious=suspicious,
        )
        yield counts_key(final.window, group), encode_counts(plan, kept)


def _central(plan: Plan, merged: MergedWindow) -> dict[str, Any]:
    """Return what readers of a final learn about one device; empty where nothing is stated."""
    if merged.kind is not Kind.FINAL:
        return {}
    smallest = min(int(n) for tally in merged.tallies for n in tally.n)
    found = central_statement(plan, merged.reports, smallest)
    return {} if found is None else found.to_json()


def _record(
    plan: Plan, merged: MergedWindow, attributes: Attributes, model: Model, *, suspicious: bool
) -> MarginalRecord:
    marginal = model.marginal(attributes)
    if not (np.isfinite(marginal.table).all() and np.isfinite(marginal.stderr).all()):
        raise FatalError(
            f"method {plan.method}: a table over {list(attributes)} is not finite in window "
            f"{merged.window}; this is a defect of the method, please report it with the plan"
        )
    described = [plan.domain.attributes[i] for i in attributes]
    return MarginalRecord(
        window=merged.window,
        kind=merged.kind,
        revision=merged.revision,
        attributes=tuple(attribute.name for attribute in described),
        labels=tuple(attribute.labels for attribute in described),
        table=tuple(marginal.table.tolist()),
        stderr=tuple(marginal.stderr.tolist()),
        noise_floor=marginal.noise_floor,
        reports=marginal.reports,
        flags=(*marginal.flags, *(["suspicious"] if suspicious else [])),
        summaries=published_summaries(model, plan.domain, attributes, plan.summaries),
    )


def _manifest(
    plan: Plan, merged: MergedWindow, tables: tuple[MarginalRecord, ...], steps: tuple[str, ...]
) -> Manifest:
    first = 0 if merged.kind is Kind.TOTAL else merged.window
    return Manifest(
        window=merged.window,
        kind=merged.kind,
        revision=merged.revision,
        start=plan.window_start(first) // 1000,
        end=plan.window_end(merged.window) // 1000,
        plan=plan.digest,
        name=plan.name,
        method=plan.method,
        epsilon=plan.epsilon,
        guarantee={"kind": plan.guarantee.kind, "windows": plan.guarantee.windows},
        loss_window=plan.epsilon,
        loss_plan=loss_plan(plan),
        reports=merged.reports,
        groups=tuple(tally.reports for tally in merged.tallies),
        rejected=_rejected(merged),
        marginals=tuple(record.key.decode() for record in tables),
        processing=steps,
        software=version(),
    )


def processing(model: Model, tables: tuple[MarginalRecord, ...]) -> tuple[str, ...]:
    """Return the processing steps after the raw estimate, from the model or the flags."""
    declared: tuple[str, ...] | None = getattr(model, "processing", None)
    if declared is not None:
        return declared
    flags = {flag for table in tables for flag in table.flags}
    return tuple(step for flag, step in _STEPS.items() if flag in flags)


def _rejected(merged: MergedWindow) -> dict[str, int]:
    totals: Counter[str] = Counter()
    for count in merged.counts:
        totals.update({reason.value: number for reason, number in count.rejects.items()})
    return dict(sorted(totals.items()))
