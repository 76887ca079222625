"""What the columns of a table are, as entries of a data dictionary, and why."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calmstream.tables import numbers
from calmstream.tables.order import order_of
from calmstream.tables.table import LABEL, OTHER, FileColumn, listed, shown

MAX_LABELS = 64  # columns with more labels keep the frequent ones
MAX_KEPT = 31  # most labels that are kept of a column with too many
FREQUENT = 0.01  # smallest share of the records that have a frequent label
MIN_FREQUENT = 0.1  # smallest share of frequent labels where there are too many
FEW_NUMBERS = 16  # most distinct numbers that are labels, not bins

_DATE = re.compile(
    r"(\d{4}[-/.]\d{1,2}[-/.]\d{1,2}([T ].*)?"
    r"|\d{1,2}[-/.]\d{1,2}[-/.](\d{4}|\d{2})( .*)?"
    r"|\d{1,2}:\d{2}(:\d{2}(\.\d+)?)?( ?[AP]M)?"
    r"|(\w{3}, )?\d{1,2}[- ][^\W\d]{3,9}[- ,]+\d{2,4}( .*)?|[^\W\d]{3,9}\.? \d{1,2},? \d{4}( .*)?)",
    re.IGNORECASE,
)
_ID = re.compile(r"(^|[\s_.-])(?i:id|uuid|guid|index|key|rowid|nr|no)$|[a-z]I[dD]$|^#$")
_CODE = re.compile(r"(^|[\s_.-])(?i:code|zip|postal|postcode|phone)($|[\s_.-])|[a-z]Code$")
"""Names of columns whose numbers are no quantities, beside `_ID`."""

# What stands for a missing number.
_NO_NUMBERS = frozenset(("?", "-", "--", ".", "*", "n.a.", "unknown", "Unknown"))
_NOTHING = re.compile(r"-1|-?(9{1,5}|8{2,5}|7{2,5})")  # no answer, where far from all others

_ZEROS = re.compile(r"(?<=\d)\.0+$")
_TRUE = frozenset(("true", "yes", "1", "y", "t"))
_FALSE = frozenset(("false", "no", "0", "n", "f"))


@dataclass(frozen=True, slots=True, eq=False)
class Understood:
    """What a column is, and why it is so."""

    column: FileColumn
    entry: Mapping[str, Any] | None  # in a data dictionary; None: left out
    why: str
    warnings: tuple[str, ...] = ()  # for the person
    missing: int = 0  # records in which it says nothing


def understand(column: FileColumn, *, asked: bool) -> Understood:
    """Return what a column is; one that was ``asked`` for is left out only if it is empty."""
    if any(isinstance(value, tuple) for value in column.values):
        return _choices(column)
    present = _present(column)
    texts = [str(value) for value, kept in zip(column.values, present, strict=True) if kept]
    counts = column.counts[present]
    absent = int(column.counts.sum() - counts.sum())
    found = _left_out(column.name, texts, counts, absent) if not asked or not texts else ""
    if found:
        return Understood(column, None, found, (), absent)
    bins = _number(column, texts, counts, absent) if len(texts) > FEW_NUMBERS else None
    if bins is not None:
        return bins
    return _labels(column, dict(zip(texts, counts.tolist(), strict=True)), absent)


def _present(column: FileColumn) -> NDArray[np.bool_]:
    """Return a mask of the values that say something: in a column of numbers, ``?`` does not."""
    values = [str(value).strip() for value in column.values]
    kept = column.present & [value not in _NO_NUMBERS for value in values]
    texts = [value for value, one in zip(values, kept, strict=True) if one]
    if (kept == column.present).all() or len(texts) <= FEW_NUMBERS:
        return column.present
    return column.present if numbers.parsed(texts) is None else kept


def _left_out(name: str, texts: Sequence[str], counts: Any, absent: int) -> str:
    """Return why a column that nobody asked for is left out; empty if it is not."""
    n = int(counts.sum())
    if not texts:
        return "it is empty"
    if len(texts) == 1 and not absent:
        return f"every record has {shown(texts[0], 24)}"
    if sum(map(bool, map(_DATE.fullmatch, map(str.strip, texts)))) >= 0.9 * len(texts):
        return f"dates or times, such as {shown(texts[0], 24)}"
    # Row numbers, and row names as R writes them, stand in a first column without a name.
    unnamed = name == "column 1" and len(texts) == n and not any("." in text for text in texts)
    each = len(texts) > 0.9 * n and n > FEW_NUMBERS
    if unnamed or (each and (_ID.search(name) or _counts_up(texts))):
        return f"ids: {len(texts):,} values in {n:,} records"
    frequent = counts[counts >= FREQUENT * n].sum() if len(texts) > MAX_LABELS else n
    many = len(texts) > FEW_NUMBERS and (numbers.parsed(texts) is None or not is_quantity(name))
    if many and (2 * len(texts) > n or frequent < MIN_FREQUENT * n):
        return f"ids or free text: {len(texts):,} values in {n:,} records"
    return ""


def is_quantity(name: str) -> bool:
    """Return whether numbers of a column may be more than names of something."""
    return not (_ID.search(name) or _CODE.search(name))


def _counts_up(texts: Sequence[str]) -> bool:
    if not all(text.isdecimal() and len(text) < 16 for text in texts):
        return False
    values = set(map(int, texts))
    return max(values) - min(values) < 1.1 * len(texts)


def _number(
    column: FileColumn, texts: Sequence[str], counts: Any, absent: int
) -> Understood | None:
    found = numbers.parsed(texts) if is_quantity(column.name) else None
    if found is None:
        return None
    values, style = found
    edges = numbers.edges(values, counts)
    if len(edges) < 3:
        return None
    entry: dict[str, Any] = {"name": column.name, "kind": "number", "edges": edges}
    if absent:
        entry["other"] = LABEL
    note = ", ".join(filter(None, (f"{len(edges) - 1} bins, {edges[0]} to {edges[-1]}", style)))
    return Understood(column, entry, note, _missing_codes(column.name, texts), absent)


def _labels(column: FileColumn, counts: dict[str, int], absent: int) -> Understood:
    n = sum(counts.values())
    warnings = _spellings(column.name, counts) + _missing_codes(column.name, list(counts))
    warnings += _joined(column.name, counts)
    kept, why, entry = list(counts), "", dict[str, Any](name=column.name)
    if len(counts) > MAX_LABELS:
        kept = sorted(counts, key=lambda label: (-counts[label], label))[:MAX_KEPT]
        kept = [x for x in kept if counts[x] >= FREQUENT * n] or kept
        rest = next((x for x in kept if x.casefold() == OTHER), OTHER)
        share = 1 - sum(counts[x] for x in kept if x != rest) / n
        kept = [x for x in kept if x != rest]
        why = f"the {len(kept)} frequent ones of {len(counts):,}; {rest!r} for {percent(share)}"
        entry["other"] = rest
        if hint := next((s for s in ";|," if sum(s in x for x in counts) > 0.2 * len(counts)), ""):
            option = f"--choices '{column.name}={hint}'"
            warnings += (f"many cells have {hint!r}: {option} if it separates answers",)
    parsed = numbers.parsed(kept)
    order = order_of(kept)
    if parsed is not None:
        kept = [kept[i] for i in np.argsort(parsed[0], kind="stable")]
        order = tuple(kept) if is_quantity(column.name) and 3 <= len(kept) == len(counts) else None
    else:
        kept = list(order or sorted(kept))
    if absent:
        kept.append(LABEL)
    if "other" in entry:
        kept.append(entry["other"])
    kept = list(dict.fromkeys(kept))
    if len(kept) < 2:
        return Understood(column, None, f"every record has {listed(kept, 1)}", warnings, absent)
    if order and not absent and "other" not in entry:
        entry["kind"] = "ordered"
    entry["labels"] = kept
    few = listed(kept, 3)
    plain = few if any(", " in label for label in kept[:3]) else few.replace("'", "")
    return Understood(column, entry, why or plain, warnings, absent)


def _missing_codes(name: str, texts: Sequence[str]) -> tuple[str, ...]:
    """Point out what may stand for a missing answer: 99 far above all others, -9 below, a dash."""
    odd = [text for text in texts if text.strip() in _NO_NUMBERS]
    parsed = numbers.parsed(others := [text for text in texts if text not in odd])
    if parsed is not None and len(others) > 2:
        found = sorted(zip(parsed[0].tolist(), others, strict=True))
        ends = found[:1] * (found[0][0] < 0 <= found[1][0])
        ends += found[-1:] * (found[-1][0] > 2 * max(found[-2][0], 1))
        # The option separates texts with commas.
        odd += [text for x, text in ends if _NOTHING.fullmatch(f"{x:.17g}") and "," not in text]
    if not odd:
        return ()
    stated = ",".join(odd)
    return (f"{name!r} has {listed(odd)}: --missing 'label:{stated}' if that says nothing",)


def _joined(name: str, counts: Mapping[str, int]) -> tuple[str, ...]:
    """Point out labels that begin with another label and a separator: they may be several."""
    for mark in (", ", " / ", " + ", " & ", "/", "+"):
        found = [
            label
            for label in counts
            if mark in label
            and any(
                label[: at.start()].strip() in counts for at in re.finditer(re.escape(mark), label)
            )
        ]
        if len(found) > 1:
            stated = f"--choices '{name}={mark}'"
            return (f"labels such as {shown(found[0])}: {stated} if they are several answers",)
    return ()


def _spellings(name: str, counts: Mapping[str, int]) -> tuple[str, ...]:
    alike: dict[str, list[str]] = {}
    for label in counts:
        text = _ZEROS.sub("", " ".join(label.casefold().split()))
        alike.setdefault(text, []).append(label)
    if len(alike) > 2 and alike.keys() <= _TRUE | _FALSE:
        alike = {
            "t": [x for x in counts if " ".join(x.casefold().split()) in _TRUE],
            "f": [x for x in counts if " ".join(x.casefold().split()) in _FALSE],
        }
    groups = [group for group in alike.values() if len(group) > 1]
    if not groups:
        return ()
    listing = "; ".join(listed(sorted(group)) for group in groups[:3])
    return (f"labels of {name!r} that look alike: {listing}; mend the table if they are one",)


def _choices(column: FileColumn) -> Understood:
    counts, none = Counter[str](), 0
    for chosen, times in zip(column.values, column.counts.tolist(), strict=True):
        counts.update(dict.fromkeys(chosen, times))
        none += 0 if chosen else times
    options = sorted(counts)
    entry: dict[str, Any] = {"name": column.name, "kind": "choices"}
    if not options:
        return Understood(column, None, "it is empty")
    n = len(column.places)
    why = ", ".join(f"{x} {percent(m / n)}" for x, m in counts.most_common(3))
    why += f"; none {percent(none / n)}" * bool(none)
    if len(options) > MAX_LABELS and counts.most_common(1)[0][1] < FREQUENT * n:
        return Understood(column, None, f"ids or free text: {len(options):,} different items")
    if len(options) > MAX_LABELS:
        kept = [x for x, m in counts.most_common(MAX_KEPT) if m >= FREQUENT * n]
        entry["other"] = rest = next((x for x in kept if x.casefold() == OTHER), OTHER)
        options = [*(x for x in kept if x != rest), rest]
        why = f"the {len(options) - 1} frequent ones of {len(counts):,} and {rest!r}"
    entry["options"] = options
    return Understood(column, entry, why, _spellings(column.name, counts))


def percent(share: float) -> str:
    return "<1 %" if 0 < share < 0.01 else f"{100 * share:.0f} %"
