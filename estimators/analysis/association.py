"""Mutual information, and the tree of dependences that it gives (Chow and Liu, 1968)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from calmstream.estimators.arrays import Floats
from calmstream.estimators.domain import Attributes


def mutual_information(table: Floats) -> float:
    """Return the mutual information in nats of a non-negative table (r, s); noise increases it."""
    cells = np.asarray(table, np.float64)
    if cells.sum() <= 0.0:
        return 0.0
    cells = cells / cells.sum()
    expected = np.outer(cells.sum(axis=1), cells.sum(axis=0))
    positive = cells > 0.0
    ratio = cells[positive] / expected[positive]
    return max(float((cells[positive] * np.log(ratio)).sum()), 0.0)


def chow_liu(d: int, information: Mapping[Attributes, float]) -> list[Attributes]:
    """Return the tree over d attributes whose pairs have the largest sum of mutual information.

    Chow and Liu 1968: its distribution is the tree-shaped one nearest to the joint in
    Kullback-Leibler distance. Pairs without information are never joined: it may be a forest.
    """
    # Kruskal's algorithm with a union-find structure: parents lead to the root of each component.
    parent = list(range(d))

    def component(i: int) -> int:
        while parent[i] != i:
            parent[i] = parent[parent[i]]
            i = parent[i]
        return i

    edges = []
    for pair in sorted(information, key=lambda pair: (-information[pair], pair)):
        a, b = map(component, pair)
        if a != b:
            parent[a] = b
            edges.append(pair)
    return edges
