"""Groups of labels: ``region=EU|US,other`` and, of numbers or ordered labels, ``age=17-30|51+``.

docs/asking-later.md has the grammar. A member is, in this order: a label, ``first..last``, or the
labels that are numbers, spans or bins of numbers within ``low-high`` or ``low+``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from calmstream.common.errors import InvalidInput
from calmstream.estimators.arrays import Floats
from calmstream.estimators.domain import Attribute, Domain
from calmstream.estimators.kinds import Number

Groups = str | Mapping[str, str]
"""Groups of labels as people write them: a text, or one for each attribute."""

REST = "(rest)"
_SEPARATORS = ";=|,"
_NUMBER = r"[-+]?\d+(?:\.\d+)?"
_SPAN = re.compile(rf"({_NUMBER})\s*(?:-|\.\.)\s*({_NUMBER})|({_NUMBER})\s*\+")
_PLAIN = re.compile(_NUMBER)


@dataclass(frozen=True, slots=True, eq=False)
class Grouping:
    """How the labels of one attribute are put together: each is in exactly one group."""

    labels: tuple[str, ...]
    member: Floats  # (groups, labels): 1 where a group has a label


def parse(text: str, domain: Domain) -> dict[int, Grouping]:
    """Return the groupings of a text by the attribute's position; none of an empty text."""
    found: dict[int, Grouping] = {}
    for part in filter(None, _split(text, ";")):
        name, groups = _name_and_groups(part, domain)
        (position,) = domain.index([name])
        if position in found:
            raise InvalidInput(f"group: attribute {name!r} is grouped twice")
        found[position] = of_labels(domain.attributes[position], _split(groups, "|"))
    return found


def _name_and_groups(part: str, domain: Domain) -> tuple[str, str]:
    """Return the attribute of a part, and its groups; the longest name that fits counts."""
    pieces = _raw_split(part, "=")
    for count in range(len(pieces) - 1, 0, -1):
        name = _unquoted("=".join(pieces[:count]).strip())
        if count == 1 or name in domain.names:
            return name, "=".join(pieces[count:])
    raise InvalidInput(f"group {part!r}: expected ATTRIBUTE=LABEL,..|LABEL,..")


def _split(text: str, separator: str) -> list[str]:
    """Return the parts between separators outside quotes, without spaces around them."""
    return [part.strip() for part in _raw_split(text, separator)]


def _raw_split(text: str, separator: str) -> list[str]:
    parts, begin, inside, fresh = [], 0, False, True
    for place, character in enumerate(text):
        if character == '"' and (inside or fresh):
            inside, fresh = not inside, inside
        elif inside:
            continue
        elif character == separator:
            parts.append(text[begin:place])
            begin, fresh = place + 1, True
        else:
            # A quote has a meaning at the beginning of a name or label only.
            fresh = character in _SEPARATORS or (fresh and character.isspace())
    if inside:
        raise InvalidInput(f"group {text!r}: a quote is not closed")
    return [*parts, text[begin:]]


def _unquoted(text: str) -> str:
    if not text.startswith('"'):
        return text
    if len(text) < 2 or not text.endswith('"'):
        raise InvalidInput(f"group: {text!r}: a text follows a quote")
    return text[1:-1].replace('""', '"')


def of_question(
    group: Groups, where: Groups, domain: Domain
) -> tuple[dict[int, Grouping], tuple[str, ...]]:
    """Return the groupings, and the attributes of ``where``, whose first groups it is about."""
    found, only = (
        parse(one, domain) if isinstance(one, str) else of_mapping(one, domain)
        for one in (group, where)
    )
    for position in found.keys() & only.keys():
        raise InvalidInput(f"group: attribute {domain.names[position]!r} is grouped twice")
    return found | only, tuple(domain.names[position] for position in only)


def of_mapping(groups: Mapping[str, str], domain: Domain) -> dict[int, Grouping]:
    found = {}
    for name, text in groups.items():
        (position,) = domain.index([name])
        found[position] = of_labels(domain.attributes[position], _split(text, "|"))
    return found


def of_labels(attribute: Attribute, groups: list[str]) -> Grouping:
    owner = np.full(attribute.cardinality, -1)
    for number, group in enumerate(groups):
        if not group:
            raise InvalidInput(f"group of {attribute.name!r}: a group without labels")
        codes = [c for member in _split(group, ",") for c in _codes(attribute, member)]
        if not codes:
            raise InvalidInput(f"group of {attribute.name!r}: {group!r} has no label")
        for code in codes:
            if owner[code] >= 0:
                raise InvalidInput(
                    f"group of {attribute.name!r}: {attribute.labels[code]!r} is named twice"
                )
            owner[code] = number
    names = [_unquoted(group) if len(_split(group, ",")) == 1 else group for group in groups]
    if (owner < 0).any():
        owner[owner < 0] = len(groups)
        names.append(REST)
    member = (owner[None] == np.arange(len(names))[:, None]).astype(np.float64)
    return Grouping(tuple(names), member)


def _codes(attribute: Attribute, member: str) -> list[int]:
    labels, plain = attribute.labels, _unquoted(member)
    if plain in labels:
        return [labels.index(plain)]
    if member.startswith('"'):
        raise InvalidInput(f"attribute {attribute.name!r} has no label {plain!r}")
    first, dots, last = member.partition("..")
    if dots and first.strip() in labels and last.strip() in labels:
        low, high = labels.index(first.strip()), labels.index(last.strip())
        if low <= high:
            return list(range(low, high + 1))
    if (span := _span(member)) is not None:
        return _within(attribute, span, member)
    few = ", ".join(labels[:8]) + (", .." if len(labels) > 8 else "")
    raise InvalidInput(f"attribute {attribute.name!r} has no label {member!r}; it has {few}")


def _within(attribute: Attribute, span: tuple[float, float], member: str) -> list[int]:
    found = []
    for code, label in enumerate(attribute.labels):
        bounds = _bounds_of(attribute, code)
        if bounds is None or bounds[1] < span[0] or bounds[0] > span[1]:
            continue
        # A bin of a number does not contain its upper edge.
        if (
            isinstance(attribute.kind, Number)
            and bounds[0] < bounds[1]
            and (bounds[1] == span[0] or bounds[0] == span[1])
        ):
            continue
        if not (span[0] <= bounds[0] and bounds[1] <= span[1]):
            raise InvalidInput(
                f"group of {attribute.name!r}: the label {label!r} is only partly within {member}"
            )
        found.append(code)
    return found


def _bounds_of(attribute: Attribute, code: int) -> tuple[float, float] | None:
    """Return the numbers that a code stands for; None if it is no number and no span."""
    kind = attribute.kind
    if not isinstance(kind, Number):
        label = attribute.labels[code].strip()
        return (float(label), float(label)) if _PLAIN.fullmatch(label) else _span(label)
    if code == attribute.other:
        return None
    low, high = kind.bounds[code].tolist()
    return low, high


def _span(text: str) -> tuple[float, float] | None:
    found = _SPAN.fullmatch(text)
    if found is None:
        return None
    if found[3] is not None:
        return float(found[3]), math.inf
    return float(found[1]), float(found[2])
