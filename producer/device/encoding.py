"""Encoding of perturbed reports as the body of a Kafka record."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from calmstream.estimators.mechanisms.base import Reports
from calmstream.estimators.plan import Plan
from calmstream.estimators.wire import packed
from calmstream.estimators.wire.batch import Batch, encode_batch

HEAD_BYTES = 512
"""Upper bound on the encoded size of the fields of a batch other than its columns."""

FRAME_BYTES = 4096
"""Reserve for the bytes that Kafka adds to a record, so that it fits Kafka's default size limit."""


def encode_reports(
    plan: Plan, group: int, period: int, view: NDArray[Any], columns: Reports
) -> bytes:
    """Return the body of a batch of n reports; views are left out if the group has a single one.

    The encoded length of integers depends on the perturbed values (their number of digits); the
    length of bits depends on n only. So the length reveals nothing beyond the reports themselves.
    ``view`` has each report's view within the group, shape (n,); each column has a first axis n.
    """
    return encode_batch(plan, group, _batch(plan, group, period, view, columns))


def packed_reports(
    plan: Plan, group: int, period: int, view: NDArray[Any], columns: Reports
) -> bytes:
    """Return what :func:`encode_reports` returns, in the packed format.

    The length depends on the number of reports only. The plan must allow packed batches.
    """
    return packed.encode(plan, group, _batch(plan, group, period, view, columns))


def _batch(plan: Plan, group: int, period: int, view: NDArray[Any], columns: Reports) -> Batch:
    stated = view if len(plan.groups[group].views) > 1 else None
    return Batch(period, len(view), stated, columns)
