"""The data sets of the report, and devices drawn from them with replacement."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from benchmarks.populations import DATA, merged, population
from calmstream.evaluation.evaluate import draw_targets
from calmstream.tables import Table
from estimators.domain import Attribute, Domain

NAMES = {"taxi": "taxi-pool"}
"""The report measures all pooled trips under the name taxi."""


def table(dataset: str) -> Table:
    """Return a data set by the name that the report uses.

    Raises:
        InvalidInput: the data is not there.
    """
    return population(NAMES.get(dataset, dataset))


class Devices:
    """One draw of devices with the first d attributes, repeated where the data has fewer.

    Attributes:
        domain: of the d attributes.
        codes: shape (users, d).
    """

    def __init__(self, dataset: str, d: int, users: int, repeat: int) -> None:
        source = table(dataset)
        there = len(source.domain)
        columns = np.arange(d) % there
        named = [source.domain.attributes[j] for j in columns]
        self.domain = Domain(
            tuple(
                a if i < there else Attribute(f"{a.name}.{i // there}", a.labels)
                for i, a in enumerate(named)
            )
        )
        generator = np.random.default_rng((2026, repeat, users))
        drawn = source.codes[generator.integers(len(source.codes), size=users)]
        self.codes = np.ascontiguousarray(drawn[:, columns])
        self._truths: dict[tuple[int, ...], np.ndarray] = {}

    def targets(self, k: int, count: int) -> tuple[tuple[int, ...], ...]:
        """Draw the target sets; they are the same for every repeat and method."""
        return draw_targets(len(self.domain), k, count, np.random.default_rng((7, k)))

    def truth(self, target: tuple[int, ...]) -> np.ndarray:
        """Return the drawn devices' own table."""
        if target not in self._truths:
            self._truths[target] = self.domain.histogram(self.codes, target) / len(self.codes)
        return self._truths[target]


@lru_cache(maxsize=2)
def devices(dataset: str, d: int, users: int, repeat: int) -> Devices:
    """Return the devices of a repeat; they are cached for pieces with the same population."""
    return Devices(dataset, d, users, repeat)


__all__ = ["DATA", "Devices", "devices", "merged", "table"]
