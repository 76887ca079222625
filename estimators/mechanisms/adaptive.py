"""Which oracle for a table: CALM's rule."""

from __future__ import annotations

from estimators.mechanisms.grr import GRR
from estimators.mechanisms.oue import OUE
from estimators.mechanisms.support import OTHER
from estimators.randomness import exp_weight


def adaptive(epsilon: str, cells: int) -> GRR | OUE:
    """GRR while L - 2 < 3e, else OUE (CALM §4.2): the one with the smaller leading variance.

    e is the realised one, so the choice is exact and the same on every machine.
    """
    small = (cells - 2) * OTHER < 3 * exp_weight(epsilon)
    return GRR(epsilon, cells) if small else OUE(epsilon, cells)
