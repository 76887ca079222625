from __future__ import annotations

from fractions import Fraction
from math import prod

import numpy as np
import pytest

from calmstream.common.errors import PlanError
from calmstream.estimators.mechanisms.grr import GRR
from calmstream.estimators.papers.castell.joint_tables import JointTables
from calmstream.estimators.papers.castell.product_grr import MAX_WEIGHT, ProductGRR, share_weight
from calmstream.estimators.randomness import SeededRandomness, exp_weight
from tests.support.mechanisms import below_exp

TWO_32 = 1 << 32


@pytest.mark.parametrize("epsilon", ["0.2", "1", "8", "32"])
@pytest.mark.parametrize("blocks", [((0,), (1,), (2,)), ((0, 2), (1,)), ((0, 1, 2),)])
def test_the_total_loss_is_the_plan_s_in_rationals(
    epsilon: str, blocks: tuple[tuple[int, ...], ...]
) -> None:
    if epsilon == "32" and len(blocks) < 3:
        with pytest.raises(PlanError, match="more than 16"):
            ProductGRR(epsilon, 12, (2, 2, 3), blocks, ((0, 1),))
        return
    m = ProductGRR(epsilon, 12, (2, 2, 3), blocks, ((0, 1),))
    channel = m.channel()
    worst = max(max(column) / min(column) for column in zip(*channel, strict=True))
    bound = below_exp(Fraction(epsilon))
    assert bound * (1 - Fraction(1, 1 << 29)) < worst <= bound
    assert worst == prod(Fraction(w, TWO_32) for w in m.weights)


def test_a_share_of_several_attributes_is_rounded_down() -> None:
    assert share_weight("1", 1, 8) == exp_weight("1", 8)
    assert share_weight("1", 8, 8) == exp_weight("1")
    assert share_weight("1", 2, 8) == exp_weight("1", 4)
    assert share_weight("16", 8, 8) == MAX_WEIGHT, "the largest share is allowed"
    three = Fraction(share_weight("1", 3, 8), TWO_32)
    assert three <= Fraction(exp_weight("1", 8), TWO_32) ** 3 < three + Fraction(1, TWO_32)
    assert three**8 <= below_exp(Fraction(3))


def test_one_block_is_the_generalised_randomised_response() -> None:
    m = ProductGRR("1", 12, (2, 2, 3), ((0, 1, 2),), ((0, 1, 2),))
    assert m.channel() == GRR("1", 12).channel()
    values = np.arange(1000) % 12
    reports = m.perturb(values, SeededRandomness(1))["x0"]
    assert np.array_equal(reports, GRR("1", 12).perturb(values, SeededRandomness(1))["v"])


def test_tables_are_projections_of_one_joint() -> None:
    axes = (3, 2, 4)
    every = ((0, 1, 2), (0, 1), (1, 2), (2,))
    m = ProductGRR("2", 24, axes, ((0, 2), (1,)), every)
    values = np.random.default_rng(2).integers(0, 24, 5000)
    counts = m.tally(m.perturb(values, SeededRandomness(3)), None, 1)[0]
    joint = counts[:24].reshape(axes)
    layout = m.layout
    assert joint.sum() == 5000
    for attributes in ((0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)):
        others = tuple(i for i in range(3) if i not in attributes)
        assert np.array_equal(layout.read(counts, attributes), joint.sum(axis=others))
    assert layout.holder((1,)) == (0, 1)
    few = JointTables(axes, ((0, 1),))
    assert few.holder((1, 2)) is None
    with pytest.raises(KeyError):
        few.read(np.zeros(6, np.int64), (1, 2))


def test_a_record_larger_than_any_table_can_still_be_perturbed() -> None:
    axes = (16,) * 15
    m = ProductGRR("15", 16**15, axes, tuple((i,) for i in range(15)), ((0, 14),))
    values = np.array([0, 16**15 - 1] * 10_000)
    counts = m.tally(m.perturb(values, SeededRandomness(4)), None, 1)[0].reshape(16, 16)
    # Both ends of the record stand out of the 256 cells.
    assert set(np.argsort(counts.reshape(-1))[-2:]) == {0, 255}
    assert not m.holds(range(15))
    with pytest.raises(KeyError):
        m.estimate(counts.reshape(-1), 20_000)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"cells": 7}, "6 cells together"),
        ({"axes": (1, 6)}, "at least 2"),
        ({"axes": "ab"}, "list of non-negative integers"),
        ({"blocks": ((0,),)}, "exactly one block"),
        ({"blocks": ((1, 0),)}, "must ascend"),
        ({"tables": ()}, "at least one"),
        ({"tables": ((0,), (0,))}, "none twice"),
        ({"tables": ((0, 2),)}, "expected axes from 0 to"),
        ({"cells": 1 << 62, "axes": (2,) * 62}, "must be an integer"),
        ({"cells": 1 << 31, "axes": (2,) * 31, "blocks": (tuple(range(31)),)}, "of a block"),
    ],
)
def test_refusals(changes: dict[str, object], message: str) -> None:
    good = {
        "epsilon": "1", "cells": 6, "axes": (2, 3), "blocks": ((0,), (1,)), "tables": ((0, 1),),
    }  # fmt: skip
    ProductGRR(**good)  # type: ignore[arg-type]
    with pytest.raises(PlanError, match=message):
        ProductGRR(**(good | changes))  # type: ignore[arg-type]
