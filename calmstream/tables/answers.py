"""Cells with several answers: the separator between them is found or stated."""

from __future__ import annotations

from calmstream.common.errors import InvalidInput
from calmstream.tables.table import FileColumn, listed, shown

SEPARATORS = (";", "|", "\n", " / ", ", ", ",")  # separators of answers that are found

_MOST_PARTS = 128
_MIN_SHARE = 0.02  # smallest share of the cells that must have several answers


def separator_of(column: FileColumn) -> str | None:
    """Return what separates few answers in many combinations, none twice; None if nothing does."""
    counts = dict(zip(column.values, column.counts.tolist(), strict=True))
    cells = {value: counts[value] for value in column.said if isinstance(value, str)}
    for separator in SEPARATORS:
        several = sum(count for text, count in cells.items() if separator in text)
        if several < max(2, _MIN_SHARE * sum(cells.values())):
            continue
        split = {text: split_by(text, separator) for text in cells}
        parts = {part for found in split.values() for part in found}
        alone = {found[0] for found in split.values() if len(found) == 1}
        if (
            len(parts) <= min(_MOST_PARTS, 0.8 * len(split))
            # Texts have the others, too: most answers stand alone somewhere.
            and (separator in ";|\n" or 2 * len(alone) >= len(parts))
            and not any(len(set(found)) < len(found) for found in split.values())
        ):
            return separator
    return None


def split_by(text: str, separator: str) -> tuple[str, ...]:
    return tuple(filter(None, (part.strip() for part in text.split(separator))))


def split(column: FileColumn, separator: str) -> FileColumn:
    """Return a column of lists; a cell that says nothing is an empty one."""
    texts = [value for value in column.said if isinstance(value, str)]
    if texts and not any(separator in text for text in texts):
        found = separator_of(column)
        hint = f"; {shown(found)} separates them" if found else ""
        raise InvalidInput(
            f"--choices: no cell of {column.name!r} has {shown(separator)}, they have "
            f"{listed(texts, 3)}{hint}"
        )
    return column.mapped(
        [
            value
            if isinstance(value, tuple)
            else ()
            if not present
            else tuple(dict.fromkeys(split_by(value, separator)))
            for value, present in zip(column.values, column.present, strict=True)
        ]
    )
