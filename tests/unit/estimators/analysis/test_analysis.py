from __future__ import annotations

import math
from dataclasses import replace
from itertools import combinations, product

import numpy as np
import pytest
from scipy import stats

from calmstream.estimators import methods
from calmstream.estimators.analysis.association import chow_liu, mutual_information
from calmstream.estimators.analysis.chi_square import even_independence, independence
from calmstream.estimators.analysis.report import analyse
from calmstream.estimators.mechanisms.base import Covariance
from calmstream.estimators.methods.base import LinearAnswers
from calmstream.estimators.numerics.distribution import critical_value, tail
from calmstream.estimators.papers.cormode.coefficients import CoefficientModel
from calmstream.estimators.plan.counted import CountedView, counted_views
from calmstream.estimators.planning import empty_tallies
from calmstream.evaluation.population import collect
from tests.support.plans import draft, mixed_domain


@pytest.mark.parametrize("freedom", [0.3, 1, 1.7, 2, 5.5, 30, 400])
@pytest.mark.parametrize("x", [1e-3, 0.5, 1, 3.84, 20, 150, 900])
def test_the_tail_of_chi_square_is_scipy_s(x: float, freedom: float) -> None:
    assert tail(x, freedom) == pytest.approx(stats.chi2.sf(x, freedom), rel=1e-8, abs=1e-12)


@pytest.mark.parametrize("freedom", [0.5, 1, 2.5, 12])
def test_critical_values_are_scipy_s(freedom: float) -> None:
    assert critical_value(0.05, freedom) == pytest.approx(stats.chi2.isf(0.05, freedom), rel=1e-8)
    assert tail(0.0, freedom) == 1.0


def test_mutual_information_of_known_tables() -> None:
    assert mutual_information(np.outer([0.2, 0.8], [0.5, 0.3, 0.2])) == pytest.approx(0, abs=1e-15)
    assert mutual_information(np.diag([0.5, 0.5])) == pytest.approx(np.log(2))
    assert mutual_information(np.diag([3.0, 1.0])) == pytest.approx(
        -(0.75 * np.log(0.75) + 0.25 * np.log(0.25))
    )
    assert mutual_information(np.zeros((2, 2))) == 0.0


def test_without_noise_the_test_is_pearson_s() -> None:
    """Check that with the multinomial covariance alone the critical value is the usual one."""
    rows, columns = np.array([0.2, 0.5, 0.3]), np.array([0.6, 0.4])
    even = np.outer(rows, columns)
    n = 5000
    spread = (np.diag(even.ravel()) - np.outer(even.ravel(), even.ravel())) / n
    table = even + 0.01 * np.array([[1, -1], [0, 0], [-1, 1]])
    result = independence(table, spread, (rows, columns), n)
    assert result.critical == pytest.approx(stats.chi2.isf(0.05, 2), rel=1e-9)
    scipy = stats.chi2_contingency(table * n, correction=False)
    assert (result.statistic, result.p_value) == pytest.approx(scipy[:2], rel=1e-9)


def test_the_tree_is_the_best_of_all_spanning_trees() -> None:
    generator = np.random.default_rng(5)
    pairs = list(combinations(range(5), 2))
    for _ in range(20):
        information = dict(zip(pairs, generator.random(10), strict=True))
        best = max(
            sum(information[p] for p in edges)
            for edges in combinations(pairs, 4)
            if len(chow_liu(5, dict.fromkeys(edges, 1.0))) == 4
        )
        tree = chow_liu(5, information)
        assert len(tree) == 4
        assert sum(information[pair] for pair in tree) == pytest.approx(best)


def chain(n: int, seed: int) -> np.ndarray:
    """Return a table in which a0 mostly equals a1 and a2 is independent."""
    generator = np.random.default_rng(seed)
    first = generator.integers(0, 2, n)
    second = np.where(generator.random(n) < 0.9, first, 1 - first)
    return np.stack([first, second, generator.integers(0, 3, n)], axis=1).astype(np.uint16)


@pytest.mark.parametrize("method", ["calm", "fc", "am", "inp-ht", "characters", "marg-ht"])
def test_a_report_finds_the_dependent_pair(method: str) -> None:
    n = 40_000
    domain = mixed_domain(2, 2, 3)
    plan, _ = draft(domain, "2", n, 2, method)
    tallies = collect(plan, chain(n, 3), np.random.SeedSequence(4), exact=True)
    model = methods.get(method).fit(plan, tallies)
    report = analyse(model, domain, plan.marginals, n)
    by_pair = {tuple(pair["attributes"]): pair for pair in report["pairs"]}
    assert set(by_pair) == {("a0", "a1"), ("a0", "a2"), ("a1", "a2")}
    related = by_pair["a0", "a1"]
    assert related["chi_square"]["dependent"]
    assert related["chi_square"]["p_value"] < 1e-6
    assert related["mutual_information"] == pytest.approx(0.368, abs=0.1)
    assert related["cramers_v"] == pytest.approx(0.8, abs=0.1)
    assert report["tree"][0]["attributes"] == ["a0", "a1"]
    assert len(report["tree"]) == 2


@pytest.mark.parametrize(
    "method", ["calm", "fc", "ft", "inp-ps", "am", "marg-rr", "inp-ht", "marg-ht", "characters"]
)
def test_covariances_are_those_of_many_runs(method: str) -> None:
    domain = mixed_domain(2, 3, 2)
    n, runs = 4000, 400
    plan, _ = draft(domain, "1", n, 2, method)
    truth = np.random.default_rng(8).dirichlet(np.full(12, 2.0))
    rows, stated = [], []
    for run in range(runs):
        cells = np.random.default_rng((9, run)).choice(12, n, p=truth)
        codes = np.stack(np.unravel_index(cells, (2, 3, 2)), axis=1).astype(np.uint16)
        tallies = collect(plan, codes, np.random.SeedSequence((10, run)), exact=True)
        model = methods.get(method).fit(plan, tallies)
        assert isinstance(model, LinearAnswers)
        spread = model.covariance((0, 1))
        if model.everyone:
            f = truth.reshape(2, 3, 2).sum(axis=2).ravel()
            spread = spread + (np.diag(f) - np.outer(f, f)) / n
        rows.append(model.unclipped((0, 1)))
        stated.append(spread)
    centred = np.array(rows) - truth.reshape(2, 3, 2).sum(axis=2).ravel()
    products = np.einsum("ri,rj->rij", centred, centred)
    error = products.std(axis=0) / np.sqrt(runs)
    assert (np.abs(products.mean(axis=0) - np.mean(stated, axis=0)) < 5.5 * error).all()


def test_answers_of_a_character_model_agree_with_brute_force() -> None:
    """Compare every table of a 3 x 2 x 4 domain, from exact view distributions, cell by cell."""
    domain = mixed_domain(3, 2, 4)
    plan, _ = draft(domain, "1", 10**6, 2, "characters")
    joint = np.random.default_rng(2).dirichlet(np.ones(24))
    codes = np.array(list(product(range(3), range(2), range(4))), np.uint16)

    class Exact(CountedView):
        @property
        def table(self) -> np.ndarray:  # type: ignore[override]
            return np.bincount(self.view.inputs(codes, domain), joint, self.mechanism.cells)

        @property
        def covariance(self) -> Covariance:  # type: ignore[override]
            return Covariance(np.zeros(len(self.table)), np.zeros((len(self.table), 1)))

    counted = counted_views(plan, empty_tallies(plan))
    model = CoefficientModel(plan, [Exact(o.view, o.mechanism, 1, o.counts) for o in counted])
    for attributes in [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2)]:
        others = tuple(i for i in range(3) if i not in attributes)
        truth = joint.reshape(3, 2, 4).sum(axis=others).ravel()
        assert model.estimate(attributes).table == pytest.approx(truth, abs=1e-12)


@pytest.mark.parametrize("method", ["inp-ht", "characters"])
def test_a_coefficient_of_no_view_is_as_uncertain_as_one_without_reports(method: str) -> None:
    plan, _ = draft(mixed_domain(3, 3, 3), "1", 3000, 2, method)
    codes = np.random.default_rng(1).integers(0, 3, (3000, 3)).astype(np.uint16)
    counted = counted_views(plan, collect(plan, codes, np.random.SeedSequence(2), exact=True))
    absent = CoefficientModel(plan, [one for i, one in enumerate(counted) if i % 3])
    empty = [one if i % 3 else replace(one, n=0) for i, one in enumerate(counted)]
    unreported = CoefficientModel(plan, empty)
    for attributes in plan.marginals:
        found, expected = absent.estimate(attributes), unreported.estimate(attributes)
        assert found.table == pytest.approx(expected.table)
        assert found.variance == pytest.approx(expected.variance)
        spread = absent.covariance(attributes)
        assert spread == pytest.approx(unreported.covariance(attributes), abs=1e-12)
        assert np.diag(spread) == pytest.approx(found.variance)


def test_two_binary_attributes_give_the_normal_test() -> None:
    margins = np.array([0.3, 0.7]), np.array([0.6, 0.4])
    gap = 0.05
    table = np.outer(*margins) + gap * np.array([[1.0, -1.0], [-1.0, 1.0]])
    spread = np.diag([4e-4, 3e-4, 2e-4, 1e-4])
    # The interaction has one degree of freedom. Its derivative by the cell (i, j) is the product
    # of (1 - p) or -p, and (1 - q) or -q.
    slope = np.outer([1 - margins[0][0], -margins[0][0]], [1 - margins[1][0], -margins[1][0]])
    z = gap / math.sqrt(slope.ravel() @ spread @ slope.ravel())
    test = even_independence(table, spread, margins)
    assert test.statistic == pytest.approx(z**2)
    assert test.critical == pytest.approx(1.959963984540054**2)
    assert test.p_value == pytest.approx(math.erfc(z / math.sqrt(2)), rel=1e-9)


def test_independent_attributes_are_rejected_as_often_as_stated() -> None:
    dice = np.random.default_rng(5)
    margins = np.full(3, 1 / 3), np.array([0.5, 0.3, 0.1, 0.1])
    noise = dice.normal(scale=0.01, size=(12, 12)) / 3
    spread = noise @ noise.T + np.diag(np.full(12, 1e-4))
    errors = dice.multivariate_normal(np.zeros(12), spread, size=4000).reshape(-1, 3, 4)
    p = [even_independence(np.outer(*margins) + e, spread, margins) for e in errors]
    # Satterthwaite's approximation; 4 standard deviations of the count are about 55.
    assert 4000 * 0.05 - 80 < sum(one.dependent for one in p) < 4000 * 0.05 + 80
