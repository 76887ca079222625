"""The choice of a mechanism for a table: by CALM's rule, or by the smallest exact error."""

from __future__ import annotations

from calmstream.estimators.mechanisms.grr import GRR
from calmstream.estimators.mechanisms.olh import OLH
from calmstream.estimators.mechanisms.response import HadamardResponse
from calmstream.estimators.mechanisms.subset import SubsetSelection
from calmstream.estimators.mechanisms.support import OTHER, SupportOracle, table_error
from calmstream.estimators.mechanisms.unary import OUE, SUE
from calmstream.estimators.randomness import exp_weight

# In order of cost, because the first of equally good mechanisms is chosen.
_CANDIDATES = (GRR, HadamardResponse, OUE, SUE, OLH, SubsetSelection)


def adaptive(epsilon: str, cells: int) -> GRR | OUE:
    """Return GRR or OUE, whichever has the smaller variance of rare values (CALM, section 4.2).

    It is GRR if L - 2 < 3 e^epsilon, where L is the number of cells; in integers, `OTHER` for 1 and
    `exp_weight` for e^epsilon in the same unit, so that every machine makes the same choice.
    """
    small = (cells - 2) * OTHER < 3 * exp_weight(epsilon)
    return GRR(epsilon, cells) if small else OUE(epsilon, cells)


def best_oracle(epsilon: str, cells: int) -> SupportOracle:
    """Return the mechanism with the smallest sum of variances over a table, by exact comparison."""
    kinds = [kind for kind in _CANDIDATES if cells <= kind.max_cells]
    return min((kind.standard(epsilon, cells) for kind in kinds), key=table_error)
