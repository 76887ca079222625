"""Show the association of every published pair, and the Chow-Liu tree, from the kept counts.

Mutual information, Cramér's V, and a test of independence that accounts for the noise. calmstream
query --given shows shares within groups.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from rich.console import Group, RenderableType
from rich.text import Text

from calmstream import arguments, result_options
from calmstream.common.errors import InvalidInput
from calmstream.estimators.analysis.grouped import ratios
from calmstream.estimators.analysis.report import analyse, causes
from calmstream.estimators.analysis.synthetic import tree_of
from calmstream.estimators.domain import Domain
from calmstream.estimators.marginal import Z95
from calmstream.estimators.methods.base import HiddenCauses, Model
from calmstream.output import say_json
from calmstream.pages.answer import heading
from calmstream.terminal import Console, grid

WITHOUT_TEST = "no test of independence with this method; noise increases these numbers"
NO_CAUSE = "no hidden cause is supported: what pairs have in common may be noise"
MOST_LABELS = 10  # labels of a cause that are shown; ``--json`` has all


def add(parser: argparse.ArgumentParser) -> None:
    arguments.add(parser, *arguments.RESULTS, "--windows", "--json")
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


def run(args: argparse.Namespace) -> int:
    plan = arguments.load_plan(args.plan)
    domain = plan.ordinary.domain
    with result_options.history(args, plan) as history:
        counted = history.counted(args.windows)
        model, windows = counted.model, counted.windows
        reports = sum(tally.reports for tally in counted.tallies)
    if args.causes and not isinstance(model, HiddenCauses):
        raise InvalidInput(f"--causes: method {plan.method} knows no causes; noise-aware does")
    found = analyse(model, domain, plan.marginals, reports)
    if args.tree:
        found["joint"] = joint(model, domain)
    if args.causes:
        found["causes"] = causes(domain, model)
    if args.json:
        about = {"name": plan.name, "windows": [windows.to_json(plan)], "reports": reports}
        say_json(about | {"method": plan.method, "epsilon": plan.epsilon} | found)
        return 0
    console = Console()
    console.print(heading(plan, windows, reports))
    console.print(render(found))
    if args.tree:
        console.print(render_tree(found["joint"]))
    if args.causes:
        console.print(render_causes(found["causes"]))
    return 0


def render(found: Mapping[str, Any]) -> RenderableType:
    parts = [_pairs(found)]
    if not any("chi_square" in pair for pair in found["pairs"]):
        parts.append(Text(WITHOUT_TEST, style="dim"))
    edges = (f"{_pair(edge)} ({edge['mutual_information']:.4f})" for edge in found["tree"])
    return Group(*parts, Text(f"Chow-Liu tree (nats): {', '.join(edges)}"))


def _pair(entry: Mapping[str, Any]) -> str:
    return " - ".join(entry["attributes"])


def _pairs(result: Mapping[str, Any]) -> RenderableType:
    columns = ("pair", "information", "Cramér's V", "chi-square", "critical", "p", "")
    strongest = sorted(result["pairs"], key=lambda pair: -pair["mutual_information"])
    rows = [_cells(pair) for pair in strongest]
    used = [place for place in range(len(columns)) if any(row[place] for row in rows)]
    first, *others = (columns[place] for place in used)
    shown = grid(first, right=others)
    for row in rows:
        shown.add_row(*(row[place] for place in used))
    return shown


def _cells(pair: Mapping[str, Any]) -> tuple[str, ...]:
    cells = (_pair(pair), f"{pair['mutual_information']:.4f}", f"{pair['cramers_v']:.3f}")
    test = pair.get("chi_square")
    if not test or None in test.values():
        return (*cells, "", "", "", "")
    numbers = (f"{test['statistic']:,.1f}", f"{test['critical']:,.1f}", f"{test['p_value']:.2g}")
    return (*cells, *numbers, "dependent" if test["dependent"] else "")


def joint(model: Model, domain: Domain) -> list[dict[str, Any]]:
    """Return one JSON-ready object for each attribute, each after that of its parent.

    ``table`` has the shares of the ``labels`` within each label of the attribute ``given``, which
    is None for a root: its only row are the shares themselves. The product of an attribute's share
    over all attributes is the probability of a record. ``stderr`` has standard errors of the
    shares, which take the errors of a table's cells as independent.
    """
    found = []
    for branch in tree_of(model, domain).branches:
        i, parent = branch.attribute, branch.parent
        if parent is None:
            error = model.marginal((i,)).stderr[None]
        else:
            pair = (min(i, parent), max(i, parent))
            known, shape = model.marginal(pair), domain.shape(pair)
            cells = [x.reshape(shape) for x in (np.maximum(known.table, 0.0), known.stderr**2)]
            table, variance = (one if parent < i else one.T for one in cells)
            error = ratios(table, np.stack([np.diag(row) for row in variance]))[1]
        found.append(
            {
                "attribute": domain.names[i],
                "given": None if parent is None else domain.names[parent],
                "labels": list(domain.attributes[i].labels),
                "table": branch.shares.tolist(),
                "stderr": error.tolist(),
            }
        )
    return found


def render_tree(branches: Sequence[Mapping[str, Any]]) -> Group:
    labels = {branch["attribute"]: branch["labels"] for branch in branches}
    parts: list[Any] = []
    for branch in branches:
        given = branch["given"]
        title = f"{branch['attribute']} (%, ± 95 %)"
        shown = grid(f"{title}, given {given}" if given else "", right=branch["labels"])
        rows = labels[given] if given else (title,)
        for label, shares, errors in zip(rows, branch["table"], branch["stderr"], strict=True):
            cells = zip(shares, errors, strict=True)
            shown.add_row(label, *(f"{100 * s:.1f} ± {100 * Z95 * e:.1f}" for s, e in cells))
        parts += [Text(), shown]
    return Group(*parts)


def render_causes(causes: Sequence[Mapping[str, Any]]) -> Group:
    """Return the causes for people: shares of labels without and with each, in percent."""
    parts: list[Any] = [Text(), Text("Hidden causes", style="bold")]
    if not causes:
        return Group(*parts, Text(NO_CAUSE, style="dim"))
    for number, cause in enumerate(causes, 1):
        shown = grid("label", right=("without", "with", "95 %"))
        for one in cause["labels"][:MOST_LABELS]:
            shown.add_row(
                f"{one['attribute']}: {one['label']}",
                f"{100.0 * one['without']:.0f}",
                f"{100.0 * one['within']:.0f}",
                f"± {100.0 * Z95 * one['stderr']:.0f}",
            )
        parts += [Text(f"\n{number}. {about(cause)}"), shown]
    return Group(*parts)


def about(cause: Mapping[str, Any]) -> str:
    low, high = (cause["share"] + side * Z95 * cause["stderr"] for side in (-1.0, 1.0))
    share = f"{100.0 * max(low, 0.0):.0f} to {100.0 * min(high, 1.0):.0f} % of all"
    return f"{share}, in {100.0 * cause['agreement']:.0f} % of the model's draws"
