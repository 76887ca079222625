"""Chow-Liu trees: the maximum spanning tree by mutual information (Chow and Liu, 1968)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Edge:
    """One pair of attributes that depend on one another directly.

    Attributes:
        first, second: positions, ascending.
        information: their mutual information in nats.
    """

    first: int
    second: int
    information: float


def chow_liu(d: int, information: Mapping[tuple[int, int], float]) -> tuple[Edge, ...]:
    """Return the tree over d attributes whose edges carry the most mutual information together.

    The product of its edges' conditional distributions is the tree-shaped distribution nearest to
    the joint in Kullback-Leibler distance.

    Args:
        d: number of attributes.
        information: by ascending pair; pairs left out are never joined, so that the result may be
            a forest.

    Returns:
        At most d - 1 edges, strongest first; ties go to the lexicographically first pair.
    """
    root = list(range(d))

    def find(i: int) -> int:
        while root[i] != i:
            root[i] = root[root[i]]
            i = root[i]
        return i

    edges = []
    for (i, j), value in sorted(information.items(), key=lambda item: (-item[1], item[0])):
        a, b = find(i), find(j)
        if a != b:
            root[a] = b
            edges.append(Edge(i, j, value))
    return tuple(edges)
