"""Run the methods that randomise each attribute by itself, from a plan to snapshots.

All roles run on the in-process broker.
"""

from __future__ import annotations

import numpy as np
import pytest

from calmstream.estimators.domain import Attribute, Domain
from calmstream.estimators.wire.snapshot import Kind
from tests.support.plans import draft
from tests.support.tally import START
from tests.support.tally_bench import Stage

DEVICES = 3000
DOMAIN = Domain(
    (
        Attribute("colour", ("red", "green", "blue"), other=2),
        Attribute("size", ("s", "m", "l", "xl")),
        Attribute("flag", ("0", "1")),
    )
)
ASKED = [
    ("rr-joint", {}),
    ("rr-independent", {}),
    ("rr-ind-joint", {"tables": [["colour", "size"]]}),
    ("rr-hybrid", {}),
    ("rr-truncated", {}),
    ("rr-clusters", {"clusters": [["colour", "flag"]]}),
    ("lopub", {}),
]


def dependent_records(n: int, seed: int) -> np.ndarray:
    """Return records in which colour and flag depend on each other, and size on neither."""
    rng = np.random.default_rng(seed)
    colour = rng.choice(3, n, p=[0.5, 0.3, 0.2])
    size = rng.choice(4, n, p=[0.4, 0.3, 0.2, 0.1])
    flag = (rng.random(n) < np.array([0.1, 0.5, 0.9])[colour]).astype(int)
    return np.stack([colour, size, flag], axis=1).astype(np.uint16)


@pytest.mark.parametrize(("method", "parameters"), ASKED)
def test_reports_of_whole_records_become_snapshots(
    method: str, parameters: dict[str, object]
) -> None:
    plan, _ = draft(
        DOMAIN, "12", DEVICES, 2, method, parameters, start=START, window=10, windows=2,
        partitions=2, grace=3, skew=2,
    )  # fmt: skip
    stage = Stage(plan)
    codes = dependent_records(DEVICES, 21)
    summary = stage.ask(codes, 22)
    assert (summary.sent, summary.failed, summary.error) == (DEVICES, 0, None)
    snapshots = stage.finish(Kind.FINAL)
    assert [(s.window, s.manifest.reports) for s in snapshots] == [(0, DEVICES), (1, 0)]
    first = snapshots[0]
    assert first.manifest.method == method
    assert first.manifest.processing
    for attributes in plan.marginals:
        names = [DOMAIN.names[i] for i in attributes]
        record = first.record(*names)
        exact = DOMAIN.histogram(codes, attributes) / DEVICES
        if method == "rr-independent" and attributes == (0, 2):
            # The method ignores dependence, as documented.
            assert "maxent" in record.flags
            assert np.abs(np.array(record.table) - exact).max() > 0.1
        else:
            # A product ignores the small dependence that any 3,000 records have.
            slack = 0.02 if "maxent" in record.flags else 0.0
            allowed = 6 * np.array(record.stderr) + slack
            assert (np.abs(np.array(record.table) - exact) < allowed).all(), (method, names)
