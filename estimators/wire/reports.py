"""Decoded reports, and what a device's report and a batch share: limits and checks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from calmstream.common.errors import Reason, Rejection
from calmstream.estimators.mechanisms.base import Reports

BATCH_ID_BYTES = 16
MAX_BATCH_BYTES = 1 << 20
MAX_BATCH_REPORTS = (1 << 16) - 1
RESERVED_BYTES = 4096 + 512
"""Of the size of a record: what Kafka adds to a value, and the head of a report."""


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Reports of one group and one window, 1 to 65,535, decoded and range-checked.

    ``view``: of each report, shape (n,); None where the group has one.
    """

    period: int
    n: int
    view: NDArray[np.int64] | None
    columns: Reports


def refuse(reason: Reason, detail: str) -> NoReturn:
    raise Rejection(reason, detail)


def check_size(value: bytes) -> None:
    if len(value) > MAX_BATCH_BYTES:
        refuse(Reason.OVERSIZED, f"{len(value)} bytes, at most {MAX_BATCH_BYTES}")


def check_batch_id(key: bytes | None) -> None:
    if key is None or len(key) != BATCH_ID_BYTES:
        refuse(Reason.BAD_BATCH_ID, f"the key must be a batch id of {BATCH_ID_BYTES} bytes")


def check_group(expected: int, stated: int) -> None:
    if stated != expected:
        refuse(Reason.WRONG_GROUP, f"expected group {expected}, got {stated}")
