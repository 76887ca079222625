"""The output of ``calmstream analyse``: the association of all published pairs of attributes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from rich.console import Group, RenderableType
from rich.text import Text

from calmstream.common.errors import InvalidInput
from calmstream.consumer.subscribe.assembler import Snapshot
from calmstream.estimators.analysis.association import chow_liu, mutual_information
from calmstream.estimators.analysis.grouped import ratios
from calmstream.estimators.analysis.tree import tree_distribution
from calmstream.estimators.marginal import Z95, Floats
from calmstream.estimators.numerics.dependence import cramers_v
from calmstream.pages.watch import header, truth
from calmstream.terminal import grid

_Cells = tuple[Floats, Floats]
"""A table without negative cells, and the variances of its cells."""

WITHOUT_TEST = (
    "no test of independence: the snapshot contains none (make a plan with --summaries "
    "association); noise increases these numbers"
)
"""Note for snapshots without tests."""


def association(snapshot: Snapshot) -> Mapping[str, Any]:
    """Return the analysis in the snapshot, or one of its published tables, without tests."""
    if snapshot.manifest.analysis:
        return snapshot.manifest.analysis
    names, _, tables = _tables(snapshot)
    if not tables:
        raise InvalidInput("the snapshot has no table of two attributes to analyse")
    information = {pair: mutual_information(table) for pair, (table, _) in tables.items()}
    pairs = [
        {
            "attributes": [names[i] for i in pair],
            "mutual_information": information[pair],
            "cramers_v": cramers_v(*tables[pair]),
        }
        for pair in tables
    ]
    tree = [
        {"attributes": [names[e.first], names[e.second]], "mutual_information": e.information}
        for e in chow_liu(len(names), information)
    ]
    return {"pairs": pairs, "tree": tree}


def document(snapshot: Snapshot) -> dict[str, Any]:
    manifest = snapshot.manifest
    return {
        "name": manifest.name,
        "window": manifest.window,
        "kind": str(manifest.kind),
        "reports": manifest.reports,
        "method": manifest.method,
        "epsilon": manifest.epsilon,
        **association(snapshot),
    }


def render(snapshot: Snapshot) -> RenderableType:
    result = association(snapshot)
    parts: list[RenderableType] = [
        Text(header(snapshot.manifest), style="bold"),
        Text(truth(snapshot.manifest), style="dim"),
        _pairs(result),
    ]
    if not any("chi_square" in pair for pair in result["pairs"]):
        parts.append(Text(WITHOUT_TEST, style="dim"))
    edges = (f"{_pair(edge)} ({edge['mutual_information']:.4f})" for edge in result["tree"])
    parts.append(Text(f"Chow-Liu tree (nats): {', '.join(edges)}"))
    return Group(*parts)


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


def joint(snapshot: Snapshot) -> list[dict[str, Any]]:
    """Return one JSON-ready object for each attribute, each after that of its parent.

    ``table`` has the shares of the ``labels`` within each label of the attribute ``given``, which
    is None for a root: its only row are the shares themselves. The product of an attribute's share
    over all attributes is the probability of a record. ``stderr`` has standard errors of the
    shares, which take the errors of a table's cells as independent.
    """
    labels: dict[str, tuple[str, ...]] = {}
    for attributes, record in snapshot.marginals.items():
        labels |= zip(attributes, record.labels, strict=True)
    names, singles, pairs = _tables(snapshot)
    if not pairs or len(singles) < len(names):
        raise InvalidInput("--tree: the snapshot has not every attribute in a table of two")
    tree = tree_distribution(
        [singles[i][0] for i in range(len(names))],
        {pair: table for pair, (table, _) in pairs.items()},
    )
    found = []
    for branch in tree.branches:
        i, parent = branch.attribute, branch.parent
        error = np.sqrt(singles[i][1])[None]
        if parent is not None:
            table, variance = (
                one if parent < i else one.T for one in pairs[min(i, parent), max(i, parent)]
            )
            error = ratios(table, np.stack([np.diag(row) for row in variance]))[1]
        given = None if parent is None else names[parent]
        shares = {"table": branch.shares.tolist(), "stderr": error.tolist()}
        found.append({"attribute": names[i], "given": given, "labels": labels[names[i]]} | shares)
    return found


def _tables(
    snapshot: Snapshot,
) -> tuple[list[str], dict[int, _Cells], dict[tuple[int, int], _Cells]]:
    """Return the names of attributes, and the tables of one and of two by positions among them.

    Attributes that have no table of their own have the sums of that of a pair.
    """
    names = list(dict.fromkeys(name for one in snapshot.marginals for name in one))
    singles: dict[int, _Cells] = {}
    pairs: dict[tuple[int, int], _Cells] = {}
    for attributes, record in snapshot.marginals.items():
        shape = [len(own) for own in record.labels]
        table = np.maximum(np.array(record.table), 0.0).reshape(shape)
        variance = np.square(np.array(record.stderr)).reshape(shape)
        if len(attributes) == 1:
            singles[names.index(attributes[0])] = table, variance
        elif len(attributes) == 2:
            first, second = map(names.index, attributes)
            cells = (table, variance) if first < second else (table.T, variance.T)
            pairs[min(first, second), max(first, second)] = cells
    for pair, (table, variance) in pairs.items():
        for axis, i in enumerate(pair):
            singles.setdefault(i, (table.sum(axis=1 - axis), variance.sum(axis=1 - axis)))
    return names, singles, pairs


def render_tree(snapshot: Snapshot) -> Group:
    """Return the conditional tables for people, in percent with 95 % intervals."""
    branches = joint(snapshot)
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


MOST_LABELS = 10
"""Labels of a cause that are shown; ``--json`` has all."""

NO_CAUSE = "no hidden cause is supported: what pairs have in common may be noise"


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
