"""The joint distribution of a dependence tree (Chow and Liu, 1968): tables and samples of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from calmstream.common.errors import InvalidInput
from calmstream.estimators.analysis.association import chow_liu, mutual_information
from calmstream.estimators.domain import Attributes
from calmstream.estimators.marginal import Floats

MAX_CELLS = 1 << 22  # maximum number of cells of a table: 32 MB


@dataclass(frozen=True, slots=True, eq=False)
class Branch:
    """One attribute given its parent."""

    attribute: int
    parent: int | None  # None for a root
    shares: Floats  # (labels of the parent, labels), rows of sum 1; of a root one row


class TreeDistribution:
    """A distribution over all attributes: branches, each after that of its parent."""

    def __init__(self, branches: Sequence[Branch]) -> None:
        self.branches = tuple(branches)

    def table(self, attributes: Attributes) -> Floats:
        """Return the table over ascending positions, of sum 1; cost linear in its cells."""
        labels = {branch.attribute: branch.shares.shape[1] for branch in self.branches}
        if prod(labels[i] for i in attributes) > MAX_CELLS:
            raise InvalidInput(f"a table of more than {MAX_CELLS:,} cells")
        # From the leaves: shares of the cells of the asked attributes below, given a label.
        below = {i: (np.ones((r, 1)), list[int]()) for i, r in labels.items()}
        out, order = np.ones((1, 1)), list[int]()
        for branch in reversed(self.branches):
            i = branch.attribute
            cells, asked = below.pop(i)
            if i in attributes:
                own = np.eye(labels[i])[:, :, None] * cells[:, None]
                cells, asked = own.reshape(labels[i], -1), [i, *asked]
            up = branch.shares @ cells
            known, before = (out, order) if branch.parent is None else below[branch.parent]
            joined = (known[:, :, None] * up[:, None]).reshape(len(known), -1), [*before, *asked]
            if branch.parent is None:
                out, order = joined
            else:
                below[branch.parent] = joined
        return out.reshape([labels[i] for i in order]).transpose(np.argsort(order))

    def sample(self, count: int, random: np.random.Generator) -> NDArray[np.uint16]:
        """Return independent records: codes of shape (count, attributes)."""
        codes = np.zeros((count, len(self.branches)), np.uint16)
        for branch in self.branches:
            labels = branch.shares.shape[1]
            given = 0 if branch.parent is None else codes[:, branch.parent]
            for label, shares in enumerate(branch.shares):
                rows = np.flatnonzero(np.broadcast_to(given == label, count))
                codes[rows, branch.attribute] = random.choice(labels, len(rows), p=shares)
        return codes


def tree_distribution(
    singles: Sequence[Floats], pairs: Mapping[tuple[int, int], Floats]
) -> TreeDistribution:
    """Return the distribution of the Chow-Liu tree of non-negative tables.

    Its tables of attributes and edges are those given, as far as these agree with each other. A
    parent's label without a share says nothing: there the child has its own table.
    """
    d = len(singles)
    near: list[list[int]] = [[] for _ in range(d)]
    for edge in chow_liu(d, {pair: mutual_information(table) for pair, table in pairs.items()}):
        near[edge.first].append(edge.second)
        near[edge.second].append(edge.first)
    branches, seen = list[Branch](), set[int]()
    for root in range(d):
        waiting: list[tuple[int, int | None]] = [] if root in seen else [(root, None)]
        while waiting:
            i, parent = waiting.pop()
            seen.add(i)
            shares = _shares(singles[i][None], singles[i])
            if parent is not None:
                pair = pairs[min(i, parent), max(i, parent)]
                shares = _shares(pair if parent < i else pair.T, singles[i])
            branches.append(Branch(i, parent, shares))
            waiting += [(child, i) for child in near[i] if child != parent]
    return TreeDistribution(branches)


def _shares(table: Floats, otherwise: Floats) -> Floats:
    """Return the rows of a table divided by their sums; an empty row becomes the other table."""
    filled = np.where(table.sum(axis=1, keepdims=True) > 0.0, table, otherwise)
    return np.asarray(filled / filled.sum(axis=1, keepdims=True))
