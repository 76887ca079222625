"""Check the variances of pooled marginals against dense linear algebra."""

from __future__ import annotations

from itertools import combinations
from math import prod

import numpy as np
import pytest

from calmstream.estimators.mechanisms.registry import build
from calmstream.estimators.numerics.consistency import harmonise, projection, structure
from calmstream.estimators.papers.calm.pooled_variance import Pooled

FAMILIES = {
    "all pairs": (tuple(combinations(range(4), 2)), (2, 3, 2, 4)),
    "triples": (((0, 1, 2), (1, 2, 3), (0, 2, 3)), (2, 3, 2, 2)),
    "unequal": (((0, 1, 2), (1, 2), (3,), (0, 3)), (3, 2, 2, 3)),
}


@pytest.mark.parametrize("oracle", ["grr", "oue"])
@pytest.mark.parametrize("family", FAMILIES)
def test_equals_the_dense_computation(family: str, oracle: str) -> None:
    views, cardinalities = FAMILIES[family]
    generator = np.random.default_rng(len(family))
    shared = structure(views, cardinalities)
    covariances = []
    for view in views:
        cells = prod(cardinalities[i] for i in view)
        mechanism = build({"name": oracle, "cells": cells}, "1")
        n = int(generator.integers(50, 5000))
        covariances.append(mechanism.covariance(n, generator.dirichlet(np.ones(cells))))
    precision = generator.uniform(0.5, 5, len(views))
    pooled = Pooled(views, cardinalities, covariances, precision)

    total = int(shared.offsets[-1])
    zero, _ = harmonise(shared, np.zeros(total), precision)
    step = np.stack([harmonise(shared, e, precision)[0] - zero for e in np.eye(total)], axis=1)
    dense = np.zeros((total, total))
    for v, own in enumerate(covariances):
        block = slice(shared.offsets[v], shared.offsets[v + 1])
        dense[block, block] = np.diag(own.diagonal) - own.factors @ own.factors.T
    consistent = step @ dense @ step.T

    for v, view in enumerate(views):
        block = slice(shared.offsets[v], shared.offsets[v + 1])
        for size in range(1, len(view) + 1):
            for target in combinations(view, size):
                into = projection(view, target, cardinalities)
                sums = (into[None, :] == np.arange(into.max() + 1)[:, None]).astype(float)
                expected = np.diag(sums @ consistent[block, block] @ sums.T)
                np.testing.assert_allclose(pooled.variance(target), expected, rtol=1e-9)


def test_an_attribute_in_no_view_adds_nothing() -> None:
    mechanism = build({"name": "grr", "cells": 2}, "1")
    own = mechanism.covariance(10, np.array([0.5, 0.5]))
    pooled = Pooled(((0,),), (2, 5), [own], np.ones(1))
    np.testing.assert_array_equal(pooled.variance((1,)), np.zeros(5))
    # One fifth of the first attribute's share each: a fifth of its error.
    both = pooled.variance((0, 1))
    np.testing.assert_allclose(both, np.repeat(pooled.variance((0,)) / 25, 5))
