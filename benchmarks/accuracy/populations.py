"""The data sets of the accuracy report, and devices drawn from their records with replacement."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from benchmarks.populations import population
from calmstream.estimators.domain import Attribute, Domain
from calmstream.evaluation.evaluate import draw_targets
from calmstream.tables.records import RecordTable

NAMES = {"taxi": "taxi-pool", "taxi-whole": "taxi"}
"""Other names of data sets: most figures measure the trips of all source files as "taxi"; pairs are
tested on the sources that cover a whole period, because pooling makes attributes dependent."""


def table(dataset: str) -> RecordTable:
    return population(NAMES.get(dataset, dataset))


class Devices:
    """Devices drawn at random, with the first d attributes; repeated if the data has fewer."""

    def __init__(self, dataset: str, d: int, users: int, repeat: int) -> None:
        source = table(dataset)
        width = len(source.domain)
        columns = np.arange(d) % width
        attributes = [source.domain.attributes[j] for j in columns]
        self.domain = Domain(
            tuple(
                a if i < width else Attribute(f"{a.name}.{i // width}", a.labels)
                for i, a in enumerate(attributes)
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
        if target not in self._truths:
            self._truths[target] = self.domain.histogram(self.codes, target) / len(self.codes)
        return self._truths[target]


@lru_cache(maxsize=2)
def devices(dataset: str, d: int, users: int, repeat: int) -> Devices:
    """Return the devices of a repeat; they are cached for pieces with the same population."""
    return Devices(dataset, d, users, repeat)
