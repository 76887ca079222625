"""``calmstream plan``: makes a plan from a data dictionary or a table."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Any

from calmstream import arguments
from calmstream.common.errors import DomainError, InvalidInput
from calmstream.connect import kafka
from calmstream.estimators import planning
from calmstream.estimators.domain import Attribute, Domain
from calmstream.estimators.methods.base import Design
from calmstream.estimators.plan import Plan
from calmstream.estimators.plan.loss import loss
from calmstream.estimators.plan.plan import ON_SUSPICION
from calmstream.estimators.plan.request import Request
from calmstream.evaluation.precision import Precision, needed
from calmstream.evaluation.promises import (
    Goal,
    about,
    documents,
    promises,
    read_goal,
    table,
    ways,
)
from calmstream.pages import understood
from calmstream.planning import allowed_loss, lineage, plan_options, plan_page
from calmstream.planning.lineage import Lineage
from calmstream.planning.methods_page import MethodOrList
from calmstream.planning.pilot import learn
from calmstream.tables.dictionaries import read_dictionary
from calmstream.tables.reading import add_options, reading
from calmstream.tables.records import RecordTable, read_table
from calmstream.terminal import Console

_FIRST_USERS = 100_000
"""Number of reports with which the search for a goal begins."""

_ASSOCIATION = "association"
"""What snapshots have for `calmstream analyse`; not a statistic of an ordered attribute."""


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.description = (
        "Design a collection: what each group of users reports, by which mechanism and "
        "for how long. Print how precise shares will be, and for how many reports."
    )
    parser.add_argument(
        "data",
        metavar="DATA",
        help="a data dictionary (calmstream look writes one; docs/numbers.md), a plan (.json), or "
        "a table (CSV, Parquet, JSON lines, Excel) from which the labels are learnt",
    )
    own = (
        _main,
        plan_options.add_output,
        _collection,
        _tables,
        add_options,
        _time,
        _about,
        _pilot,
    )
    for group in own:
        group(parser)


def _main(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--epsilon",
        required=True,
        help="total privacy loss of one report",
    )
    parser.add_argument(
        "--users",
        type=arguments.positive,
        help="reports expected per window; can be omitted with --for, and with --pilot if the "
        "pilot does not ask every device",
    )
    parser.add_argument(
        "--for",
        dest="goal",
        metavar="GOAL",
        help="what reaches a precision: '±2 points in region,theme', or '±2 points in crashed "
        "given region'",
    )
    parser.add_argument(
        "--given",
        action="append",
        default=[],
        metavar="A,B",
        help="show the precision within groups of these attributes too",
    )
    parser.add_argument(
        "--explain", action="store_true", help="print the reasons of the design and its costs too"
    )
    parser.add_argument(
        "--allow-loss",
        type=arguments.decimal,
        metavar="E",
        help=f"confirm a large privacy loss of one device: needed above {allowed_loss.MAX_REPORT} "
        f"for one report or above {allowed_loss.MAX_YEAR} in any 365 days; the "
        "error message states the number to confirm",
    )
    parser.add_argument(
        "--k",
        required=True,
        type=arguments.positive,
        help="number of attributes of the tables for which the design is optimised",
    )


def _collection(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--method",
        default=arguments.DEFAULT_METHOD,
        action=MethodOrList,
        help="estimation method; list shows all of them and exits (default: %(default)s)",
    )
    parser.add_argument(
        "--parameters",
        type=arguments.json_object,
        default={},
        metavar="JSON",
        help='options of the method, such as \'{"clusters": [["sex", "income"]]}\'',
    )
    parser.add_argument(
        "--summaries",
        type=arguments.names,
        default=[],
        metavar="S",
        help="add statistics of numbers and ordered labels to the published tables, also within "
        "each label of a category where a table has both: mean, median, q0.9 (a quantile), rank "
        "(the rank correlation of two); options then have their share; association: that of all "
        "published pairs (see calmstream analyse)",
    )
    parser.add_argument(
        "--on-suspicion",
        choices=ON_SUSPICION,
        default="flag",
        help="what to do with windows whose raw counts look forged: flag marks their tables, "
        "withhold publishes them without tables (default: %(default)s)",
    )
    parser.add_argument(
        "--early",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="publish tables of windows that are still open; with --no-early readers of snapshots "
        "learn far less about a device, and finals say how much; edges before this release refuse "
        "such a plan (default: --early)",
    )


def _tables(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--marginal",
        action="append",
        type=arguments.names,
        metavar="A,B",
        help="publish this table; repeatable (default: all tables of one and of two attributes)",
    )


def _time(parser: argparse.ArgumentParser) -> None:
    times = parser.add_argument_group("time")
    times.add_argument(
        "--guarantee",
        type=arguments.guarantee,
        default="once",
        help="once: a device reports once, ever (default); w-event:W: a device reports in one of "
        "every W windows",
    )
    plan_options.add_windows(times)
    times.add_argument(
        "--grace",
        type=arguments.duration,
        help="time to wait for late reports (default: a tenth of the window)",
    )
    times.add_argument(
        "--skew",
        type=arguments.duration,
        help="time by which reports can be early (default: a tenth of the window)",
    )


def _about(parser: argparse.ArgumentParser) -> None:
    about = parser.add_argument_group("about")
    plan_options.add_about(about)
    lineage.add_options(about)
    about.add_argument(
        "--lineage-epsilon",
        default="",
        help="maximum that a device may ever lose under the lineage; later plans cannot raise it "
        "(default: epsilon, so that a device answers one plan of the lineage only)",
    )


def _pilot(parser: argparse.ArgumentParser) -> None:
    after = parser.add_argument_group("after a pilot")
    after.add_argument(
        "--pilot",
        metavar="FILE",
        help="earlier plan from whose results the method learns its parameters. The new plan has "
        "the lineage of the pilot, so that devices of the pilot do not report again. With "
        "noise-aware, totals include the reports of the pilot",
    )
    arguments.add_broker(after, required=False)


def run(args: argparse.Namespace) -> int:
    """Design the collection, print what it promises and write the plan."""
    if args.users is None and not args.pilot and args.goal is None:
        raise InvalidInput("--users: state the number of reports that a window will receive")
    plan_page.check_new(args.out)
    times = _times(args, now=time.time())
    lost = loss(args.epsilon, args.guarantee, args.window, times["windows"])
    allowed_loss.check(lost, args.allow_loss)
    domain, data = _domain(args)
    goal = None if args.goal is None else read_goal(args.goal, domain)
    given = arguments.attributes(domain, args.given)
    domain.index(given)
    drafts = _Drafts(args, domain, times)
    codes = None if data is None else data.codes
    plan, design = drafts.for_goal(goal) if goal and drafts.users is None else drafts.draft()
    sizes = {*range(1, args.k + 1), len(given) + 1, goal.size if goal else 1}
    precision = Precision(plan, codes, sorted(size for size in sizes if size <= len(domain)))
    promised = promises(precision, given)
    warnings = plan_page.warnings(plan, design, data=data, now=time.time())
    if data is not None and not args.json:
        understood.show(Console(), Path(args.data).name, data)

    def show(console: Console) -> None:
        plan_page.show(console, plan, table(plan, promised))
        if goal is not None:
            console.print("\n".join(ways(goal, precision, drafts.with_epsilon)))
        if args.explain:
            plan_page.explain(console, plan, design)
            console.print(about(precision))

    more = {
        "loss": lost.to_json(),
        "precision": documents(plan, promised),
        "read": [] if data is None else list(data.said),
    }
    return plan_page.deliver(plan, warnings, show, out=args.out, as_json=args.json, more=more)


class _Drafts:
    """Plans as the options state them, with other numbers of users or another epsilon."""

    def __init__(self, args: argparse.Namespace, domain: Domain, times: dict[str, int]) -> None:
        self._args = args
        self._domain = domain
        self._times = times
        self._given = _after_pilot(args, domain) if args.pilot else _without_pilot(args)
        self.users = self._given.users

    def draft(self, epsilon: str | None = None) -> tuple[Plan, Design]:
        """Return the plan and its design."""
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
            on_suspicion=args.on_suspicion,
            early=args.early,
            summaries=_summaries(self._domain, args.summaries),
            marginals=args.marginal and sorted(map(self._domain.index, args.marginal)),
        )

    def with_epsilon(self, epsilon: str) -> Plan:
        """Return the plan with another epsilon."""
        return self.draft(epsilon)[0]

    def for_goal(self, goal: Goal) -> tuple[Plan, Design]:
        """Return the plan whose windows reach a goal, and its design."""
        self.users = _FIRST_USERS
        for _ in range(2):
            precision = Precision(self.draft()[0])
            reports = needed(goal.width(precision), goal.half_width)
            if reports is None or reports > planning.MAX_USERS:
                raise InvalidInput(
                    f"--for: {goal} cannot be reached at epsilon {self._args.epsilon}"
                )
            self.users = ceil(reports)
        return self.draft()


def _summaries(domain: Domain, texts: Sequence[str]) -> tuple[str, ...]:
    """Return the statistics of the plan, in their shortest spelling."""
    texts = [text for text in texts if text != _ASSOCIATION]
    if texts and all(attribute.kind is None for attribute in domain.attributes):
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


def _times(args: argparse.Namespace, *, now: float) -> dict[str, int]:
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
    """Return the inputs that the options state."""
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


def _domain(args: argparse.Namespace) -> tuple[Domain, RecordTable | None]:
    """Return the domain, and the table from which it was learnt; None for a data dictionary."""
    dictionary = read_dictionary(args.data)
    if dictionary is None:
        table = read_table(args.data, reading(args))
        return table.domain, table
    try:
        return _chosen(dictionary.domain, args), None
    except DomainError as error:
        raise DomainError(f"{args.data}: {error}") from None


def _chosen(domain: Domain, args: argparse.Namespace) -> Domain:
    """Return the domain with only the fields of a record that the options choose."""
    by_field: dict[str, list[Attribute]] = {}
    for attribute in domain.attributes:
        by_field.setdefault(attribute.field, []).append(attribute)
    chosen = args.columns or list(by_field)
    unknown = [name for name in chosen if name not in by_field]
    if unknown:
        raise DomainError(f"no attribute {unknown[0]!r}; there are {', '.join(by_field)}")
    return Domain(tuple(a for name in chosen for a in by_field[name]))
