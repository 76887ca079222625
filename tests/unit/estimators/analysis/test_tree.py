from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest

from calmstream.estimators.analysis.synthetic import TreeDistribution, tree_distribution

SHAPE = (2, 3, 4, 2, 3)


def marginal(joint: np.ndarray, attributes: tuple[int, ...]) -> np.ndarray:
    return joint.sum(axis=tuple(i for i in range(joint.ndim) if i not in attributes))


def fitted(joint: np.ndarray) -> TreeDistribution:
    d = joint.ndim
    singles = [marginal(joint, (i,)) for i in range(d)]
    return tree_distribution(singles, {p: marginal(joint, p) for p in combinations(range(d), 2)})


def any_joint(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).dirichlet(np.full(np.prod(SHAPE), 0.2)).reshape(SHAPE)


def whole(tree: TreeDistribution) -> np.ndarray:
    out = np.empty(SHAPE)
    for cell in product(*map(range, SHAPE)):
        given = (0 if b.parent is None else cell[b.parent] for b in tree.branches)
        shares = [b.shares[g, cell[b.attribute]] for b, g in zip(tree.branches, given, strict=True)]
        out[cell] = np.prod(shares)
    return out


@pytest.mark.parametrize("seed", range(3))
def test_every_table_is_that_of_the_product_of_the_branches(seed: int) -> None:
    tree = fitted(any_joint(seed))
    full = whole(tree)
    assert full.sum() == pytest.approx(1.0)
    for size in range(1, len(SHAPE) + 1):
        for attributes in combinations(range(len(SHAPE)), size):
            np.testing.assert_allclose(tree.table(attributes), marginal(full, attributes))


def test_single_attributes_and_the_pairs_of_the_tree_have_the_given_tables() -> None:
    joint = any_joint(4)
    tree = fitted(joint)
    edges = [tuple(sorted((b.attribute, b.parent))) for b in tree.branches if b.parent is not None]
    assert len(edges) == len(SHAPE) - 1
    for attributes in [*edges, *((i,) for i in range(len(SHAPE)))]:
        np.testing.assert_allclose(tree.table(attributes), marginal(joint, attributes))


def test_samples_have_the_tables_of_the_tree() -> None:
    tree, n = fitted(any_joint(6)), 200_000
    codes = tree.sample(n, np.random.default_rng(7))
    for pair in combinations(range(len(SHAPE)), 2):
        table = tree.table(pair)
        found = np.zeros(table.shape)
        np.add.at(found, tuple(codes[:, pair].T), 1.0 / n)
        assert (np.abs(found - table) <= 5.0 * np.sqrt(table * (1 - table) / n) + 1e-9).all()


def test_attributes_without_a_pair_are_independent_and_empty_labels_harmless() -> None:
    singles = [np.array([1.0, 0.0]), np.array([0.5, 0.5]), np.array([0.2, 0.8])]
    tree = tree_distribution(singles, {(0, 1): np.array([[0.5, 0.5], [0.0, 0.0]])})
    np.testing.assert_allclose(tree.table((1, 2)), np.outer(singles[1], singles[2]))
    np.testing.assert_allclose(tree.table((0, 1)), [[0.5, 0.5], [0.0, 0.0]])
