"""Distributions over all attributes, from which synthetic records are drawn.

Tables of the mixture differ from published ones by residuals that the causes do not explain.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from itertools import combinations
from math import prod

import numpy as np

from calmstream.common.errors import InvalidInput
from calmstream.estimators.analysis.tree import MAX_CELLS, TreeDistribution, tree_distribution
from calmstream.estimators.domain import Codes, Domain
from calmstream.estimators.marginal import Floats
from calmstream.estimators.methods.base import HiddenCauses, Model


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


def tree_of(model: Model, domain: Domain) -> TreeDistribution:
    """Return the distribution of the Chow-Liu tree of a fitted model's tables."""

    def table(*attributes: int) -> Floats:
        found = np.maximum(model.marginal(attributes).table, 0.0)
        return found.reshape(domain.shape(attributes))

    pairs = {}
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
