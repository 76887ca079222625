"""Design a collection: what each group of users reports, by which mechanism and for how long.

Print how precise shares will be, and for how many reports.
"""

from __future__ import annotations

import argparse
import time
from math import ceil
from pathlib import Path

from calmstream import arguments, result_options
from calmstream.common.errors import DomainError, InvalidInput
from calmstream.defaults import default
from calmstream.estimators import planning
from calmstream.estimators.domain import Attribute, Domain
from calmstream.estimators.methods.base import Design
from calmstream.estimators.plan import Plan
from calmstream.estimators.plan.loss import loss
from calmstream.evaluation.precision import Precision, needed
from calmstream.evaluation.promises import Goal, about, promises, read_goal, table, ways
from calmstream.pages import understood
from calmstream.planning import allowed_loss, plan_options, plan_page
from calmstream.planning.drafts import Drafts, times_of
from calmstream.planning.methods_page import MethodOrList
from calmstream.tables.dictionaries import read_dictionary
from calmstream.tables.reading import add_options, reading, refuse_options
from calmstream.tables.records import RecordTable, read_table
from calmstream.terminal import Console

_FIRST_USERS = 100_000  # number of reports with which the search for a goal begins


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "data",
        metavar="DATA",
        help="a data dictionary (calmstream look writes one; docs/numbers.md), a plan (.json), or "
        "a table (CSV, Parquet, JSON lines, Excel) from which the labels are learnt",
    )
    _main(parser)
    plan_options.add_output(parser)
    _collection(parser)
    add_options(parser)
    _time(parser.add_argument_group("time"))
    _about(parser.add_argument_group("about"), parser.add_argument_group("after a pilot"))
    namespace = default("namespace") or "calmstream"
    parser.set_defaults(parameters={}, bootstrap=default("bootstrap"), namespace=namespace)


def _main(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--epsilon",
        required=True,
        metavar="E[:MOST]",
        help="total privacy loss of one report, and most that it may cost together with what the "
        "device spent under other plans of the lineage; what it spent under w-event stops to count "
        "for a plan with w-event after w windows; later plans cannot raise it (default: E, so "
        "that nothing may count)",
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
        type=arguments.positive,
        help="number of attributes of the tables for which the design is optimised (default: 2)",
    )


def _collection(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--method",
        default=arguments.DEFAULT_METHOD,
        action=MethodOrList,
        metavar="NAME[:JSON]",
        help='estimation method, and its parameters: \'rr-clusters:{"clusters": [["sex", '
        '"income"]]}\'; list shows all methods and exits (default: %(default)s)',
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
        "--marginal",
        action="append",
        type=arguments.names,
        metavar="A,B",
        help="publish this table; repeatable (default: all tables of one and of two attributes)",
    )


def _time(times: argparse._ArgumentGroup) -> None:
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


def _about(about: argparse._ArgumentGroup, after: argparse._ArgumentGroup) -> None:
    plan_options.add_about(about)
    about.add_argument(
        "--lineage",
        type=arguments.names,
        default=(),
        metavar="LINEAGE[,OLD,..]",
        help="join this lineage of earlier plans, whose privacy loss counts together: 32 "
        "hexadecimal digits, new or, for a plan that will be signed, NAME@FILE.pub, its name and "
        "the public root key; the loss of a device under the lineages OLD counts under it too",
    )
    after.add_argument(
        "--pilot",
        metavar="FILE",
        help="earlier plan from whose results the method learns its parameters. The new plan has "
        "the lineage of the pilot, so that devices of the pilot do not report again. With "
        "noise-aware, totals include the reports of the pilot. CALMSTREAM_BOOTSTRAP or "
        "calmstream.toml state the broker",
    )


def run(args: argparse.Namespace) -> int:
    if args.users is None and not args.pilot and args.goal is None:
        raise InvalidInput("--users: state the number of reports that a window will receive")
    args.epsilon, _, args.lineage_epsilon = args.epsilon.partition(":")
    plan_page.check_new(args.out)
    times = times_of(args, now=time.time())
    lost = loss(args.epsilon, args.guarantee, times["window"], times["windows"])
    allowed_loss.check(lost, args.allow_loss)
    domain, data = _domain(args)
    args.k = args.k or min(2, domain.ordinary or 1)
    goal = None if args.goal is None else read_goal(args.goal, domain)
    given = result_options.attributes(domain, args.given)
    domain.index(given)
    drafts = Drafts(args, domain, times)
    codes = None if data is None else data.codes
    plan, design = (
        _for_goal(drafts, goal, args.epsilon) if goal and drafts.users is None else drafts.draft()
    )
    sizes = {*range(1, args.k + 1), len(given) + 1, goal.size if goal else 1}
    precision = Precision(plan, codes, sorted(size for size in sizes if size <= domain.ordinary))
    promised = promises(precision, given)
    warnings = plan_page.warnings(plan, data=data, now=time.time())
    if data is not None and not args.json:
        understood.show(Console(), Path(args.data).name, data)

    def show(console: Console) -> None:
        plan_page.show(console, plan, table(plan, promised))
        if goal is not None:
            console.print(
                "\n".join(ways(goal, precision, lambda epsilon: drafts.draft(epsilon)[0]))
            )
        if args.explain:
            plan_page.explain(console, plan, design)
            console.print(about(precision))

    more = {
        "loss": lost.to_json(),
        "precision": promised,
        "read": [] if data is None else list(data.said),
    }
    return plan_page.deliver(plan, warnings, show, out=args.out, as_json=args.json, more=more)


def _for_goal(drafts: Drafts, goal: Goal, epsilon: str) -> tuple[Plan, Design]:
    drafts.users = _FIRST_USERS
    for _ in range(2):
        precision = Precision(drafts.draft()[0])
        reports = needed(goal.width(precision), goal.half_width)
        if reports is None or reports > planning.MAX_USERS:
            raise InvalidInput(f"--for: {goal} cannot be reached at epsilon {epsilon}")
        drafts.users = ceil(reports)
    return drafts.draft()


def _domain(args: argparse.Namespace) -> tuple[Domain, RecordTable | None]:
    """Return the domain, and the table from which it was learnt, if any."""
    dictionary = read_dictionary(args.data)
    if dictionary is None:
        table = read_table(args.data, reading(args))
        return table.domain, table
    refuse_options(args)
    try:
        return _chosen(dictionary.domain, args), None
    except DomainError as error:
        raise DomainError(f"{args.data}: {error}") from None


def _chosen(domain: Domain, args: argparse.Namespace) -> Domain:
    by_field: dict[str, list[Attribute]] = {}
    for attribute in domain.attributes:
        by_field.setdefault(attribute.field, []).append(attribute)
    chosen = args.columns or list(by_field)
    unknown = [name for name in chosen if name not in by_field]
    if unknown:
        raise DomainError(f"no attribute {unknown[0]!r}; there are {', '.join(by_field)}")
    return Domain(tuple(a for name in chosen for a in by_field[name]))
