from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from calmstream.estimators.noise_aware.causes import BEYOND
from calmstream.estimators.noise_aware.model import NoiseAwareModel
from calmstream.estimators.noise_aware.sampler import Effort
from tests.support.noise_aware import domain_of, plan_for, tallies_of
from tests.support.repeats import repeats

Codes = NDArray[np.uint16]
DEVICES = 60_000
SHORT = Effort(warm=60, keep=40, draws=60)


def fitted(cards: tuple[int, ...], codes: Codes, seed: int, epsilon: str = "2") -> NoiseAwareModel:
    plan = plan_for(domain_of(*cards), epsilon, len(codes), 2)
    return NoiseAwareModel(plan, tallies_of(plan, codes, seed), SHORT)


def two_causes(random: np.random.Generator) -> Codes:
    """Draw records: one cause, of 30 %, moves three attributes, another, of 20 %, three others."""
    first, second = random.random(DEVICES) < 0.3, random.random(DEVICES) < 0.2
    out = np.zeros((DEVICES, 7), np.uint16)
    for j, present in enumerate((first, first, first, second, second, second)):
        out[:, j] = random.random(DEVICES) < np.where(present, 0.9, 0.15)
    out[:, 6] = random.integers(3, size=DEVICES)
    return out


def test_causes_are_found_with_their_shares_and_labels() -> None:
    found = fitted((*(2,) * 6, 3), two_causes(np.random.default_rng(3)), 3).causes()
    assert len(found) == 2
    wanted = {frozenset({0, 1, 2}): 0.3, frozenset({3, 4, 5}): 0.2}
    assert {frozenset(one.attribute for one in cause.shifts) for cause in found} == set(wanted)
    for cause in found:
        share = wanted[frozenset(one.attribute for one in cause.shifts)]
        assert abs(cause.share - share) < 4.5 * cause.stderr
        for one in cause.shifts:
            assert one.code == 1  # of two labels, that which the cause raises
            assert abs(one.within - one.without - 0.75) < 4.5 * one.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("cards", "epsilon"), [((2,) * 8, "1"), ((7, 3, 5, 2, 9), "2"), ((4, 4, 4), "4")]
)
def test_independent_attributes_have_no_cause(cards: tuple[int, ...], epsilon: str) -> None:
    for seed in range(repeats(4, 20)):
        random = np.random.default_rng(seed)
        columns = [random.choice(r, DEVICES, p=random.dirichlet(np.ones(r))) for r in cards]
        codes = np.stack(columns, axis=1).astype(np.uint16)
        assert fitted(cards, codes, seed, epsilon).causes() == ()


@pytest.mark.parametrize("cards", [(2,) * 8, (2,) * 16, (3, 4, 5)])
def test_no_pattern_of_noise_has_the_evidence_of_a_cause(cards: tuple[int, ...]) -> None:
    """The largest evidence that any pattern finds in noise, by steps uphill from many starts."""
    random = np.random.default_rng(3)
    owner = np.repeat(np.arange(len(cards)), [r - 1 for r in cards])
    off = owner[:, None] != owner
    largest = [_largest(off, random) for _ in range(60)]
    assert np.mean(largest) < np.sqrt(2 * len(owner))
    assert max(largest) < np.sqrt(2 * len(owner)) + BEYOND


def _largest(off: NDArray[np.bool_], random: np.random.Generator) -> float:
    noise = np.triu(random.normal(size=off.shape), 1)
    noise = (noise + noise.T) * off
    pattern = np.vstack([np.linalg.eigh(noise)[1].T, random.normal(size=(20, len(off)))])
    largest, step = 0.0, 0.3
    for _ in range(120):
        towards = pattern @ noise
        norm = np.sqrt(0.5 * (pattern**2 @ off * pattern**2).sum(axis=1))
        value = 0.5 * (towards * pattern).sum(axis=1) / norm
        largest = max(largest, float(value.max()))
        slope = towards / norm[:, None] - (value / norm**2)[:, None] * pattern * (pattern**2 @ off)
        pattern = pattern + step * slope / np.linalg.norm(slope, axis=1, keepdims=True)
        pattern /= np.linalg.norm(pattern, axis=1, keepdims=True)
        step *= 0.97
    return largest


def test_a_model_without_reports_has_no_cause() -> None:
    plan = plan_for(domain_of(2, 3), "1", 100, 2)
    assert NoiseAwareModel(plan, tallies_of(plan, np.zeros((0, 2), np.uint16), 1)).causes() == ()
