"""``calmstream central plan``: a plan for raw records and a trusted aggregator."""

from __future__ import annotations

import argparse
import time

from rich.filesize import decimal

from calmstream import arguments
from calmstream.common.errors import InvalidInput
from calmstream.estimators.central.accounting import zcdp_variance
from calmstream.estimators.central.coding import most_raw_bytes
from calmstream.estimators.central.plan import CentralPlan
from calmstream.planning import plan_options, plan_page
from calmstream.tables.records import read_texts
from calmstream.terminal import Console

_RAW = "Raw records reach the aggregator and its topic: this is not local privacy."


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "data",
        metavar="TABLE",
        help="a table (.csv, .csv.gz), for its columns; values are learnt later, with noise",
    )
    parser.add_argument(
        "--epsilon", required=True, help="total privacy loss of one user over the whole plan"
    )
    parser.add_argument("--delta", default="1e-6", help="delta of the guarantee (%(default)s)")
    parser.add_argument(
        "--k", required=True, type=arguments.positive, help="number of columns of the widest tuples"
    )
    plan_options.add_output(parser)
    parser.add_argument(
        "--columns", type=arguments.names, help="use only these columns, in this order"
    )
    parser.add_argument(
        "--quantile",
        metavar="SHARE",
        default="0.99",
        help="share of the users whose k-tuples (k columns with a value for each) should all count "
        "(default: %(default)s)",
    )
    parser.add_argument(
        "--spurious",
        metavar="SHARE",
        default="0.01",
        help="maximum expected number of spurious tuples, which no record has, per tuple of the "
        "previous level (default: %(default)s)",
    )
    parser.add_argument(
        "--sample",
        metavar="SHARE",
        default="1",
        help="count only this share of the users, such as 0.1; with --users it limits the "
        "aggregator's memory (default: %(default)s)",
    )
    parser.add_argument(
        "--users",
        type=arguments.positive,
        default=0,
        help="maximum number of users of a window, of whom --sample counts a share",
    )
    parser.add_argument(
        "--seen-only",
        action="store_true",
        help="publish no spurious tuples, with higher thresholds",
    )
    plan_options.add_windows(parser.add_argument_group("time"))
    plan_options.add_about(parser.add_argument_group("about"))


def run(args: argparse.Namespace) -> int:
    plan_page.check_new(args.out)
    start, window, releases = plan_options.windows_of(args, time.time())
    plan = CentralPlan(
        name=args.name,
        purpose=args.purpose,
        owner=args.owner,
        columns=_columns(args),
        epsilon=args.epsilon,
        levels=args.k,
        start=start,
        window=window,
        releases=releases,
        partitions=args.partitions,
        seen_only=args.seen_only,
        users=args.users,
        delta=args.delta,
        quantile=args.quantile,
        spurious=args.spurious,
        sample=args.sample,
    )
    warnings = [_RAW, *plan_page.over(start + plan.releases * window, time.time())]
    return plan_page.deliver(
        plan, warnings, lambda console: show(console, plan), out=args.out, as_json=args.json
    )


def show(console: Console, plan: CentralPlan) -> None:
    spend = plan.method.spend
    one = spend.epsilon(plan.delta)
    whole = spend.times(plan.releases).zcdp_epsilon(plan.delta)
    older = zcdp_variance(plan.epsilon, plan.delta, plan.levels, plan.releases)
    less = 1 - float(spend.variance / older) ** 0.5
    head = (
        f"CENTRAL plan {plan.name}-{plan.digest[:8]}: dp-marginals, tuples of up to "
        f"{plan.levels} of {len(plan.columns)} columns\n"
        f"  epsilon {plan.epsilon}, delta {plan.delta} for a user over all {plan.releases:,} "
        f"releases; one release alone is worth epsilon {one:.3g}\n"
        f"  counts have a standard error of {float(spend.variance) ** 0.5:.3g} · "
        "sqrt(tuples that count of a user)\n"
        f"  numerical composition: by the bound of zCDP the same noise would mean epsilon "
        f"{whole:.3g}; at epsilon {plan.epsilon} the noise is {less:.0%} smaller than by zCDP"
    )
    lines = [head]
    if plan.users:
        lines.append(
            f"  a share of {plan.sample} of the users of a window counts, of at most "
            f"{plan.users:,}: their raw records take up to {decimal(most_raw_bytes(plan))} of the "
            "aggregator's memory"
        )
    lines.append(
        "  next: calmstream central account (the budget, once), topics, aggregate, submit, watch"
    )
    console.print("\n".join(lines), soft_wrap=True)


def _columns(args: argparse.Namespace) -> tuple[str, ...]:
    if args.columns:
        return tuple(args.columns)
    if args.data.endswith(".json"):
        raise InvalidInput(f"{args.data}: a central plan takes the columns of a CSV, or --columns")
    return tuple(read_texts(args.data))
