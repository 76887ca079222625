"""Numbers that the command line declares: no edge depends on the table."""

from __future__ import annotations

import argparse
import re
from typing import Any

import numpy as np

from calmstream.common.errors import InvalidInput
from calmstream.estimators.kinds import MAX_EDGES
from calmstream.tables.numbers import short

_NUMBER = r"[-+]?[0-9]{1,17}(?:\.[0-9]{1,9})?(?:[eE][-+]?[0-9]{1,2})?"
_FORM = re.compile(
    rf"(.+)=({_NUMBER}):({_NUMBER}):(lin|log):([0-9]{{1,9}})(?::([^:]*))?(?::(bin|grid))?"
)
_MOVE = 0.01  # edges have the fewest digits that move none by more than this share of its bin


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
    found: dict[str, dict[str, Any]] = {}
    for text in args.number:
        entry = number_entry(text)
        if entry["name"] in found:
            raise InvalidInput(f"--number {entry['name']}: the column is declared twice")
        found[entry["name"]] = entry
    return found


def number_entry(text: str) -> dict[str, Any]:
    """Return the entry of a number from ``A=LOWEST:HIGHEST:SCALE:LEVELS[:UNIT[:ROUNDING]]``."""
    match = _FORM.fullmatch(text)
    if match is None:
        raise InvalidInput(
            f"--number {text!r}: expected A=LOWEST:HIGHEST:lin|log:LEVELS[:UNIT[:bin|grid]]"
        )
    name, *ends, scale, levels, unit, rounding = match.groups()
    low, high = map(float, ends)
    if not low < high or (scale == "log" and low <= 0) or not 2 <= int(levels) < MAX_EDGES:
        raise InvalidInput(
            f"--number {text!r}: the lowest must be below the highest, above 0 with log, and the "
            f"levels 2 to {MAX_EDGES - 1:,}"
        )
    count = int(levels) + (rounding != "grid")
    exact = np.linspace(low, high, count) if scale == "lin" else np.geomspace(low, high, count)
    gaps = np.diff(exact)
    most = [0.0, *(_MOVE * np.minimum(gaps[:-1], gaps[1:])).tolist(), 0.0]
    exact[0], exact[-1] = low, high
    edges = [short(*edge) for edge in zip(exact.tolist(), most, strict=True)]
    return {
        "name": name, "kind": "number", "edges": edges, "unit": unit or "",
        "rounding": rounding or "bin",
    }  # fmt: skip
