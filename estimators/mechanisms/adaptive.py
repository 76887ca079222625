"""Which oracle for a table: CALM's rule, and the best of all by exact error."""

from __future__ import annotations

from typing import TYPE_CHECKING

from estimators.mechanisms.grr import GRR
from estimators.mechanisms.olh import OLH
from estimators.mechanisms.oue import OUE
from estimators.mechanisms.response import HadamardResponse
from estimators.mechanisms.subset import SubsetSelection
from estimators.mechanisms.sue import SUE
from estimators.mechanisms.support import OTHER, table_error
from estimators.randomness import exp_weight

if TYPE_CHECKING:
    from estimators.mechanisms.support import SupportOracle

# In order of cost: the first of equals is chosen.
_CANDIDATES: tuple[type[SupportOracle], ...] = (
    GRR,
    HadamardResponse,
    OUE,
    SUE,
    OLH,
    SubsetSelection,
)


def adaptive(epsilon: str, cells: int) -> GRR | OUE:
    """GRR while L - 2 < 3e, else OUE (CALM §4.2): the one with the smaller leading variance.

    e is the realised one, so the choice is exact and the same on every machine.
    """
    small = (cells - 2) * OTHER < 3 * exp_weight(epsilon)
    return GRR(epsilon, cells) if small else OUE(epsilon, cells)


def best_oracle(epsilon: str, cells: int) -> SupportOracle:
    """Return the oracle with the least summed variance over a table, by exact comparison.

    What characters and noise-aware allocation use on small tables. Of equals, the cheapest.
    """
    kinds = [kind for kind in _CANDIDATES if cells <= kind.max_cells]
    return min((kind.standard(epsilon, cells) for kind in kinds), key=table_error)
