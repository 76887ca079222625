"""Encoding of perturbed reports as the body of a Kafka record."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from estimators.mechanisms.base import Reports
from estimators.plan import Plan
from estimators.wire.batch import Batch, encode_batch

HEAD_BYTES = 512
"""Upper bound of the fields of a batch other than its columns."""

FRAME_BYTES = 4096
"""Kept free for what Kafka adds to a record, so that its default size limit holds."""


def encode_reports(
    plan: Plan, group: int, period: int, view: NDArray[Any], columns: Reports
) -> bytes:
    """Return the body of a batch; ``view`` is left out where the group has a single view.

    The length of integer columns depends on the perturbed values (digits), that of bit columns on
    nothing but n; both are therefore as private as the reports themselves.

    Args:
        plan: the plan that the reports follow.
        group: their group.
        period: number of their window.
        view: shape (n,), view of each report within the group.
        columns: the mechanism's columns, each with first axis n.
    """
    stated = view if len(plan.groups[group].views) > 1 else None
    return encode_batch(plan, group, Batch(period, len(view), stated, columns))
