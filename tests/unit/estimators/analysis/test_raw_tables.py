"""Raw tables of methods whose answers are not linear: unbiased, with covariance and a test."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from calmstream.estimators import methods
from calmstream.estimators.analysis.report import analyse, associate
from calmstream.estimators.methods.base import RawTables
from calmstream.evaluation.population import collect
from tests.support.plans import draft, mixed_domain

N, RUNS = 3000, 200
PAIRS = list(combinations(range(3), 2))
TRUTH = np.einsum("ik,j->ijk", [[0.25, 0.15], [0.15, 0.45]], [0.5, 0.3, 0.2])
"""Attributes 0 and 2 depend on each other; attribute 1 on none."""


def codes(run: int) -> np.ndarray:
    cells = np.random.default_rng((9, run)).choice(TRUTH.size, N, p=TRUTH.ravel())
    return np.stack(np.unravel_index(cells, TRUTH.shape), axis=1).astype(np.uint16)


@pytest.mark.parametrize("method", ["rr-joint", "rr-hybrid", "inp-em", "lopub"])
def test_raw_tables_are_unbiased_and_their_test_has_its_size(method: str) -> None:
    """Check tables and covariances cell by cell, and that of two pairs only the right one is found.

    5.5 standard errors; more than 28 of 200 rejections at 5 % have a probability below 1e-6.
    """
    domain = mixed_domain(*TRUTH.shape)
    plan, _ = draft(domain, "8", N, 2, method)
    tables, stated, dependent = {}, {}, dict.fromkeys(PAIRS, 0)
    for run in range(RUNS):
        tallies = collect(plan, codes(run), np.random.SeedSequence((10, run)), exact=True)
        model = methods.fit(plan, tallies)
        assert isinstance(model, RawTables)
        for pair in PAIRS:
            raw = model.raw_table(pair)
            assert raw is not None
            tables.setdefault(pair, []).append(raw[0])
            stated.setdefault(pair, []).append(raw[1])
            test = associate(model, domain, pair, N).test
            assert test is not None
            dependent[pair] += test.dependent
    for pair in PAIRS:
        [other] = {0, 1, 2} - set(pair)
        centred = np.array(tables[pair]) - TRUTH.sum(axis=other).ravel()
        products = np.einsum("ri,rj->rij", centred, centred)
        error = products.std(axis=0) / RUNS**0.5
        assert (np.abs(products.mean(axis=0) - np.mean(stated[pair], axis=0)) < 5.5 * error).all()
        assert (np.abs(centred.mean(axis=0)) < 5.5 * centred.std(axis=0) / RUNS**0.5).all()
    assert max(dependent[0, 1], dependent[1, 2]) <= 28
    assert dependent[0, 2] >= 130


def test_pairs_that_are_not_counted_together_have_no_test() -> None:
    domain = mixed_domain(*TRUTH.shape)
    for method, parameters, tested in (
        ("rr-independent", None, []),
        ("rr-clusters", {"clusters": [["a0", "a2"]]}, [["a0", "a2"]]),
    ):
        plan, _ = draft(domain, "8", N, 2, method, parameters=parameters)
        tallies = collect(plan, codes(0), np.random.SeedSequence(1), exact=True)
        found = analyse(methods.fit(plan, tallies), domain, plan.marginals, N)
        assert [p["attributes"] for p in found["pairs"] if "chi_square" in p] == tested
