"""Plans as the options of ``calmstream plan`` state them."""

from __future__ import annotations

import argparse
import secrets
from collections.abc import Sequence
from typing import Any

from calmstream import arguments
from calmstream.broker.transport import Broker
from calmstream.common.errors import InvalidInput, PlanError
from calmstream.connect import opened
from calmstream.consumer.read.history import History
from calmstream.consumer.read.ranges import NoAnswer
from calmstream.estimators import methods, planning
from calmstream.estimators.domain import Domain
from calmstream.estimators.methods.base import Design, Follows, Request
from calmstream.estimators.plan import Plan
from calmstream.planning import plan_options
from calmstream.producer.signed.envelope import signed_lineage

_ASSOCIATION = "association"  # for `calmstream analyse`; no statistic of an attribute


class Drafts:
    """Plans as the options state them; ``users`` is None if a goal decides it."""

    def __init__(self, args: argparse.Namespace, domain: Domain, times: dict[str, int]) -> None:
        self._args = args
        self._domain = domain
        self._times = times
        pilot = arguments.load_plan(args.pilot) if args.pilot else None
        joined, *old = args.lineage or (None,)
        self._lineage, self._lineage_name = _lineage(joined, pilot)
        self._continues = tuple(old)
        self.users: int | None = args.users
        self._parameters: dict[str, Any] = args.parameters
        if pilot is not None:
            self._learn(pilot)

    def _learn(self, pilot: Plan) -> None:
        args = self._args
        if pilot.domain != self._domain:
            raise InvalidInput("--pilot: its domain is different; use the pilot's file as DATA too")
        if args.bootstrap is None:
            raise InvalidInput(
                "--pilot: CALMSTREAM_BOOTSTRAP, or bootstrap in calmstream.toml, must state the "
                "broker of its counts"
            )
        with opened(args) as broker:
            learnt, others = learn(args.method, pilot, broker, args.namespace)
        self._parameters = learnt | self._parameters
        if self.users is None and others < 1:
            raise InvalidInput(
                "--users: every device may report before the pilot ends; state the number of "
                "reports that this plan will receive per window"
            )
        if self.users is None:
            # The devices that the pilot did not ask, spread over the windows of the guarantee.
            self.users = max(1, others // args.guarantee.windows)

    def draft(self, epsilon: str | None = None) -> tuple[Plan, Design]:
        args = self._args
        assert self.users is not None
        request = Request(
            self._domain, epsilon or args.epsilon, self.users, args.k, self._parameters
        )
        return planning.draft(
            args.method,
            request,
            name=args.name,
            purpose=args.purpose,
            owner=args.owner,
            lineage=self._lineage,
            lineage_epsilon=args.lineage_epsilon,
            lineage_name=self._lineage_name,
            continues=self._continues,
            **self._times,
            partitions=args.partitions,
            guarantee=args.guarantee,
            analysis=_ASSOCIATION in args.summaries,
            early=args.window[1],
            summaries=_summaries(self._domain, args.summaries),
            marginals=args.marginal and sorted(map(self._domain.index, args.marginal)),
        )


def learn(method: str, pilot: Plan, broker: Broker, namespace: str) -> tuple[dict[str, Any], int]:
    """Return what a method learns from its pilot's counts, and how many devices have not reported.

    The counts are the total of the newest final window; w-event asks a w-th part a window.
    """
    learner = methods.get(method)
    if not isinstance(learner, Follows):
        raise PlanError(f"method {method} does not learn from a pilot")
    if pilot.method not in learner.teachers:
        known = ", ".join(learner.teachers)
        raise PlanError(f"method {method} learns from {known}; the pilot is {pilot.method}")
    try:
        with History(pilot, broker, namespace=namespace) as history:
            counted = history.counted("total")
    except NoAnswer:
        raise InvalidInput(
            f"plan {pilot.name}: no window with reports is final yet; wait for it"
        ) from None
    reports = sum(tally.reports for tally in counted.tallies)
    remaining = max(pilot.guarantee.windows - pilot.windows, 0)
    others = round(reports / len(counted.windows) * remaining)
    return learner.follow(pilot.ordinary, counted.tallies[: pilot.ordinary_groups]), others


def _lineage(given: str | None, pilot: Plan | None) -> tuple[str, str]:
    """Return the lineage that the option states, or a random one, and its name if it has one."""
    name, lineage = "", None if given == "new" else given
    if lineage is not None and "@" in lineage:
        name, _, root = lineage.rpartition("@")
        if not (name and root):
            raise InvalidInput(f"--lineage: expected NAME@FILE.pub, got {given!r}")
        lineage = signed_lineage(arguments.public_key(root), name)
    if pilot is None:
        return lineage or secrets.token_hex(16), name
    if lineage not in (None, pilot.lineage):
        raise InvalidInput("--lineage: a plan after a pilot has the pilot's lineage")
    return pilot.lineage, pilot.lineage_name


def _summaries(domain: Domain, texts: Sequence[str]) -> tuple[str, ...]:
    texts = [text for text in texts if text != _ASSOCIATION]
    if texts and all(one.kind is None for one in domain.attributes[: domain.ordinary]):
        raise InvalidInput(
            "--summaries: no attribute is a number, ordered or an option; state a kind in the data "
            "dictionary"
        )
    if ranges := [text for text in texts if text.startswith("share:")]:
        raise InvalidInput(
            f"--summaries: {ranges[0]!r} is of one attribute; ask calmstream query --summary for it"
        )
    return tuple(dict.fromkeys(map(_shortest, texts)))


def _shortest(text: str) -> str:
    """Return ``q0.9`` for ``q.9`` and ``q0.90``; other texts as they are."""
    head, point, digits = text.partition(".")
    return f"q0.{digits.rstrip('0')}" if point and head in ("q", "q0") else text


def times_of(args: argparse.Namespace, *, now: float) -> dict[str, int]:
    """Return the times of the plan in seconds; by default it starts with the present window."""
    start, window, windows = plan_options.windows_of(args, now)
    tenth = max(1, window // 10)
    return {
        "start": start,
        "window": window,
        "windows": windows,
        "grace": tenth if args.grace is None else args.grace,
        "skew": tenth if args.skew is None else args.skew,
    }
