"""The output of ``calmstream analyse --tree``: the joint distribution along the Chow-Liu tree."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Group
from rich.text import Text

from calmstream.common.errors import InvalidInput
from calmstream.estimators.analysis.tree import tree_distribution
from calmstream.terminal import grid

if TYPE_CHECKING:
    from calmstream.consumer.subscribe.assembler import Snapshot


def joint(snapshot: Snapshot) -> list[dict[str, Any]]:
    """Return one JSON-ready object for each attribute, each after that of its parent.

    ``table`` has the shares of the ``labels`` within each label of the attribute ``given``, which
    is None for a root: its only row are the shares themselves. The product of an attribute's share
    over all attributes is the probability of a record.
    """
    labels: dict[str, tuple[str, ...]] = {}
    found = {}
    for attributes, record in snapshot.marginals.items():
        labels |= zip(attributes, record.labels, strict=True)
        if len(attributes) <= 2:
            table = np.maximum(np.array(record.table), 0.0)
            found[attributes] = table.reshape([len(own) for own in record.labels])
    names = list(labels)
    singles, pairs = {name: found.get((name,)) for name in names}, {}
    for attributes, table in found.items():
        if len(attributes) == 2:
            first, second = map(names.index, attributes)
            pairs[min(first, second), max(first, second)] = table if first < second else table.T
            for axis, name in enumerate(attributes):
                if singles[name] is None:
                    singles[name] = table.sum(axis=1 - axis)
    if not pairs or any(table is None for table in singles.values()):
        raise InvalidInput("--tree: the snapshot has not every attribute in a table of two")
    tree = tree_distribution([table for table in singles.values() if table is not None], pairs)
    return [
        {
            "attribute": names[one.attribute],
            "given": None if one.parent is None else names[one.parent],
            "labels": labels[names[one.attribute]],
            "table": one.shares.tolist(),
        }
        for one in tree.branches
    ]


def render(snapshot: Snapshot) -> Group:
    """Return the conditional tables for people, in percent."""
    branches = joint(snapshot)
    labels = {branch["attribute"]: branch["labels"] for branch in branches}
    parts: list[Any] = []
    for branch in branches:
        given = branch["given"]
        shown = grid(
            f"{branch['attribute']} (%), given {given}" if given else "", right=branch["labels"]
        )
        rows = labels[given] if given else (f"{branch['attribute']} (%)",)
        for label, shares in zip(rows, branch["table"], strict=True):
            shown.add_row(label, *(f"{100.0 * share:.1f}" for share in shares))
        parts += [Text(), shown]
    return Group(*parts)
