"""``calmstream analyse``: association and tests of independence, from kept counts."""

from __future__ import annotations

import argparse

from calmstream import arguments, result_options
from calmstream.common.errors import InvalidInput
from calmstream.estimators.analysis.report import analyse, causes
from calmstream.estimators.methods.base import HiddenCauses
from calmstream.output import say_json
from calmstream.pages import analyse as page
from calmstream.pages.answer import dated
from calmstream.terminal import Console


def add(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Show for every published pair the mutual information, Cramér's V and a test of "
        "independence that accounts for the noise, and the Chow-Liu tree, from the counts that the "
        "publisher keeps. calmstream query --given shows shares within groups."
    )
    result_options.add_results(parser)
    result_options.add_windows(parser)
    parser.add_argument(
        "--tree",
        action="store_true",
        help="add the joint distribution: the shares of each attribute's labels given its parent "
        "in the tree",
    )
    parser.add_argument(
        "--causes",
        action="store_true",
        help="add the hidden causes that the data supports: the labels that each raises and lowers",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(args: argparse.Namespace) -> int:
    plan = arguments.load_plan(args.plan)
    domain = plan.ordinary.domain
    with result_options.history(args, plan) as history:
        counted = history.counted(history.windows_of(args.windows))
        model, windows = counted.model, counted.windows
        reports = sum(tally.reports for tally in counted.tallies)
    if args.causes and not isinstance(model, HiddenCauses):
        raise InvalidInput(f"--causes: method {plan.method} knows no causes; noise-aware does")
    found = analyse(model, domain, plan.marginals, reports)
    if args.tree:
        found["joint"] = page.joint(model, domain)
    if args.causes:
        found["causes"] = causes(domain, model)
    if args.json:
        about = {"name": plan.name, "windows": [windows.to_json(plan)], "reports": reports}
        say_json(about | {"method": plan.method, "epsilon": plan.epsilon} | found)
        return 0
    console = Console()
    console.print(f"{plan.name}-{plan.digest[:8]}: {dated(plan, windows)}, {reports:,} reports")
    console.print(page.render(found))
    if args.tree:
        console.print(page.render_tree(found["joint"]))
    if args.causes:
        console.print(page.render_causes(found["causes"]))
    return 0
