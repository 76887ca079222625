"""Check the solver of GReM-LNN against closed forms and a general solver of quadratic programs."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from scipy.optimize import minimize

from benchmarks.pgm.problem import Measurement
from benchmarks.pgm.residuals import contrasts, fit
from calmstream.estimators.domain import Attribute, Domain

LABELS = (2, 3, 2)


def _domain() -> Domain:
    return Domain(
        tuple(Attribute(f"a{i}", tuple(map(str, range(c)))) for i, c in enumerate(LABELS))
    )


def _measured(noise: float) -> tuple[np.ndarray, list[Measurement]]:
    """Return a joint table, and noisy tables of its pairs with unequal deviations."""
    generator = np.random.default_rng(2)
    joint = generator.dirichlet(np.full(12, 0.3)).reshape(LABELS)
    found = []
    for number, view in enumerate(combinations(range(3), 2)):
        (left,) = set(range(3)) - set(view)
        table = joint.sum(axis=left).ravel()
        deviation = 0.03 * (1 + number)
        found.append(
            Measurement(
                view, table + noise * deviation * generator.normal(size=table.size), deviation
            )
        )
    return joint, found


@pytest.mark.parametrize("labels", [2, 3, 7])
def test_contrasts_are_orthonormal_and_sum_to_zero(labels: int) -> None:
    basis = contrasts(labels)
    assert np.allclose(basis.T @ basis, np.eye(labels - 1))
    assert np.allclose(basis.sum(axis=0), 0)


def test_tables_without_noise_are_returned_as_they_are() -> None:
    joint, measured = _measured(0.0)
    fitted = fit(_domain(), measured, [(0,), (1,)], 0.5)
    assert np.allclose(fitted.tables[0, 1], joint.sum(axis=2).ravel(), atol=1e-6)
    assert np.allclose(fitted.tables[(1,)], joint.sum(axis=(0, 2)), atol=1e-6)


def test_noisy_tables_agree_with_a_general_solver() -> None:
    """The reference states tables as margins of a free joint table, without residuals.

    With every pair measured, the distance to the residuals differs from the distance to the tables
    by a constant only.
    """
    _, measured = _measured(1.0)
    pairs = [m.attributes for m in measured]
    fitted = fit(_domain(), measured, pairs, 0.5)
    assert min(float(m.table.min()) for m in measured) < -0.01  # the condition matters
    assert fitted.lowest > -1e-5
    margins = []
    for view in pairs:
        (left,) = set(range(3)) - set(view)
        units = np.eye(12).reshape(12, *LABELS)
        margins.append(units.sum(axis=left + 1).reshape(12, -1).T)

    def distance(joint: np.ndarray) -> float:
        gaps = (
            (margin @ joint - m.table - (1 - m.table.sum()) / m.table.size) / m.deviation
            for margin, m in zip(margins, measured, strict=True)
        )
        return float(sum(gap @ gap for gap in gaps))

    conditions = [{"type": "eq", "fun": lambda joint: joint.sum() - 1}]
    conditions += [
        {"type": "ineq", "fun": lambda joint, margin=margin: margin @ joint} for margin in margins
    ]
    best = minimize(
        distance,
        np.full(12, 1 / 12),
        method="SLSQP",
        constraints=conditions,
        options={"maxiter": 500, "ftol": 1e-12},
    )
    assert best.success
    for view, margin in zip(pairs, margins, strict=True):
        assert np.allclose(fitted.tables[view], margin @ best.x, atol=1e-4)


def test_an_unseen_residual_is_zero_where_nothing_forbids_it() -> None:
    _, measured = _measured(0.0)
    fitted = fit(_domain(), measured[:1], [(0, 1), (1, 2)], 0.5)
    table = fitted.tables[1, 2].reshape(3, 2)
    assert np.allclose(table, np.outer(table.sum(axis=1), [0.5, 0.5]), atol=1e-6)
