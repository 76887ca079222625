"""Plans as the options of ``calmstream plan`` state them."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from calmstream import arguments
from calmstream.common.errors import InvalidInput
from calmstream.connect import kafka
from calmstream.estimators import planning
from calmstream.estimators.plan.request import Request
from calmstream.planning import lineage, plan_options
from calmstream.planning.lineage import Lineage
from calmstream.planning.pilot import learn

if TYPE_CHECKING:
    from calmstream.estimators.domain import Domain
    from calmstream.estimators.methods.base import Design
    from calmstream.estimators.plan import Plan

_ASSOCIATION = "association"
"""What snapshots have for `calmstream analyse`; not a statistic of an ordered attribute."""


class Drafts:
    """Plans as the options state them, with other numbers of users or another epsilon."""

    def __init__(self, args: argparse.Namespace, domain: Domain, times: dict[str, int]) -> None:
        self._args = args
        self._domain = domain
        self._times = times
        self._given = _after_pilot(args, domain) if args.pilot else _without_pilot(args)
        self.users = self._given.users

    def draft(self, epsilon: str | None = None) -> tuple[Plan, Design]:
        args, given = self._args, self._given
        assert self.users is not None
        request = Request(
            self._domain, epsilon or args.epsilon, self.users, args.k, given.parameters
        )
        return planning.draft(
            args.method,
            request,
            name=args.name,
            purpose=args.purpose,
            owner=args.owner,
            lineage=given.lineage.lineage,
            lineage_epsilon=args.lineage_epsilon,
            lineage_name=given.lineage.lineage_name,
            continues=given.lineage.continues,
            **self._times,
            partitions=args.partitions,
            guarantee=args.guarantee,
            analysis=_ASSOCIATION in args.summaries,
            early=args.early,
            summaries=_summaries(self._domain, args.summaries),
            marginals=args.marginal and sorted(map(self._domain.index, args.marginal)),
        )

    def with_epsilon(self, epsilon: str) -> Plan:
        return self.draft(epsilon)[0]


@dataclass(frozen=True, slots=True)
class Inputs:
    """The inputs of a design that a pilot can supply.

    Attributes:
        users: number of reports expected per window; None if a goal decides it.
        parameters: options of the method.
        lineage: the lineage of the plan.
    """

    users: int | None
    parameters: dict[str, Any]
    lineage: Lineage


def _without_pilot(args: argparse.Namespace) -> Inputs:
    return Inputs(args.users, args.parameters, lineage.chosen(args, None))


def _after_pilot(args: argparse.Namespace, domain: Domain) -> Inputs:
    """Return the inputs that a pilot supplies; options that are given take precedence."""
    pilot = arguments.load_plan(args.pilot)
    if pilot.domain != domain:
        raise InvalidInput("--pilot: its domain is different; use the pilot's file as DATA too")
    follows = lineage.chosen(args, pilot)
    if args.bootstrap is None:
        raise InvalidInput("--pilot needs --bootstrap, the broker of its snapshots")
    with closing(kafka(args.bootstrap)) as broker:
        result = learn(args.method, pilot, broker, args.namespace)
    users = args.users
    if users is None:
        # The devices that the pilot did not ask, spread over the windows of the guarantee.
        users = max(1, result.others(pilot) // args.guarantee.windows)
    return Inputs(users, result.parameters | args.parameters, follows)


def _summaries(domain: Domain, texts: Sequence[str]) -> tuple[str, ...]:
    """Return the statistics of the plan, in their shortest spelling."""
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
