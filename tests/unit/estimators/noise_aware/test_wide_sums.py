"""Check that margins of categories read signs and take wide sums, against exact formulas."""

from __future__ import annotations

import numpy as np
import pytest

from calmstream.estimators.noise_aware.input.ordered import MarginEstimate, Signs
from calmstream.estimators.noise_aware.models.merged import Margin
from calmstream.estimators.noise_aware.models.ordered_margins import mixed, share_of_smooth
from calmstream.estimators.noise_aware.models.smooth_margin import SmoothMargin
from calmstream.estimators.noise_aware.models.wide_sums import MOST_BLOCKS, read_signs, with_sums_of
from tests.support.noise_aware import plain_levels


def normal_margin(random: np.random.Generator, covariance: np.ndarray, draws: int) -> Margin:
    """An even margin of 16 labels with exactly normal draws."""
    mean = np.full(16, 1.0 / 16.0)
    root = np.linalg.eigh(covariance)
    half = root.eigenvectors * np.sqrt(np.maximum(root.eigenvalues, 0.0))
    return Margin(mean, mean + random.normal(size=(draws, 16)) @ half.T)


def test_reading_signs_is_the_conditioning_of_a_normal_distribution() -> None:
    random = np.random.default_rng(7)
    # A covariance of the assumed form: errors independent apart from their sum, which is 0.
    variance = random.uniform(0.5, 2.0, 16) * 1e-4
    covariance = np.diag(variance) - np.outer(variance, variance) / variance.sum()
    margin = normal_margin(random, covariance, 40_000)
    codes = np.arange(16)
    rows = np.stack([1.0 - 2.0 * (codes >> 3), 1.0 - 2.0 * (codes >> 2 & 1)])
    signs = Signs(rows, np.array([0.03, -0.02]), np.array([1e-4, 4e-4]))
    found = read_signs(margin, signs, random)
    # The independent formula: precisions add up, in coordinates without the sum.
    own = margin.drawn.var(axis=0)
    own /= 1.0 - own / own.sum()
    prior = np.diag(own) - np.outer(own, own) / own.sum()
    basis = np.linalg.svd(np.eye(16) - 1.0 / 16.0)[0][:, :15]
    known = np.linalg.inv(basis.T @ prior @ basis)
    turned = rows @ basis
    total = known + turned.T @ np.diag(1.0 / signs.variances) @ turned
    miss = (signs.values - rows @ margin.mean) / signs.variances
    mean = margin.mean + basis @ np.linalg.solve(total, turned.T @ miss)
    np.testing.assert_allclose(found.mean, mean, rtol=1e-9)
    left = basis @ np.linalg.inv(total) @ basis.T
    spread = np.cov(found.drawn.T)
    assert np.diag(rows @ spread @ rows.T) == pytest.approx(np.diag(rows @ left @ rows.T), rel=0.06)
    np.testing.assert_allclose(np.diag(spread), np.diag(left), rtol=0.06)
    np.testing.assert_allclose(found.drawn.mean(axis=0), mean, atol=6 * np.sqrt(2e-4 / 40_000))


def test_a_reading_has_no_negative_shares() -> None:
    margin = Margin(np.array([0.01, 0.97, 0.01, 0.01]), np.random.default_rng(1).dirichlet(
        np.array([1.0, 20.0, 1.0, 1.0]), 50
    ))  # fmt: skip
    signs = Signs(np.array([[1.0, 1.0, -1.0, -1.0]]), np.array([1.5]), np.array([1e-6]))
    found = read_signs(margin, signs, np.random.default_rng(2))
    for tables in (found.mean, found.drawn):
        assert (tables >= 0.0).all()
        np.testing.assert_allclose(tables.sum(axis=-1), 1.0)


def test_blocks_have_the_sums_of_the_other_margin_and_keep_their_inner_shares() -> None:
    random = np.random.default_rng(3)
    first = Margin(random.dirichlet(np.ones(41)), random.dirichlet(np.ones(41), 6))
    second = Margin(random.dirichlet(np.ones(41)), random.dirichlet(np.ones(41), 4))
    found = with_sums_of(first, second, 40)  # the last label has no order
    parts = [*np.split(np.arange(40), MOST_BLOCKS), np.array([40])]
    for part in parts:
        sums = found.mean[part].sum()
        assert sums == pytest.approx(second.mean[part].sum())
        np.testing.assert_allclose(
            found.mean[part] / sums, first.mean[part] / first.mean[part].sum()
        )
        for k in range(6):
            assert found.drawn[k][part].sum() == pytest.approx(second.drawn[k % 4][part].sum())
    np.testing.assert_allclose(found.drawn.sum(axis=1), 1.0)


def test_a_block_without_mass_has_the_levels_of_the_other_margin() -> None:
    zero = np.concatenate([np.zeros(4), np.full(4, 0.25)])
    other = np.arange(1.0, 9.0) / 36.0
    found = with_sums_of(Margin(zero, zero[None]), Margin(other, other[None]), 8)
    np.testing.assert_allclose(found.mean[:4], other[:4])
    np.testing.assert_allclose(found.mean[4:], other[4:].sum() / 4.0)


def test_few_levels_stay_as_they_are() -> None:
    even, other = np.full(7, 1.0 / 7.0), np.arange(1.0, 8.0) / 28.0
    margin = Margin(even, even[None])
    assert with_sums_of(margin, Margin(other, other[None]), 7) is margin


def test_stated_errors_of_means_and_halves_are_those_of_repeated_estimates() -> None:
    """A normal problem with fixed truth; only the margin of categories has the fine structure."""
    size, deviation, random = 32, 0.008, np.random.default_rng(11)
    level = np.linspace(-1.0, 1.0, size)
    cubic = np.vander(level, 4)
    # Fine structure that moves neither sums over blocks of four levels nor the mean.
    fine = 0.007 * np.tile([1.0, -1.0, -1.0, 1.0], 8)
    truth = (1.0 + 0.4 * level - 0.3 * level**3) / size + fine
    codes = np.arange(size)
    rows = np.stack([1.0 - 2.0 * (codes >> 4), 1.0 - 2.0 * (codes >> 3 & 1)])
    variances = np.full(2, 1e-4)
    precision = np.eye(size) / deviation**2 + rows.T @ rows / 1e-4
    left = np.linalg.inv(cubic.T @ precision @ cubic)
    root = cubic @ np.linalg.cholesky(left)
    asked = np.stack([np.arange(size) * 1.0, (codes < 16) * 1.0, (codes < 9) * 1.0])
    square, stated, cells = np.zeros(3), np.zeros(3), np.zeros(2)
    for _ in range(400):
        table = truth + deviation * random.normal(size=size)
        values = rows @ truth + np.sqrt(variances) * random.normal(size=2)
        pooled = np.linalg.solve(precision, table / deviation**2 + rows.T @ (values / 1e-4))
        mean = cubic @ (left @ cubic.T @ precision @ pooled)
        smooth = SmoothMargin(mean, mean + random.normal(size=(40, 4)) @ root.T)
        estimate = MarginEstimate(pooled, precision, truth, Signs(rows, values, variances))
        plain = Margin(table, table + deviation * random.normal(size=(40, size)))
        found = mixed(plain, (estimate, smooth), plain_levels(size), random)
        square += np.square(asked @ (found.mean - truth))
        stated += (found.drawn @ asked.T).var(axis=0)
        cells += [np.square(found.mean - truth).sum(), np.square(smooth.mean - truth).sum()]
    assert (np.abs(np.sqrt(square / stated) - 1.0) < 0.2).all()
    assert cells[0] < 0.8 * cells[1]  # the mixture has the fine structure, as far as it is seen


def test_the_mixture_reads_signs_before_it_is_weighed() -> None:
    random = np.random.default_rng(4)
    rows = np.tile([1.0, -1.0], 16)[None]  # inside of blocks
    signs = Signs(rows, np.array([0.3]), np.array([1e-4]))
    table = random.dirichlet(np.full(32, 5.0))
    plain = Margin(table, np.abs(table + 0.01 * random.normal(size=(40, 32))))
    even = np.full(32, 1.0 / 32.0)
    smooth = SmoothMargin(even, even + 0.004 * random.normal(size=(40, 32)))
    precision = np.eye(32) * 1e4 + rows.T @ rows * 1e4
    estimate = MarginEstimate(table, precision, even, signs)
    found = mixed(plain, (estimate, smooth), plain_levels(32), np.random.default_rng(5))
    read = read_signs(plain, signs, np.random.default_rng(5))
    read = with_sums_of(read, Margin(even, smooth.draws), 32)
    assert rows[0] @ read.mean > 0.25 > rows[0] @ table + 0.1
    share = share_of_smooth(estimate, smooth, read.mean, read.drawn)
    assert 0.05 < share < 0.95
    np.testing.assert_allclose(found.mean, share * even + (1.0 - share) * read.mean)
