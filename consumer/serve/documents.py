"""What the HTTP interface says about a plan and its windows, as JSON-ready objects."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import Any

from calmstream.consumer.serve.plan_service import PlanService
from calmstream.consumer.serve.results import suspicious
from calmstream.estimators.domain import Attribute
from calmstream.estimators.kinds import Choice, Number, Ordered
from calmstream.estimators.plan import Plan
from calmstream.estimators.plan.loss import Loss
from calmstream.estimators.wire.snapshot import Manifest


def short_plan(service: PlanService) -> dict[str, Any]:
    plan = service.plan
    return {
        "name": plan.name,
        "digest": plan.digest,
        "owner": plan.owner,
        "purpose": plan.purpose,
        "method": plan.method,
        "epsilon": plan.epsilon,
        "newest": service.results.newest,
    }


def whole_plan(service: PlanService) -> dict[str, Any]:
    plan = service.plan
    loss = Loss.of(plan)
    names = plan.domain.names
    about = short_plan(service)
    del about["newest"]
    return about | {
        "words": words(plan),
        "loss": {
            "report": f"{loss.report:f}",
            "window": plan.epsilon,
            "year": f"{loss.year:f}",
            "plan": f"{loss.plan:f}",
        },
        "guarantee": guarantee(plan),
        "windows": {
            "seconds": plan.window,
            "grace": plan.grace,
            "first_start": plan.start,
            "last_end": plan.expires,
        },
        "attributes": [attribute_document(one) for one in plan.ordinary.domain.attributes],
        "hashed": [_hashed(plan, name) for name in plan.domain.hashed],
        "published": [[names[i] for i in marginal] for marginal in plan.marginals],
        "summaries": list(plan.summaries),
        "namespace": service.names.results_namespace,
        "topics": {"snapshots": service.names.snapshots, "counts": service.names.counts},
    }


def attribute_document(attribute: Attribute) -> dict[str, Any]:
    found: dict[str, Any] = {"name": attribute.name, "labels": list(attribute.labels)}
    kind = attribute.kind
    if isinstance(kind, Ordered):
        return found | {"kind": "ordered"}
    if isinstance(kind, Choice):
        return found | {"kind": "option"}
    if not isinstance(kind, Number):
        return found
    return found | {
        "kind": "number",
        "unit": kind.unit,
        "edges": list(kind.values),
        "rounding": kind.rounding,
        "below": kind.below,
        "above": kind.above,
    }


def _hashed(plan: Plan, name: str) -> dict[str, Any]:
    """Return a hashed attribute, with the attributes within whose labels words can be asked."""
    first = plan.domain.hashed[name][0]
    views = (view.attributes for group in plan.groups for view in group.views)
    given = {attributes[0] for attributes in views if attributes[1:] == (first,)}
    return {"name": name, "given": [plan.domain.names[i] for i in sorted(given)]}


def guarantee(plan: Plan) -> str:
    one = plan.guarantee
    return one.kind if one.kind == "once" else f"{one.kind}:{one.windows}"


def words(plan: Plan) -> list[str]:
    d, loss = plan.domain.ordinary + len(plan.domain.hashed), Loss.of(plan)
    asked = max(len(view.attributes) for group in plan.groups for view in group.views)
    about = "its attribute" if d == 1 else f"its {d:,} attributes"
    if asked < d:
        about = f"at most {asked} of {d:,} attributes"
    often = (
        "A device reports once, ever."
        if plan.guarantee.kind == "once"
        else f"A device reports in at most one of every {plan.guarantee.windows:,} windows."
    )
    span = f"from {_day(plan.start)} to {_day(plan.expires)}"
    owner = f" by {plan.owner}" if plan.owner else ""
    when = f"Collected{owner} {span}, in windows of {_duration(plan.window)}."
    cost = (
        f"One report costs a device a privacy loss of epsilon {plan.epsilon}: with any other "
        f"record, it would be at most {_factor(float(loss.report))} times as likely."
    )
    return [
        f"Purpose: {plan.purpose or 'not stated'}" + ("" if plan.purpose.endswith(".") else "."),
        when,
        f"A report speaks about {about}, perturbed on the device: nobody else sees the record.",
        often,
        cost,
        f"Over the whole plan a device loses at most epsilon {loss.plan:f}.",
        "Further questions about the results cost no privacy.",
    ]


def windows(service: PlanService, limit: int) -> dict[str, Any]:
    results = service.results
    early = results.early
    return {
        "newest": results.newest,
        "kept": ranges(service.kept),
        "finals": [_window(final) for final in results.last(limit)],
        "early": None if early is None else {"window": early.window, "reports": early.reports},
    }


def _window(final: Manifest) -> dict[str, Any]:
    return {
        "window": final.window,
        "start": final.start,
        "end": final.end,
        "reports": final.reports,
        "rejected": dict(final.rejected),
        "suspicious": suspicious(final),
        "revision": list(final.revision),
    }


def ranges(windows: list[int]) -> list[list[int]]:
    """Return ascending numbers as ranges ``[first, last]``."""
    found: list[list[int]] = []
    for window in windows:
        if found and found[-1][1] == window - 1:
            found[-1][1] = window
        else:
            found.append([window, window])
    return found


def _factor(epsilon: float) -> str:
    factor = math.exp(epsilon)
    return f"{factor:.1f}" if factor < 20 else f"{factor:,.0f}"


def _day(seconds: int) -> str:
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=min(seconds, 253_402_300_799))
    whole = moment.hour == moment.minute == moment.second == 0
    return f"{moment:%Y-%m-%d}" if whole else f"{moment:%Y-%m-%d %H:%M} UTC"


def _duration(seconds: int) -> str:
    for unit, length in (("day", 86_400), ("hour", 3600), ("minute", 60)):
        if seconds % length == 0:
            count = seconds // length
            return f"{count:,} {unit}" + ("s" if count > 1 else "")
    return f"{seconds:,} second" + ("s" if seconds > 1 else "")
