"""Texts as numbers, and the edges of bins that are learnt from numbers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Decimal

import numpy as np
from numpy.typing import NDArray

MAX_BINS = 8  # most bins of a number whose edges are learnt

_STYLES = (
    ("", re.compile(r"[-+]?(\d+(\.\d*)?|\.\d+)([eE][-+]?\d{1,3})?", re.ASCII), "", "."),
    ("1,234.5", re.compile(r"[-+]?\d{1,3}(,\d{3})+(\.\d+)?|[-+]?\d+(\.\d+)?", re.ASCII), ",", "."),
    ("1.234,5", re.compile(r"[-+]?(\d{1,3}(\.\d{3})+|\d+)(,\d+)?", re.ASCII), ".", ","),
    ("1 234,5", re.compile(r"[-+]?(\d{1,3}( \d{3})+|\d+)([.,]\d+)?", re.ASCII), " ", ","),
)
"""Ways to write numbers: how one looks, its form, what separates thousands, and the point."""

_BOUND = 1e17


def parsed(texts: Sequence[str]) -> tuple[NDArray[np.float64], str] | None:
    """Return the numbers of texts, and how they are written; None if not all in one way."""
    parts = [_parts(text.strip().replace("\u00a0", " ")) for text in texts]
    if len({(before, after) for before, _, after in parts}) != 1:
        return None
    bare = [number for _, number, _ in parts]
    for style, form, thousands, point in _STYLES:
        if all(map(form.fullmatch, bare)):
            plain = [text.replace(thousands, "") if thousands else text for text in bare]
            values = np.array([float(text.replace(point, ".")) for text in plain], np.float64)
            values = np.clip(values, -1e308, 1e308)  # also infinite ones
            affix = parts[0][0] + parts[0][2]
            how = " ".join(filter(None, (f"written as {style}" if style else "", affix)))
            return values, how
    return None


def _parts(text: str) -> tuple[str, str, str]:
    """Return the currency before a number, the number, and the currency or percent after it."""
    before = text[:1] if text.startswith(("$", "€", "£", "¥")) else ""
    after = text[-1:] if text.endswith(("%", "€", "£")) and len(text) > len(before) else ""
    return before, text[len(before) : len(text) - len(after)].strip(), after


def edges(values: NDArray[np.float64], counts: NDArray[np.int64]) -> list[str]:
    """Return rising edges of bins with about as many records each; none if too close or too long.

    A value that fills a bin has its own. Rounding moves no edge by more than a tenth of a bin.
    """
    order = np.argsort(values)
    values, counts = np.clip(values[order], -_BOUND, _BOUND), counts[order]
    frequent = np.flatnonzero(counts * MAX_BINS >= counts.sum())
    others = np.cumsum(np.where(counts * MAX_BINS >= counts.sum(), 0, counts))
    bins = MAX_BINS - len(frequent)
    starts = np.searchsorted(others, others[-1] * np.arange(1, bins) / bins, side="right")
    places = np.concatenate([[0, len(values) - 1], starts, frequent, frequent + 1])
    cuts = np.unique(values[places[places < len(values)]])
    gaps = np.diff(cuts)
    near = np.minimum(np.append(gaps, np.inf), np.insert(gaps, 0, np.inf)) / 10
    modes = [*[ROUND_FLOOR] * (len(cuts) - 1), ROUND_CEILING]
    found = [_text(_rounded(*cut)) for cut in zip(cuts.tolist(), near.tolist(), modes, strict=True)]
    return found if len(set(found)) == len(found) and all(map(_is_short, found)) else []


def _rounded(value: float, most: float, mode: str) -> Decimal:
    exact = Decimal(repr(value))
    for digits in range(-17, 19):
        rounded = exact.quantize(Decimal(1).scaleb(-digits), mode)
        if abs(rounded - exact) <= Decimal(repr(most)):
            return rounded
    return rounded


def _text(value: Decimal) -> str:
    """Return plain digits without zeros at the end of the decimal places."""
    text = format(value, "f")
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if text in ("-0", "") else text


def short(value: float, most: float) -> str:
    return _text(_rounded(value, most, ROUND_HALF_EVEN))


def _is_short(edge: str) -> bool:
    whole, _, digits = edge.lstrip("-").partition(".")
    return len(whole) <= 18 and len(digits) <= 18
