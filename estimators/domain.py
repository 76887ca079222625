"""Attributes, labels and the arithmetic of cells.

A *record* is a row of codes, one per attribute. A *table* over a tuple of attributes has one cell
per combination of their codes, numbered row-major: the last attribute varies fastest, so that
``table.reshape(shape)`` puts attribute i on axis i.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from estimators.errors import DomainError

Codes = NDArray[np.uint16]
Attributes = tuple[int, ...]

MAX_CARDINALITY = 4096
"""Maximum number of labels of an attribute; devices keep a table of them."""

MAX_ATTRIBUTES = 1024
"""Maximum number of attributes of a record, which limits the size of plans."""


@dataclass(frozen=True, slots=True)
class Attribute:
    """One categorical attribute.

    Attributes:
        name: name of the attribute, unique within the domain and not empty.
        labels: its values in the order of their codes; 2 to 4096 distinct strings.
        other: the code of unknown or missing labels. If it is None, a device replaces an unknown
            label by a uniformly random code.
    """

    name: str
    labels: tuple[str, ...]
    other: int | None = None

    def __post_init__(self) -> None:
        if not self.name or not isinstance(self.name, str):
            raise DomainError("an attribute needs a name that is a non-empty string")
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
        """Number of labels."""
        return len(self.labels)


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

    @classmethod
    def binary(cls, d: int) -> Domain:
        """Return a domain of d attributes named a0.. with labels "0" and "1"."""
        return cls(tuple(Attribute(f"a{j}", ("0", "1")) for j in range(d)))

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Attribute names in order."""
        return tuple(a.name for a in self.attributes)

    @cached_property
    def cardinalities(self) -> tuple[int, ...]:
        """Number of labels of each attribute, in order."""
        return tuple(a.cardinality for a in self.attributes)

    @cached_property
    def _position(self) -> dict[str, int]:
        """Position of every attribute by name."""
        return {name: i for i, name in enumerate(self.names)}

    @cached_property
    def _codes(self) -> dict[int, dict[str, int]]:
        """Cache of `_codes_of`."""
        return {}

    def _codes_of(self, j: int) -> dict[str, int]:
        """Return the code of every label of attribute j; computed on first use."""
        codes = self._codes.get(j)
        if codes is None:
            codes = {label: c for c, label in enumerate(self.attributes[j].labels)}
            self._codes[j] = codes
        return codes

    def __len__(self) -> int:
        return len(self.attributes)

    def index(self, names: Iterable[str]) -> Attributes:
        """Return sorted attribute positions of the given names.

        Raises:
            DomainError: a name is unknown or given twice.
        """
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
        """Return the number of cells over the given attributes (by default all)."""
        return math.prod(self.cardinalities if attributes is None else self.shape(attributes))

    def cells(self, codes: NDArray[Any], attributes: Sequence[int]) -> NDArray[np.int64]:
        """Return the cell index of every record in the table over ``attributes``.

        Args:
            codes: shape (n, d), integers, each below its attribute's cardinality.
            attributes: positions, in table-axis order; the table must have fewer than 2^62 cells.

        Returns:
            Shape (n,), int64. Cost O(n · len(attributes)).
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

    def encode(self, columns: Mapping[str, Sequence[object]]) -> Codes:
        """Encode a local table of records; unlike on devices, an unknown label is an error.

        Args:
            columns: labels by attribute name, one per record; integers as in `code`.

        Returns:
            Shape (n, d), uint16.

        Raises:
            DomainError: a column is missing, lengths differ, or a label is unknown and the
                attribute has no code ``other``; the message names attribute, row and label.
        """
        lengths = {len(columns[name]) for name in self.names if name in columns}
        missing = [name for name in self.names if name not in columns]
        if missing:
            raise DomainError(f"the table has no column {missing[0]!r}")
        if len(lengths) != 1:
            raise DomainError(f"columns of different lengths: {sorted(lengths)}")
        codes = np.empty((lengths.pop(), len(self)), np.uint16)
        for j, attribute in enumerate(self.attributes):
            codes[:, j] = self._encode_column(j, attribute, columns[attribute.name])
        return codes

    def _encode_column(self, j: int, attribute: Attribute, column: Sequence[object]) -> list[int]:
        """Return the codes of one column."""
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

    def code(self, j: int, label: object) -> int | None:
        """Return the code of one label of attribute j.

        Args:
            j: position of the attribute.
            label: a string, or an integer, whose decimal digits are the label.

        Returns:
            The code of the label, else the attribute's code ``other``, else None.
        """
        text = label_text(label)
        code = None if text is None else self._codes_of(j).get(text)
        return self.attributes[j].other if code is None else code

    def to_json(self) -> list[dict[str, Any]]:
        """Return the domain in the form of a plan document."""
        return [
            {"name": a.name, "labels": list(a.labels)}
            | ({} if a.other is None else {"other": a.labels[a.other]})
            for a in self.attributes
        ]

    @classmethod
    def from_json(cls, document: object) -> Domain:
        """Read what :meth:`to_json` wrote, or the data dictionary of ``calmstream plan``.

        Raises:
            DomainError: a field is unknown, missing or of the wrong type; the message names the
                attribute.
        """
        if not isinstance(document, list):
            raise DomainError("a domain is a list of attributes")
        return cls(tuple(_attribute(i, entry) for i, entry in enumerate(document)))


def label_text(label: object) -> str | None:
    """Return the text of a label: a string itself, or the decimal digits of an integer.

    Anything else, also True and False, gives None.
    """
    if isinstance(label, str):
        return label
    if type(label) is int or isinstance(label, np.integer):
        try:
            return str(label)
        except ValueError:  # Python does not convert integers of thousands of digits
            return None
    return None


def _attribute(i: int, entry: object) -> Attribute:
    """Read entry i of a domain."""
    where = f"domain[{i}]"
    if not isinstance(entry, dict):
        raise DomainError(f"{where}: expected an object with name and labels")
    unknown = sorted(set(entry) - {"name", "labels", "other"})
    if unknown:
        raise DomainError(f"{where}: unknown field {unknown[0]!r}")
    name, labels, other = entry.get("name"), entry.get("labels"), entry.get("other")
    if not isinstance(name, str):
        raise DomainError(f"{where}.name: expected a string")
    if not isinstance(labels, list) or not all(isinstance(x, str) for x in labels):
        raise DomainError(f"{where}.labels: expected a list of strings")
    if other is not None and other not in labels:
        raise DomainError(f"{where}.other: {other!r} is not one of the labels")
    return Attribute(name, tuple(labels), None if other is None else labels.index(other))
