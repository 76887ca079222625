"""Distributions over all attributes, from which synthetic records are drawn.

Either a dependence tree (Chow and Liu, 1968), or the mixture of hidden causes: its tables differ
from published ones by residuals that the causes do not explain.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import combinations
from math import prod

import numpy as np

from calmstream.common.errors import InvalidInput
from calmstream.estimators.analysis.association import chow_liu, mutual_information
from calmstream.estimators.arrays import Floats
from calmstream.estimators.domain import Attributes, Codes, Domain
from calmstream.estimators.methods.base import HiddenCauses, Model

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

    def sample(self, count: int, random: np.random.Generator) -> Codes:
        """Return independent records: codes of shape (count, attributes)."""
        codes = np.zeros((count, len(self.branches)), np.uint16)
        for branch in self.branches:
            labels = branch.shares.shape[1]
            given = 0 if branch.parent is None else codes[:, branch.parent]
            for label, shares in enumerate(branch.shares):
                rows = np.flatnonzero(np.broadcast_to(given == label, count))
                codes[rows, branch.attribute] = random.choice(labels, len(rows), p=shares)
        return codes


class Mixture:
    """States of weights (states,), and of shares (states, labels) of independent attributes."""

    def __init__(self, weights: Floats, shares: list[Floats]) -> None:
        self.weights, self.shares = weights, shares

    def sample(self, count: int, random: np.random.Generator) -> Codes:
        state = random.choice(len(self.weights), count, p=self.weights)
        codes = np.zeros((count, len(self.shares)), np.uint16)
        for i, share in enumerate(self.shares):
            point = random.random(count)
            for total in np.cumsum(share, axis=1).T[:-1]:
                codes[:, i] += point >= total[state]
        return codes


def tree_distribution(
    singles: Sequence[Floats], pairs: Mapping[Attributes, Floats]
) -> TreeDistribution:
    """Return the distribution of the Chow-Liu tree of non-negative tables.

    Its tables of attributes and edges are those given, as far as these agree with each other. A
    parent's label without a share says nothing: there the child has its own table.
    """
    d = len(singles)
    near: list[list[int]] = [[] for _ in range(d)]
    for i, j in chow_liu(d, {pair: mutual_information(table) for pair, table in pairs.items()}):
        near[i].append(j)
        near[j].append(i)
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


def tree_of(model: Model, domain: Domain) -> TreeDistribution:
    """Return the distribution of the Chow-Liu tree of a fitted model's tables."""

    def table(*attributes: int) -> Floats:
        found = np.maximum(model.marginal(attributes).table, 0.0)
        return found.reshape(domain.shape(attributes))

    pairs: dict[Attributes, Floats] = {}
    for pair in combinations(range(len(domain)), 2):
        if prod(domain.shape(pair)) <= MAX_CELLS:
            with suppress(InvalidInput):  # the plan does not collect what the pair needs
                pairs[pair] = table(*pair)
    return tree_distribution([table(i) for i in range(len(domain))], pairs)


def mixture_of(model: Model, _: Domain) -> Mixture:
    """Return the mean over the posterior of a fitted model's hidden causes."""
    if not isinstance(model, HiddenCauses):
        raise InvalidInput("only noise-aware has a model to draw from: use the tree")
    return Mixture(*model.mixture())


SOURCES: dict[str, Callable[[Model, Domain], TreeDistribution | Mixture]] = {
    "tree": tree_of,
    "model": mixture_of,
}
"""What synthetic records are drawn from, by the name of the option."""
