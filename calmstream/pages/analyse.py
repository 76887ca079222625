"""The output of ``calmstream analyse``: the association of all published pairs of attributes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Group
from rich.table import Table as Grid
from rich.text import Text

from calmstream.common.errors import InvalidInput
from calmstream.estimators.analysis.association import chow_liu, mutual_information
from calmstream.estimators.numerics.dependence import cramers_v
from calmstream.pages.watch import header, truth
from calmstream.terminal import grid

if TYPE_CHECKING:
    from rich.console import RenderableType

    from calmstream.consumer.subscribe.assembler import Snapshot

WITHOUT_TEST = (
    "no test of independence: the snapshot contains none (make a plan with --summaries "
    "association); noise increases these numbers"
)
"""Note for snapshots without tests."""


def association(snapshot: Snapshot) -> Mapping[str, Any]:
    """Return the analysis in the snapshot, or one of its published tables, without tests."""
    if snapshot.manifest.analysis:
        return snapshot.manifest.analysis
    names = [name for attributes in snapshot.marginals for name in attributes]
    position = {name: i for i, name in enumerate(dict.fromkeys(names))}
    pairs, information = [], {}
    for attributes, record in snapshot.marginals.items():
        if len(attributes) != 2:
            continue
        shape = [len(labels) for labels in record.labels]
        table = np.maximum(np.array(record.table), 0.0).reshape(shape)
        information_of_pair = mutual_information(table)
        i, j = sorted((position[attributes[0]], position[attributes[1]]))
        information[i, j] = information_of_pair
        noise = np.square(np.array(record.stderr)).reshape(shape)
        pairs.append(
            {
                "attributes": list(attributes),
                "mutual_information": information_of_pair,
                "cramers_v": cramers_v(table, noise),
            }
        )
    if not pairs:
        raise InvalidInput("the snapshot has no table of two attributes to analyse")
    ordered = list(position)
    tree = [
        {"attributes": [ordered[e.first], ordered[e.second]], "mutual_information": e.information}
        for e in chow_liu(len(position), information)
    ]
    return {"pairs": pairs, "tree": tree}


def document(snapshot: Snapshot) -> dict[str, Any]:
    """Return a JSON object: what is analysed, and the association."""
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
    """Return the association as a table for people."""
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


def _pairs(result: Mapping[str, Any]) -> Grid:
    """Return the pairs, strongest first, without empty columns."""
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
    """Return the row of one pair; cells of a missing test are empty."""
    cells = (_pair(pair), f"{pair['mutual_information']:.4f}", f"{pair['cramers_v']:.3f}")
    test = pair.get("chi_square")
    if not test or None in test.values():
        return (*cells, "", "", "", "")
    numbers = (f"{test['statistic']:,.1f}", f"{test['critical']:,.1f}", f"{test['p_value']:.2g}")
    return (*cells, *numbers, "dependent" if test["dependent"] else "")
