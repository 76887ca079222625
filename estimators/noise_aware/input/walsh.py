"""Where the Walsh-Hadamard transform of a table of binary attributes holds their moments.

The moment of a set S is the mean of chi_S, the product of the signs (+1 for code 0, -1 for code 1)
of the attributes in S.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from estimators.domain import Attributes


@dataclass(frozen=True, slots=True, eq=False)
class AttributeSets:
    """Sets of d binary attributes; in a cell's index the first attribute is the highest bit.

    Attributes:
        attributes: d.
        members: the sets, by size, then in lexicographic order.
        index: shape (sets,): cell of the Walsh-Hadamard transform that holds the set's moment.
        order: shape (sets,): sizes.
        crossed: shape (sets, sets): cell of the symmetric difference of two sets.
    """

    attributes: int
    members: tuple[Attributes, ...]
    index: NDArray[np.intp]
    order: NDArray[np.intp]
    crossed: NDArray[np.intp]


@lru_cache(maxsize=32)
def sets_up_to(d: int, order: int) -> AttributeSets:
    """All sets of one to ``order`` of d attributes."""
    members = tuple(s for o in range(1, order + 1) for s in combinations(range(d), o))
    index = np.array([sum(1 << (d - 1 - i) for i in s) for s in members])
    return AttributeSets(
        d, members, index, np.array([len(s) for s in members]), index[:, None] ^ index
    )
