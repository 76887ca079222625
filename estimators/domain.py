"""Attributes, labels and the arithmetic of cells.

A *record* is a row of codes, one per attribute. Cells of a *table* are numbered row-major: the last
attribute varies fastest, so that ``table.reshape(shape)`` puts attribute i on axis i.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calmstream.common.errors import DomainError
from calmstream.common.text import unseen
from calmstream.estimators.hashed import Hashed, read_hashed
from calmstream.estimators.kinds import (
    CHOSEN,
    Choice,
    Kind,
    Number,
    Ordered,
    number_codes,
    options_of,
    read_choices,
    read_number,
    with_decimal_edges,
)
from calmstream.estimators.randomness import Randomness
from calmstream.estimators.recorded import Recorded, check_recorded, read_recorded

Codes = NDArray[np.uint16]
Attributes = tuple[int, ...]

MAX_CARDINALITY = 4096
MAX_ATTRIBUTES = 1024


@dataclass(frozen=True, slots=True)
class Attribute:
    """One attribute with finitely many codes.

    The labels of a number are those of its kind, then that of ``other``. ``recorded`` is what a
    device's recorder takes the value from; None where the application gives it, or sets a state of
    the attribute's name.
    """

    name: str
    labels: tuple[str, ...]  # in the order of their codes; 2 to 4096 distinct strings
    other: int | None = None  # code of unknown or missing labels; without, devices draw any code
    kind: Kind | None = None  # how values of records become codes; None for a category
    recorded: Recorded | None = None

    def __post_init__(self) -> None:
        if not self.name or not isinstance(self.name, str):
            raise DomainError("an attribute needs a name that is a non-empty string")
        if why := unseen(self.name) or unseen(self.unit):
            raise DomainError(f"attribute {self.name!r}, name and unit: {why}")
        if not 2 <= len(self.labels) <= MAX_CARDINALITY:
            raise DomainError(
                f"attribute {self.name!r} needs 2 to {MAX_CARDINALITY} labels, "
                f"got {len(self.labels)}"
            )
        if len(set(self.labels)) != len(self.labels):
            raise DomainError(f"attribute {self.name!r} has two equal labels")
        if self.other is not None and not 0 <= self.other < len(self.labels):
            raise DomainError(
                f"attribute {self.name!r}: its code `other` must be from 0 to "
                f"{len(self.labels) - 1}, got {self.other}"
            )

    @property
    def cardinality(self) -> int:
        return len(self.labels)

    @property
    def unit(self) -> str:
        return self.kind.unit if isinstance(self.kind, Number) else ""

    @property
    def field(self) -> str:
        """Name of the field of a record that holds the value."""
        if isinstance(self.kind, Hashed):
            return self.kind.text
        return self.kind.question if isinstance(self.kind, Choice) else self.name

    @property
    def siblings(self) -> tuple[Kind | None, ...]:
        """Kinds of the attributes of one field of a record, which stand together in a domain."""
        if isinstance(self.kind, Choice):
            return tuple(replace(self.kind, option=one) for one in self.kind.options)
        if isinstance(self.kind, Hashed):
            return tuple(replace(self.kind, place=j) for j in range(self.kind.hashes))
        return (self.kind,)


@dataclass(frozen=True)
class Domain:
    """An ordered tuple of attributes; codes, cell indices and projections refer to this order."""

    attributes: tuple[Attribute, ...]

    def __post_init__(self) -> None:
        if not 1 <= len(self.attributes) <= MAX_ATTRIBUTES:
            raise DomainError(
                f"a domain has 1 to {MAX_ATTRIBUTES} attributes, got {len(self.attributes)}"
            )
        names = [a.name for a in self.attributes]
        if len(set(names)) != len(names):
            raise DomainError(f"attribute names must be unique, got {names}")
        place = 0
        while place < len(self.attributes):
            first = self.attributes[place]
            end = place + len(first.siblings)
            if tuple(one.kind for one in self.attributes[place:end]) != first.siblings:
                raise DomainError(f"{first.field!r}: use all options of a choice, or none")
            place = end
        ends = [isinstance(a.kind, Hashed) for a in self.attributes]
        if ends != sorted(ends) or not self.ordinary:
            raise DomainError("hashed attributes come last, after at least one of another kind")

    @classmethod
    def binary(cls, d: int) -> Domain:
        return cls(tuple(Attribute(f"a{j}", ("0", "1")) for j in range(d)))

    def keyed(self, lineage: str) -> Domain:
        """Return the domain with the lineage that decides the buckets of texts."""
        if self.ordinary == len(self):
            return self
        keyed = [
            replace(a, kind=replace(a.kind, lineage=lineage)) if isinstance(a.kind, Hashed) else a
            for a in self.attributes
        ]
        return Domain(tuple(keyed))

    @cached_property
    def ordinary(self) -> int:
        """Number of attributes that are not hashed; they come first."""
        return sum(not isinstance(a.kind, Hashed) for a in self.attributes)

    @cached_property
    def hashed(self) -> dict[str, Attributes]:
        """Positions of the hashes of each hashed attribute, by its name."""
        found: dict[str, Attributes] = {}
        for i in range(self.ordinary, len(self)):
            name = self.attributes[i].field
            found[name] = (*found.get(name, ()), i)
        return found

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(a.name for a in self.attributes)

    @cached_property
    def cardinalities(self) -> tuple[int, ...]:
        return tuple(a.cardinality for a in self.attributes)

    @cached_property
    def _position(self) -> dict[str, int]:
        return {name: i for i, name in enumerate(self.names)}

    @cached_property
    def _codes(self) -> dict[int, dict[str, int]]:
        return {}

    def _codes_of(self, j: int) -> dict[str, int]:
        """Return the code of every label of attribute j; computed on first use."""
        if j not in self._codes:
            self._codes[j] = {label: c for c, label in enumerate(self.attributes[j].labels)}
        return self._codes[j]

    def __len__(self) -> int:
        return len(self.attributes)

    def index(self, names: Iterable[str]) -> Attributes:
        """Return sorted attribute positions of the given names."""
        positions = []
        for name in names:
            if name not in self._position:
                raise DomainError(f"no attribute {name!r}; there are {', '.join(self.names)}")
            positions.append(self._position[name])
        if len(set(positions)) != len(positions):
            raise DomainError("an attribute is named twice")
        return tuple(sorted(positions))

    def shape(self, attributes: Sequence[int]) -> tuple[int, ...]:
        """Return the number of labels of each given attribute: the shape of their table."""
        return tuple(self.cardinalities[i] for i in attributes)

    def size(self, attributes: Sequence[int] | None = None) -> int:
        return math.prod(self.cardinalities if attributes is None else self.shape(attributes))

    def cells(self, codes: NDArray[Any], attributes: Sequence[int]) -> NDArray[np.int64]:
        """Return the cell index of every record in the table over ``attributes``: (n,), int64.

        ``codes``: shape (n, d); the table, with axes in this order, has fewer than 2^62 cells.
        """
        if self.size(attributes) >= 1 << 62:
            raise DomainError("the table over these attributes has 2^62 cells or more")
        cell = np.zeros(len(codes), np.int64)
        for i in attributes:
            cell *= self.cardinalities[i]
            cell += codes[:, i]
        return cell

    def histogram(self, codes: NDArray[Any], attributes: Sequence[int]) -> NDArray[np.int64]:
        """Return true counts of the table over ``attributes``: shape (size,), int64, sums to n."""
        return np.bincount(self.cells(codes, attributes), minlength=self.size(attributes))

    def encode(
        self, columns: Mapping[str, Sequence[object]], randomness: Randomness | None = None
    ) -> Codes:
        """Encode a local table of records, columns by field of a record: shape (n, d), uint16.

        Values are as in `code`, but numbers can be texts, and chosen options one text with ``|``
        between them. Unlike on devices, an unknown value is a DomainError.
        """
        fields = list(dict.fromkeys(a.field for a in self.attributes))
        if missing := [name for name in fields if name not in columns]:
            raise DomainError(f"the table has no column {missing[0]!r}")
        lengths = {len(columns[name]) for name in fields}
        if len(lengths) != 1:
            raise DomainError(f"columns of different lengths: {sorted(lengths)}")
        codes = np.empty((lengths.pop(), len(self)), np.uint16)
        for j, attribute in enumerate(self.attributes):
            column = columns[attribute.field]
            if isinstance(attribute.kind, Number):
                codes[:, j] = number_codes(attribute.kind, attribute.other, column, randomness)
            elif isinstance(attribute.kind, Choice):
                codes[:, j] = [self.code(j, options_of(value)) or 0 for value in column]
            elif isinstance(attribute.kind, Hashed):
                codes[:, j] = attribute.kind.codes(column, randomness)
            else:
                codes[:, j] = self._encode_column(j, attribute, column)
        return codes

    def _encode_column(self, j: int, attribute: Attribute, column: Sequence[object]) -> list[int]:
        table: Mapping[Any, int] = self._codes_of(j)
        other = attribute.other
        texts = [label if type(label) is str else label_text(label) for label in column]
        if other is not None:
            return [table.get(text, other) for text in texts]
        try:
            return [table[text] for text in texts]
        except KeyError:
            row = next(i for i, text in enumerate(texts) if text not in table)
            label = column[row] if texts[row] is None else texts[row]
            raise DomainError(f"row {row + 1}: {attribute.name!r} has no label {label!r}") from None

    def code(self, j: int, value: object, randomness: Randomness | None = None) -> int | None:
        """Return the code of one value of attribute j, else its code ``other``, else None.

        A value is, of a category, a string, or an integer, whose decimal digits are the label; of a
        number, an integer or a float; of an option, the list of chosen options. Randomness rounds
        numbers on a grid; without it they become the nearest point.
        """
        attribute = self.attributes[j]
        if isinstance(attribute.kind, Number):
            code = attribute.kind.code(value, randomness)
        elif isinstance(attribute.kind, Choice | Hashed):
            code = attribute.kind.code(value)
        else:
            text = label_text(value)
            code = None if text is None else self._codes_of(j).get(text)
        return attribute.other if code is None else code

    def to_json(self) -> list[dict[str, Any]]:
        entries = [_entry(attribute) for attribute in self.attributes]
        # The attributes of one field, which stand together, share an entry.
        return [entry for i, entry in enumerate(entries) if not i or entry != entries[i - 1]]

    @classmethod
    def from_json(cls, document: object) -> Domain:
        if not isinstance(document, list):
            raise DomainError("a domain is a list of attributes")
        if len(document) > MAX_ATTRIBUTES:
            raise DomainError(f"a domain has 1 to {MAX_ATTRIBUTES} attributes, got {len(document)}")
        return cls(tuple(a for i, entry in enumerate(document) for a in _attributes(i, entry)))

    @classmethod
    def from_dictionary(cls, document: object) -> Domain:
        """Read a data dictionary that a person wrote; its edges can be JSON numbers."""
        return cls.from_json(with_decimal_edges(document))


def label_text(label: object) -> str | None:
    """Return a string itself, or the decimal digits of an integer that is no truth value."""
    if isinstance(label, str):
        return label
    if type(label) is int or isinstance(label, np.integer):
        try:
            return str(label)
        except ValueError:  # Python does not convert integers of thousands of digits
            return None
    return None


def _entry(attribute: Attribute) -> dict[str, Any]:
    """Return the entry of an attribute in a plan document; equal for all of one field."""
    kind = attribute.kind
    entry: dict[str, Any] = {"name": attribute.field} | ({} if kind is None else kind.to_json())
    if kind is None or isinstance(kind, Ordered):
        entry["labels"] = list(attribute.labels)
    if attribute.other is not None:
        entry["other"] = attribute.labels[attribute.other]
    if attribute.recorded is not None:
        entry["from"] = attribute.recorded.to_json()
    return entry


_FIELDS = {
    "category": {"name", "labels", "other"},
    "ordered": {"name", "labels", "other"},
    "number": {"name", "unit", "edges", "below", "above", "rounding", "other"},
    "choices": {"name", "options", "other"},
    "hashed": {"name", "buckets", "hashes"},
}


def _attributes(i: int, entry: object) -> tuple[Attribute, ...]:
    """Read entry i of a domain: one attribute, or one for each option or hash."""
    where = f"domain[{i}]"
    if not isinstance(entry, dict):
        raise DomainError(f"{where}: expected an object with name and labels")
    kind = entry.get("kind", "category")
    if not isinstance(kind, str) or kind not in _FIELDS:
        raise DomainError(f"{where}.kind: {kind!r} is none of {', '.join(_FIELDS)}")
    unknown = sorted(set(entry) - _FIELDS[kind] - {"kind", "from"})
    if unknown:
        raise DomainError(f"{where}: unknown field {unknown[0]!r}")
    name = entry.get("name")
    if not isinstance(name, str) or not name:
        raise DomainError(f"{where}.name: expected a string that is not empty")
    read = _READERS.get(kind, _category)(name, entry, where)
    if "from" not in entry:
        return read
    recorded = read_recorded(entry["from"], f"{where}.from")
    check_recorded(recorded, read[0].kind, read[0].labels, where)
    return tuple(replace(attribute, recorded=recorded) for attribute in read)


def _category(name: str, entry: dict[str, Any], where: str) -> tuple[Attribute, ...]:
    other, labels = entry.get("other"), entry.get("labels")
    if not isinstance(labels, list) or not all(isinstance(x, str) for x in labels):
        raise DomainError(f"{where}.labels: expected a list of strings")
    if other is not None and other not in labels:
        raise DomainError(f"{where}.other: {other!r} is not one of the labels")
    place = None if other is None else labels.index(other)
    kind = Ordered() if entry.get("kind") == "ordered" else None
    return (Attribute(name, tuple(labels), place, kind),)


def _number(name: str, entry: dict[str, Any], where: str) -> tuple[Attribute, ...]:
    """Read a number; its label ``other`` gets the last code."""
    kind, other = read_number(entry, where), entry.get("other")
    if other is None:
        return (Attribute(name, kind.labels, None, kind),)
    if not isinstance(other, str):
        raise DomainError(f"{where}.other: expected a string")
    return (Attribute(name, (*kind.labels, other), len(kind.labels), kind),)


def _options(name: str, entry: dict[str, Any], where: str) -> tuple[Attribute, ...]:
    """Read a choice: one attribute with the labels no and yes for each option."""
    return tuple(
        Attribute(f"{name}={kind.option}", CHOSEN, None, kind)
        for kind in read_choices(name, entry, where)
    )


def _hashes(name: str, entry: dict[str, Any], where: str) -> tuple[Attribute, ...]:
    kinds = read_hashed(name, entry, where)
    labels = tuple(map(str, range(kinds[0].buckets)))
    return tuple(Attribute(f"{name}#{kind.place}", labels, None, kind) for kind in kinds)


_READERS = {"number": _number, "choices": _options, "hashed": _hashes}
