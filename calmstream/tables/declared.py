"""Numbers that the command line declares, with edges from public bounds.

They replace what would be learnt from the table: no edge depends on it.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from decimal import Decimal, localcontext
from typing import Any

from calmstream.common.errors import InvalidInput
from calmstream.estimators.kinds import MAX_EDGES

SCALES = ("lin", "log")
MAX_LEVELS = MAX_EDGES - 1
"""Maximum number of levels of a declared number: bins have one edge more."""

MAX_SHIFT = Decimal("0.01")
"""Edges are rounded to the fewest digits that move none by more than this share of its bin."""

_FORM = "LOWEST:HIGHEST:lin|log:LEVELS[:UNIT[:bin|grid]]"
_BOUND = Decimal(10) ** 17


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--number",
        action="append",
        default=[],
        metavar="A=LOWEST:HIGHEST:SCALE:LEVELS:UNIT",
        help="column A is a number: LEVELS bins, equal (SCALE lin) or in equal ratios (log), as in "
        "'latency=1:10000:log:32:ms'; values outside go to the nearest bin; with :grid after the "
        "unit, a grid; repeatable",
    )


def declared(args: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """Return the entries that the option declares, by their column."""
    found: dict[str, dict[str, Any]] = {}
    for text in args.number:
        name, equals, rest = text.partition("=")
        if not (name and equals and rest):
            raise InvalidInput(f"--number {text!r}: expected A={_FORM}")
        if name in found:
            raise InvalidInput(f"--number {name}: the column is declared twice")
        found[name] = {"name": name, "kind": "number", **number_entry(name, rest)}
    return found


def number_entry(name: str, text: str) -> dict[str, Any]:
    """Return the fields of a number from ``LOWEST:HIGHEST:SCALE:LEVELS[:UNIT[:ROUNDING]]``."""
    where = f"--number {name}"
    parts = text.split(":")
    if not 4 <= len(parts) <= 6:
        raise InvalidInput(f"{where}: expected {_FORM}, got {text!r}")
    low, high = (_decimal(where, part) for part in parts[:2])
    scale, levels = parts[2], _levels(where, parts[3])
    unit, rounding = [*parts[4:], *("", "bin")[len(parts) - 4 :]]
    if scale not in SCALES:
        raise InvalidInput(f"{where}: unknown scale {scale!r}; there are lin and log")
    if not low < high:
        raise InvalidInput(
            f"{where}: edges must rise, but the lowest, {parts[0]}, is not below the highest, "
            f"{parts[1]}"
        )
    if scale == "log" and low <= 0:
        raise InvalidInput(f"{where}: a log scale needs a lowest value above 0, got {parts[0]}")
    steps = levels - 1 if rounding == "grid" else levels
    edges = _edges(where, low, high, steps, log=scale == "log")
    return {"edges": edges, "unit": unit, "rounding": rounding}


def _levels(where: str, text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= 18):
        raise InvalidInput(f"{where}: levels {text!r} are no whole number")
    if not 2 <= int(text) <= MAX_LEVELS:
        raise InvalidInput(f"{where}: {int(text):,} levels; expected 2 to {MAX_LEVELS:,}")
    return int(text)


def _decimal(where: str, text: str) -> Decimal:
    try:
        number = Decimal(text)
    except ArithmeticError:
        number = Decimal("NaN")
    if not number.is_finite() or abs(number) >= _BOUND:
        raise InvalidInput(f"{where}: {text!r} is not a number below 10^17")
    return number


def _edges(where: str, low: Decimal, high: Decimal, steps: int, *, log: bool) -> list[str]:
    """Return rising edges from low to high, as plans write them."""
    with localcontext(prec=60):
        exact = list(_exact(low, high, steps, log=log))
        for places in range(19):
            rounded = [_rounded(x, places, log=log) for x in exact]
            rounded[0], rounded[-1] = low, high
            if _close(exact, rounded):
                return list(map(_text, rounded))
    raise InvalidInput(f"{where}: its edges need more than 18 decimal places")


def _exact(low: Decimal, high: Decimal, steps: int, *, log: bool) -> Iterable[Decimal]:
    if not log:
        return (low + (high - low) * i / steps for i in range(steps + 1))
    ratio = (high / low).ln()
    return (low * (ratio * i / steps).exp() for i in range(steps + 1))


def _rounded(value: Decimal, digits: int, *, log: bool) -> Decimal:
    """Round to decimal places, or on a log scale to significant digits."""
    place = value.adjusted() - digits if log else -digits
    return value.quantize(Decimal(1).scaleb(place))


def _close(exact: list[Decimal], rounded: list[Decimal]) -> bool:
    """Return whether no edge moved by more than the allowed share of the bin before it."""
    for i in range(1, len(exact)):
        width = exact[i] - exact[i - 1]
        if not rounded[i - 1] < rounded[i] or abs(rounded[i] - exact[i]) > MAX_SHIFT * width:
            return False
    return True


def _text(value: Decimal) -> str:
    """Return plain digits without zeros at the end of the decimal places."""
    text = format(value, "f")
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if text == "-0" else text
