"""The data sets of the report, and devices drawn from them with replacement."""

from __future__ import annotations

from functools import cache, lru_cache
from pathlib import Path

import numpy as np

from calmstream.evaluate import draw_targets
from calmstream.tables import Table, read_table
from estimators.domain import Attribute, Domain
from estimators.errors import InvalidInput

DATA = Path(__file__).resolve().parents[2].parent / "shared" / "data"

ADULT = (
    "workclass",
    "education",
    "marital-status",
    "occupation",
    "relationship",
    "race",
    "sex",
    "income",
)
CENSUS = ("Sex", "Race", "Hispanic", "Marstat", "Ownershg", "Yrsusa", "School", "Labforce")

FILES = {
    "kosarak": ("kosarak32_first100k.npz", None),
    "pos": ("bmspos32_275k.npz", None),
    "taxi": ("taxi8.npz", None),
    "movielens": ("movielens17.npz", None),
    "adult3": ("adult.csv.gz", ADULT),
    "census3": ("ipums1980_us.csv.gz", CENSUS),
}
CATEGORIES = 3


@cache
def table(dataset: str) -> Table:
    """A data set by its name; those that end in 3 have their rarer labels merged.

    Raises:
        InvalidInput: the data is not there.
    """
    name, columns = FILES[dataset]
    if not (DATA / name).is_file():
        raise InvalidInput(f"no data set {name} in {DATA}: see benchmarks/README.md")
    found = read_table(DATA / name, columns=columns)
    return merged(found) if dataset.endswith("3") else found


def merged(found: Table) -> Table:
    """Every attribute with its two most frequent labels and one for all others."""
    attributes, columns = [], []
    for j, attribute in enumerate(found.domain.attributes):
        codes = found.codes[:, j]
        if attribute.cardinality <= CATEGORIES:
            attributes.append(attribute)
            columns.append(codes)
            continue
        kept = np.argsort(-np.bincount(codes), kind="stable")[: CATEGORIES - 1]
        labels = [attribute.labels[c] for c in kept]
        into = np.full(attribute.cardinality, CATEGORIES - 1, np.uint16)
        into[kept] = np.arange(CATEGORIES - 1)
        attributes.append(Attribute(attribute.name, (*labels, "(other)")))
        columns.append(into[codes])
    return Table(Domain(tuple(attributes)), np.stack(columns, axis=1), {})


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
        """The same for every repeat and method."""
        return draw_targets(len(self.domain), k, count, np.random.default_rng((7, k)))

    def truth(self, target: tuple[int, ...]) -> np.ndarray:
        """The drawn devices' own table."""
        if target not in self._truths:
            self._truths[target] = self.domain.histogram(self.codes, target) / len(self.codes)
        return self._truths[target]


@lru_cache(maxsize=2)
def devices(dataset: str, d: int, users: int, repeat: int) -> Devices:
    """The devices of a repeat, kept while pieces of one population are measured."""
    return Devices(dataset, d, users, repeat)


__all__ = ["DATA", "Devices", "devices", "merged", "table"]
