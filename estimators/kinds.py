"""Kinds of attributes beside categories: ordered labels, numbers, options of a choice, hashes.

A kind says how a value of a record becomes a code and what the codes mean. Mechanisms see codes
only, so the privacy of a report does not depend on it. See docs/numbers.md.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calmstream.common.errors import DomainError
from calmstream.estimators.arrays import Floats
from calmstream.estimators.hashed import Hashed
from calmstream.estimators.randomness import Randomness

MAX_OPTIONS = 256  # of a choice: each is an attribute, and all their pairs are tables
MAX_EDGES = 4096  # of a number; it limits the number of codes
ROUNDINGS = ("bin", "grid")
"""How a number becomes a code: that of its bin, or of one of its two neighbours on the grid."""

CHOSEN = ("no", "yes")
_DECIMAL = re.compile(r"-?(0|[1-9][0-9]{0,17})(\.[0-9]{1,18})?", re.ASCII)
_ROUNDING_BITS = 53  # of one rounding on a grid: as many as the fraction of a double has


@dataclass(frozen=True, slots=True)
class Ordered:
    """The labels of a category have an order, that of their codes."""

    def to_json(self) -> dict[str, Any]:
        return {"kind": "ordered"}


@dataclass(frozen=True, slots=True)
class Choice:
    """An attribute says whether one option of a list, the field ``question``, was chosen.

    ``other``: the option that stands for unknown ones; None: unknown options are ignored.
    """

    question: str
    option: str
    options: tuple[str, ...]
    other: str | None = None

    def code(self, value: object) -> int | None:
        """Return 1 if the list of a record has the option, else 0; None if it is not a list."""
        if not isinstance(value, (list, tuple, set, frozenset)):
            return None
        if self.option in value:
            return 1
        unknown = self.option == self.other and any(one not in self.options for one in value)
        return int(unknown)

    def to_json(self) -> dict[str, Any]:
        other = {} if self.other is None else {"other": self.other}
        return {"kind": "choices", "options": list(self.options), **other}


@dataclass(frozen=True, slots=True)
class Number:
    """A number, as codes of bins or of points on a grid.

    With ``rounding`` ``bin``, code i stands for edges[i] <= value < edges[i + 1]; the last bin
    contains its upper edge unless ``above`` is true. Values outside go to the codes for values
    below and above, or to the nearest bin where there are no such codes. With ``grid`` the edges
    themselves are the codes; a value between two of them becomes one of the two, at random, with
    the mean of the value, so that the mean of the codes' numbers is unbiased for the mean of the
    clamped values.
    """

    edges: tuple[str, ...]  # rising decimal numbers, 2 to 4,096 of them
    unit: str = ""
    below: bool = False  # whether values below the first edge have a code of their own, the first
    above: bool = False  # whether values from the last edge on have a code of their own
    rounding: str = "bin"

    def __post_init__(self) -> None:
        if self.rounding not in ROUNDINGS:
            raise DomainError(f"rounding: {self.rounding!r} is none of {', '.join(ROUNDINGS)}")
        if not 2 <= len(self.edges) <= MAX_EDGES:
            raise DomainError(f"edges: a number needs 2 to {MAX_EDGES:,}, got {len(self.edges):,}")
        for edge in self.edges:
            if _DECIMAL.fullmatch(edge) is None:
                raise DomainError(f"edges: {edge!r} is not a plain decimal number")
        values = self.values
        for i in range(1, len(values)):
            if not values[i - 1] < values[i]:
                raise DomainError(
                    f"edges: they must rise, but {self.edges[i - 1]} is before {self.edges[i]}"
                )
        if self.rounding == "grid" and (self.below or self.above):
            raise DomainError("below, above: a grid has no such codes; its values are clamped")

    @property
    def values(self) -> tuple[float, ...]:
        return tuple(float(edge) for edge in self.edges)

    @property
    def labels(self) -> tuple[str, ...]:
        if self.rounding == "grid":
            return self.edges
        bins = [f"{a}..{b}" for a, b in zip(self.edges, self.edges[1:], strict=False)]
        below = [f"<{self.edges[0]}"] if self.below else []
        above = [f"{self.edges[-1]}+"] if self.above else []
        return (*below, *bins, *above)

    @property
    def positions(self) -> Floats:
        """The number of each code: its point, the middle of its bin, or the edge it lies beyond."""
        edges = np.array(self.values)
        if self.rounding == "grid":
            return edges
        middle = (edges[:-1] + edges[1:]) / 2.0
        return np.concatenate([edges[:1][: self.below], middle, edges[-1:][: self.above]])

    @property
    def bounds(self) -> Floats:
        """Ends of each code's values, (codes, 2): equal on a grid, infinite beyond all edges."""
        edges = np.array(self.values)
        if self.rounding == "grid":
            return np.stack([edges, edges], axis=1)
        ends = np.concatenate([[-math.inf][: self.below], edges, [math.inf][: self.above]])
        return np.stack([ends[:-1], ends[1:]], axis=1)

    def code(self, value: object, randomness: Randomness | None = None) -> int | None:
        """Return the code of a value; None if it is not a finite number."""
        number = _finite(value)
        if number is None:
            return None
        return int(self.codes(np.array([number]), randomness)[0])

    def codes(self, values: Floats, randomness: Randomness | None) -> NDArray[np.int64]:
        """Return the codes of finite numbers, shape (n,), float64."""
        edges = np.array(self.values)
        if self.rounding == "bin":
            place = np.searchsorted(edges, values, side="right") - 1 + int(self.below)
            most = len(edges) - 2 + self.below + self.above
            return np.asarray(np.clip(place, 0, most), np.int64)
        clamped = np.clip(values, edges[0], edges[-1])
        low = np.minimum(np.searchsorted(edges, clamped, side="right") - 1, len(edges) - 2)
        share = (clamped - edges[low]) / (edges[low + 1] - edges[low])
        if randomness is None:
            return np.asarray(low + (share > 0.5), np.int64)
        words = np.frombuffer(randomness.bytes(8 * len(values)), "<u8")
        threshold = (share * 2.0**_ROUNDING_BITS).astype(np.uint64)
        up = (words >> np.uint64(64 - _ROUNDING_BITS)) < threshold
        return np.asarray(low + up, np.int64)

    def to_json(self) -> dict[str, Any]:
        flags = {"below": self.below, "above": self.above} if self.rounding == "bin" else {}
        own = {"kind": "number", "unit": self.unit, "edges": list(self.edges)}
        return {**own, **flags, "rounding": self.rounding}


Kind = Ordered | Number | Choice | Hashed


def decimal_text(value: object) -> str:
    """Return a number of a data dictionary as plans write it: plain decimal digits."""
    if isinstance(value, str):
        return value
    if type(value) not in (int, float) or not math.isfinite(value):  # type: ignore[arg-type]
        raise DomainError(f"edges: {value!r} is not a finite number")
    text = format(Decimal(repr(value)), "f")
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def _finite(value: object) -> float | None:
    if isinstance(value, (bool, np.bool_)) or not isinstance(
        value, (int, float, np.integer, np.floating)
    ):
        return None
    try:
        number = float(value)
    except OverflowError:  # an integer beyond all doubles is beyond all edges
        return math.copysign(1e308, 1 if value > 0 else -1)
    return number if math.isfinite(number) else None


def read_number(entry: dict[str, Any], where: str) -> Number:
    edges = entry.get("edges")
    if not isinstance(edges, list) or not all(isinstance(edge, str) for edge in edges):
        raise DomainError(f"{where}.edges: expected a list of decimal numbers in strings")
    unit, rounding = entry.get("unit", ""), entry.get("rounding", "bin")
    if not isinstance(unit, str) or not isinstance(rounding, str):
        raise DomainError(f"{where}.unit, {where}.rounding: expected strings")
    flags = {name: entry.get(name, False) for name in ("below", "above")}
    for name, flag in flags.items():
        if not isinstance(flag, bool):
            raise DomainError(f"{where}.{name}: expected true or false")
    try:
        return Number(tuple(edges), unit, rounding=rounding, **flags)
    except DomainError as error:
        raise DomainError(f"{where}.{error}") from None


def read_choices(name: str, entry: dict[str, Any], where: str) -> list[Choice]:
    """Read the entry of a choice in a domain: one kind for each option."""
    options, other = entry.get("options"), entry.get("other")
    if not isinstance(options, list) or not all(isinstance(x, str) and x for x in options):
        raise DomainError(f"{where}.options: expected a list of non-empty strings")
    if not 1 <= len(options) <= MAX_OPTIONS or len(set(options)) != len(options):
        raise DomainError(
            f"{where}.options: a choice needs 1 to {MAX_OPTIONS} different options, "
            f"got {len(options):,}"
        )
    if other is not None and (not isinstance(other, str) or other not in options):
        raise DomainError(f"{where}.other: {other!r} is not one of the options")
    return [Choice(name, option, tuple(options), other) for option in options]


def with_decimal_edges(document: object) -> object:
    """Return a data dictionary with its edges, which can be JSON numbers, as plans write them."""
    if not isinstance(document, list):
        return document
    found = []
    for i, entry in enumerate(document):
        edges = entry.get("edges") if isinstance(entry, dict) else None
        if not isinstance(edges, list):
            found.append(entry)
            continue
        try:
            found.append({**entry, "edges": [decimal_text(edge) for edge in edges]})
        except DomainError as error:
            raise DomainError(f"domain[{i}].{error}") from None
    return found


# Values of a local table: numbers and lists of options, which can be texts.


def number_codes(
    kind: Number, other: int | None, column: Sequence[object], randomness: Randomness | None
) -> NDArray[np.int64]:
    values = np.array([_number(value) for value in column], np.float64)
    unknown = ~np.isfinite(values)
    if other is None and unknown.any():
        row = int(unknown.argmax())
        raise DomainError(f"row {row + 1}: {column[row]!r} is not a finite number")
    known = np.where(unknown, 0.0, values)
    codes = kind.codes(known, randomness)
    return codes if other is None else np.where(unknown, other, codes)


def options_of(value: object) -> object:
    """Return the chosen options of a field: those of a text are separated by ``|``."""
    if isinstance(value, str):
        return tuple(filter(None, (part.strip() for part in value.split("|"))))
    return value


def _number(value: object) -> float:
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return np.nan
