"""Chow-Liu trees: the maximum spanning tree by mutual information (Chow and Liu, 1968)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Edge:
    """One edge of a dependence tree: two attributes that depend on each other directly.

    Attributes:
        information: mutual information of the two in nats.
    """

    first: int
    second: int
    information: float


def chow_liu(d: int, information: Mapping[tuple[int, int], float]) -> tuple[Edge, ...]:
    """Return the tree over d attributes whose edges have the largest sum of mutual information.

    The product of its edges' conditional distributions is the tree-shaped distribution nearest to
    the joint in Kullback-Leibler distance.

    Args:
        information: mutual information by ascending pair; missing pairs are never joined, so the
            result may be a forest.
    """
    # Kruskal's algorithm with a union-find structure: parents lead to the root of each component.
    parent = list(range(d))

    def component(i: int) -> int:
        while parent[i] != i:
            parent[i] = parent[parent[i]]
            i = parent[i]
        return i

    edges = []
    for (i, j), value in sorted(information.items(), key=lambda item: (-item[1], item[0])):
        a, b = component(i), component(j)
        if a != b:
            parent[a] = b
            edges.append(Edge(i, j, value))
    return tuple(edges)
