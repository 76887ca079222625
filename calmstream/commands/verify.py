"""Check signatures, certificate, dates and lineage of a signed plan.

Exit code 0: good; 1: refused; 2: a file cannot be read. The limits of a device's own policy are not
checked.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import orjson

from calmstream import arguments
from calmstream.common.clock import utc
from calmstream.estimators.plan import Plan
from calmstream.estimators.plan.loss import Loss
from calmstream.estimators.randomness import MAX_EPSILON
from calmstream.output import say, say_json
from calmstream.planning import allowed_loss
from calmstream.producer.device.policy import Policy, standing
from calmstream.producer.device.read_plan import read_signed_plan
from calmstream.producer.signed.certificate import Statement
from calmstream.producer.signed.refusal import PlanRefused


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("plan", metavar="SIGNED_PLAN", help="as calmstream sign writes it")
    parser.add_argument(
        "--roots",
        metavar="FILE",
        help="public root keys that are trusted, one a line; without it any root is accepted",
    )
    arguments.add(parser, "--json")


def run(args: argparse.Namespace) -> int:
    roots = arguments.load_roots(args.roots) if args.roots else None
    raw = arguments.read_file(args.plan)
    try:
        plan, statement = _checked(raw, roots)
    except PlanRefused as refused:
        if args.json:
            reason = {"reason": refused.reason.value, "detail": refused.detail}
            say_json({"accepted": False} | reason)
        else:
            say(f"calmstream: {refused}", error=True)
        return 1
    if args.json:
        found = document(plan, statement, trusted=roots is not None)
        say_json(found, option=orjson.OPT_SORT_KEYS)
    else:
        say(*_lines(plan, statement, trusted=roots is not None))
    return 0


def document(plan: Plan, statement: Statement, *, trusted: bool) -> dict[str, Any]:
    return {
        "accepted": True,
        "name": plan.name,
        "digest": plan.digest,
        "purpose": plan.purpose,
        "owner": statement.owner,
        "root": statement.root,
        "root_trusted": True if trusted else None,  # None: the root was not compared
        "key": statement.key,
        "not_before": statement.not_before,
        "not_after": statement.not_after,
        "lineage": plan.lineage,
        "lineage_name": plan.lineage_name,
        "continues": list(plan.continues),
        "start": plan.start,
        "expires": plan.expires,
        "loss": Loss.of(plan).to_json(),
        "recorded": {a.name: a.recorded.to_json() for a in plan.domain.attributes if a.recorded},
    }


def _checked(raw: bytes, roots: tuple[str, ...] | None) -> tuple[Plan, Statement]:
    accepted = read_signed_plan(raw, roots)
    # This policy allows every plan, so that only the dates of the certificate are checked.
    lenient = Policy(roots=(accepted.root,), report_epsilon=f"{MAX_EPSILON}")
    refused = standing(accepted, lenient, int(time.time()))
    if refused is not None:
        raise refused
    assert accepted.statement is not None  # `read_signed_plan` returns signed plans only
    return accepted.plan, accepted.statement


def _lines(plan: Plan, statement: Statement, *, trusted: bool) -> list[str]:
    since, until = (utc(second) for second in (statement.not_before, statement.not_after))
    return [
        f"accepted: plan {plan.name}-{plan.digest[:8]}, signed by {statement.owner}",
        f"  root {statement.root}"
        + ("" if trusted else " (not compared with a list: --roots FILE)"),
        f"  certificate from {since} to {until}",
        f"  plan from {utc(plan.start)} to {utc(plan.expires)}",
        f"  lineage {plan.lineage}, {plan.lineage_name!r}",
        *(f"  continues {lineage}" for lineage in plan.continues),
        f"  {allowed_loss.line(Loss.of(plan))}",
        *(f"  {a.name} from {a.recorded}" for a in plan.domain.attributes if a.recorded),
    ]
