from __future__ import annotations

from math import exp
from typing import Any

import numpy as np
import pytest

from calmstream.common.errors import PlanError
from calmstream.estimators.mechanisms.adaptive import adaptive, best_oracle
from calmstream.estimators.mechanisms.registry import build, names, standard
from calmstream.estimators.mechanisms.subset import SubsetSelection
from calmstream.estimators.mechanisms.support import MAX_CELLS, SupportOracle, table_error

EPSILONS = ["0.01", "0.1", "0.2", "0.5", "1", "1.5", "2", "3", "5", "8"]


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_adaptive_is_grr_exactly_while_cells_less_two_are_below_three_e(epsilon: str) -> None:
    turn = 2 + int(3 * exp(float(epsilon)))
    assert adaptive(epsilon, 2).name == "grr"
    assert adaptive(epsilon, turn).name == "grr"
    assert adaptive(epsilon, turn + 1).name == "oue"


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("cells", [2, 3, 4, 9, 30])
def test_the_recommended_subset_size_is_the_best_of_all(epsilon: str, cells: int) -> None:
    chosen = SubsetSelection.standard(epsilon, cells)
    errors = [table_error(SubsetSelection(epsilon, cells, w)) for w in range(1, cells)]
    assert table_error(chosen) == min(errors)


@pytest.mark.parametrize(
    ("epsilon", "buckets"), [("0.01", 2), ("0.2", 2), ("0.5", 3), ("1", 4), ("2", 8)]
)
def test_local_hashing_takes_round_e_plus_one_buckets(epsilon: str, buckets: int) -> None:
    assert standard("olh", epsilon, 64).to_json()["buckets"] == buckets


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("cells", [2, 3, 4, 5, 7, 16])
def test_the_best_oracle_is_nowhere_worse(epsilon: str, cells: int) -> None:
    best = table_error(best_oracle(epsilon, cells))
    for name in set(names()) - {"hadamard-coefficient"}:
        oracle = standard(name, epsilon, cells)
        if isinstance(oracle, SupportOracle):
            assert best <= table_error(oracle)


# Leading variances of the literature: what a cell that nobody holds costs.
@pytest.mark.parametrize("epsilon", ["0.2", "1", "2"])
@pytest.mark.parametrize("cells", [4, 16, 64])
def test_leading_variances(epsilon: str, cells: int) -> None:
    e = exp(float(epsilon))
    expected = {
        "grr": (cells - 2 + e) / (e - 1) ** 2,
        "oue": 4 * e / (e - 1) ** 2,
        "sue": exp(float(epsilon) / 2) / (exp(float(epsilon) / 2) - 1) ** 2,
        "hadamard-response": ((e + 1) / (e - 1)) ** 2,
    }
    for name, variance in expected.items():
        got = standard(name, epsilon, cells).variance(1, np.zeros(cells))
        assert np.allclose(got, variance, rtol=1e-8)


SKETCH = {"name": "hadamard-sketch", "cells": 4, "hashes": 5, "buckets": 16, "seed": 0}


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"name": "laplace", "cells": 4}, "unknown mechanism 'laplace'"),
        ({"name": "grr"}, "needs the field 'cells'"),
        ({"name": "grr", "cells": 4, "epsilon": "2"}, "no field 'epsilon'"),
        ({"name": "grr", "cells": 1}, "grr.cells must be an integer from 2"),
        ({"name": "grr", "cells": MAX_CELLS + 1}, "grr.cells"),
        ({"name": "grr", "cells": True}, "grr.cells"),
        ({"name": "hadamard-coefficient", "cells": 3}, "cells must be an integer from 2 to 2"),
        ({"name": "subset-selection", "cells": 4, "size": 4}, "size must be an integer"),
        ({"name": "subset-selection", "cells": 1 << 20, "size": 1}, "subset-selection.cells"),
        ({"name": "olh", "cells": 4, "buckets": 1, "seed_bits": 32}, "olh.buckets"),
        (SKETCH | {"buckets": 12}, "power of two"),
        (SKETCH | {"hashes": 0}, "hashes"),
        (SKETCH | {"seed": 1 << 32}, "seed"),
        (["grr", 4], "a mechanism is an object"),
    ],
)
def test_what_is_no_mechanism_is_refused_with_its_reason(document: Any, message: str) -> None:
    with pytest.raises(PlanError, match=message):
        build(document, "1")
