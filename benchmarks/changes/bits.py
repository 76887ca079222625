"""Null windows of one view of independent bits, by a formula of its own: many windows, fast.

The statistic is that of the product for one view that covers the table. It is computed here for all
windows at once, without the product's code, so it also checks that code's level in the far tail.
"""

from __future__ import annotations

from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from benchmarks.changes.simulate import records, single_view, view_frequencies
from calmstream.estimators.changes.basis import contrasts
from calmstream.estimators.mechanisms.base import Floats

WINDOWS = 200_000
PAIR = (0, 1)
EARLIER = 100

Batch = NDArray[np.int64]


def size(dataset: str, name: str, n: str, against: str) -> dict[str, Any]:
    """Return the shares of p-values below each level of `benchmarks.changes.cells`."""
    domain, codes = records(dataset)
    groups = single_view(name, domain, "1", PAIR)
    mechanism = groups[0].build("1")
    frequencies = view_frequencies(domain, groups, codes)[0]
    generator = np.random.default_rng(crc32(f"bits{dataset}{name}{n}{against}".encode()))
    reports = int(n), int(n) * (1 if against == "previous" else EARLIER)
    one, other = (
        mechanism.draw_tallies(generator.multinomial(m, frequencies, size=WINDOWS), generator)
        for m in reports
    )
    p, q = float(mechanism.p), float(mechanism.q)  # type: ignore[attr-defined]
    found = statistics((one, other), reports, (p, q), contrasts(domain.shape(PAIR)))
    values = stats.chi2.sf(found, mechanism.cells - 1)
    return {"windows": WINDOWS, "values": {str(x): int((values < x).sum()) for x in LEVELS}}


def statistics(
    counts: tuple[Batch, Batch], reports: tuple[int, int], rates: tuple[float, float], basis: Floats
) -> Floats:
    """Return Q of every pair of windows: shape (windows,).

    Args:
        counts: supports of each side: shape (windows, cells).
        reports: of each side.
        rates: probability that a report supports its own cell, and another one.
        basis: contrasts of the cells.
    """
    p, q = rates
    tables = [(c / n - q) / (p - q) for c, n in zip(counts, reports, strict=True)]
    pooled = ((counts[0] + counts[1]) / sum(reports) - q) / (p - q)
    supported = q + (p - q) * pooled
    spread = -pooled[:, :, None] * pooled[:, None, :]
    cells = np.arange(pooled.shape[1])
    spread[:, cells, cells] = supported * (1.0 - supported) / (p - q) ** 2
    inner = np.einsum("ca,tcd,db->tab", basis, spread, basis, optimize=True)
    inner *= 1.0 / reports[0] + 1.0 / reports[1]
    moved = (tables[0] - tables[1]) @ basis
    solved = np.linalg.solve(inner, moved[..., None])[..., 0]
    return np.asarray((moved * solved).sum(axis=1))


LEVELS = (0.05, 0.01, 0.001, 0.0001)
