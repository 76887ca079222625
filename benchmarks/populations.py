"""The data sets from whose records benchmarks draw devices.

They are real; the README of the data folder names the sources. Long columns of the census are cut
(`grouped`), and taxi has only the sources that cover a whole period: in others the night attributes
are constant. Names that end in 3 have three labels per attribute: two frequent ones and all others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

import numpy as np

from benchmarks.strangers.sets import SETS, neighbours, stranger
from calmstream.common.errors import InvalidInput
from calmstream.estimators.domain import Attribute, Domain
from calmstream.tables.reading import ReadingOptions
from calmstream.tables.records import RecordTable, read_table, read_texts

DATA = Path(__file__).resolve().parents[1].parent / "shared" / "data"

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
"""The eight categorical columns of Adult that papers on these methods use."""

CENSUS = (
    "Stratum", "Psu", "Inctot", "Age", "Sex", "Race", "Hispanic", "Marstat", "Ownershg", "Yrsusa",
    "School", "Educrec", "Labforce", "Occ", "Classwk", "VetStat",
)  # fmt: skip
CENSUS_SMALL = ("Sex", "Race", "Hispanic", "Marstat", "Ownershg", "Yrsusa", "School", "Labforce")
"""Columns of the census for ``census3``, which has eight attributes."""

FILES: dict[str, tuple[str, tuple[str, ...] | None]] = {
    "kosarak": ("kosarak32_first100k.npz", None),
    "pos": ("bmspos32_275k.npz", None),
    "taxi": ("taxi8.npz", None),
    "taxi-pool": ("taxi8.npz", None),
    "movielens": ("movielens17.npz", None),
    "adult": ("adult.csv.gz", ADULT),
    "census": ("ipums1980_us.csv.gz", CENSUS),
    "adult3": ("adult.csv.gz", ADULT),
    "census3": ("ipums1980_us.csv.gz", CENSUS_SMALL),
}
TAXI_SOURCES = (2, 4, 6, 7)  # the source files of the taxi trips that cover a whole period

CATEGORIES = 3  # labels per attribute of the data sets whose names end in 3

MANY_VALUES = 16  # most values of a census column that stay as they are


@cache
def population(dataset: str) -> RecordTable:
    if dataset in SETS:
        return stranger(dataset)
    name, columns = FILES[dataset]
    if not (DATA / name).is_file():
        raise InvalidInput(f"no data set {name} in {DATA}: see benchmarks/README.md")
    if dataset == "census":
        return grouped(read_texts(DATA / name, columns))
    table = read_table(DATA / name, ReadingOptions(columns=columns))
    if dataset == "taxi":
        source = np.load(DATA / name)["source"]
        return RecordTable(table.domain, table.codes[np.isin(source, TAXI_SOURCES)])
    return merged(table) if dataset.endswith("3") else table


@cache
def first(dataset: str, d: int) -> RecordTable | None:
    """Return the first d attributes of a data set; None if it has fewer."""
    table = population(dataset)
    if len(table.domain) < d:
        return None
    domain = Domain(table.domain.attributes[:d])
    return RecordTable(domain, np.ascontiguousarray(table.codes[:, :d]))


def merged(table: RecordTable) -> RecordTable:
    """Keep the two most frequent labels of every attribute; merge all others into one label."""
    attributes, columns = [], []
    for j, attribute in enumerate(table.domain.attributes):
        codes = table.codes[:, j]
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
    return RecordTable(Domain(tuple(attributes)), np.stack(columns, axis=1))


def grouped(texts: Mapping[str, Sequence[str]]) -> RecordTable:
    """Read columns of whole numbers; cut those of more than 16 values into at most 8 groups."""
    attributes, columns = [], []
    for name, column in texts.items():
        values, codes, counts = np.unique(
            np.array(column, np.int64), return_inverse=True, return_counts=True
        )
        labels = [str(v) for v in values.tolist()]
        if len(values) > MANY_VALUES:
            into, starts, ends = neighbours(counts)
            labels = [f"{labels[a]}..{labels[b]}" for a, b in zip(starts, ends, strict=True)]
            codes = into[codes]
        attributes.append(Attribute(name, tuple(labels)))
        columns.append(codes.astype(np.uint16))
    return RecordTable(Domain(tuple(attributes)), np.stack(columns, axis=1))
