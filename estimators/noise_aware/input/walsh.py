"""Places of moments in the Walsh-Hadamard transform of a table of binary attributes.

The moment of a set is the mean product of its attributes' signs: +1 for code 0, -1 for code 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations

import numpy as np

from estimators.domain import Attributes
from estimators.noise_aware.arrays import Indices


@dataclass(frozen=True, slots=True, eq=False)
class AttributeSets:
    """Sets of d binary attributes; in a cell's index the first attribute is the highest bit."""

    attributes: int  # D
    members: tuple[Attributes, ...]  # The sets, by size, then in lexicographic order
    index: Indices  # (sets,): cell of the Walsh-Hadamard transform that holds the set's moment
    order: Indices  # (sets,): sizes
    crossed: Indices  # (sets, sets): cell of the symmetric difference of two sets


@lru_cache(maxsize=32)
def sets_up_to(d: int, order: int) -> AttributeSets:
    """Return all sets of one to ``order`` of d attributes."""
    members = tuple(s for o in range(1, order + 1) for s in combinations(range(d), o))
    index = np.array([sum(1 << (d - 1 - i) for i in s) for s in members])
    return AttributeSets(
        d, members, index, np.array([len(s) for s in members]), index[:, None] ^ index
    )
