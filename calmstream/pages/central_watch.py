"""Releases of a central plan for people: counts with error bars, and their privacy loss."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import Any

from calmstream.consumer.central.subscribe import CentralRelease
from calmstream.estimators.marginal import Z95

MAX_ROWS = 20  # number of tuples of one size that are shown, the largest first


def lines(release: CentralRelease, marginal: Sequence[str] | None = None) -> Iterator[str]:
    m = release.manifest
    start, end = (datetime.fromtimestamp(m[key], UTC) for key in ("start", "end"))
    yield (
        f"{m['name']} · window {m['window']} · {start:%Y-%m-%d %H:%M:%S} to "
        f"{end:%Y-%m-%d %H:%M:%S} UTC · central model, dp-marginals"
    )
    yield (
        f"epsilon {m['epsilon']}, delta {m['delta']} over all {m['releases']:,} releases; "
        f"spent so far: {m['spent']}"
    )
    if m.get("sample", "1") != "1":
        yield f"a sample: {m['sample']} of the users count"
    for k in m["levels"]:
        level = release.levels[k]
        found = sorted(_tuples(level, marginal), key=lambda item: -item[1])
        if marginal is not None and not found:
            continue
        margin = Z95 * level["stderr"]
        spurious = level["spurious_bound"]
        yield (
            f"{k}-tuples: {len(found):,} with counts above {level['threshold']}; at most "
            f"{level['limit']} of a user counted; at most {spurious:.2g} expected to be spurious"
        )
        if level.get("extended_above") is not None:
            yield f"  made from {k - 1}-tuples with counts above {level['extended_above']} alone"
        shown = found if marginal is not None else list(islice(found, MAX_ROWS))
        for text, count in shown:
            yield f"  {count:>12,} ± {margin:,.0f}  {text}"
        if len(shown) < len(found):
            yield f"  and {len(found) - len(shown):,} smaller ones"
    yield ""


def _tuples(level: dict[str, Any], marginal: Sequence[str] | None) -> Iterator[tuple[str, int]]:
    for table in level["tables"]:
        names = table["attributes"]
        if marginal is not None and set(marginal) != set(names):
            continue
        for *values, count in zip(*table["values"], table["counts"], strict=True):
            pairs = (f"{n}={v}" for n, v in zip(names, values, strict=True))
            yield ", ".join(pairs), count
