"""The groups, views and slots of many devices at once: `device.assignment`, on arrays."""

from __future__ import annotations

import hmac
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calmstream.estimators.plan import Plan
from calmstream.producer.device.assignment import (
    GROUP,
    SECRET_BYTES,
    SLOT,
    WORD_BITS,
    message,
)

Words = NDArray[np.uint64]


@dataclass(frozen=True, slots=True, eq=False)
class Places:
    """Views and slots of n devices; see `Place`. Both have the shape (n,), int64.

    ``flat`` is the index of a device's view among all views of the plan, counted group by group.
    """

    flat: NDArray[np.int64]
    slot: NDArray[np.int64]


def places(plan: Plan, secrets: NDArray[np.uint8]) -> Places:
    """Return `place` of many devices, from secrets of shape (n, 16), uint8."""
    words = keyed_words(secrets, plan.lineage, GROUP)
    flat = np.searchsorted(thresholds(plan.cumulative_shares), words, side="right")
    return Places(flat.astype(np.int64), _slots(plan, secrets))


def _slots(plan: Plan, secrets: NDArray[np.uint8]) -> NDArray[np.int64]:
    w = plan.guarantee.windows
    if w == 1:
        return np.zeros(len(secrets), np.int64)
    words = keyed_words(secrets, plan.lineage, SLOT)
    return np.searchsorted(thresholds(range(1, w + 1)), words, side="right").astype(np.int64)


def keyed_words(secrets: NDArray[np.uint8], lineage: str, purpose: bytes) -> Words:
    """Return `keyed_word` of many devices, (n,) uint64, from secrets of shape (n, 16)."""
    raw, asked = np.ascontiguousarray(secrets).tobytes(), message(lineage, purpose)
    digests = b"".join(
        hmac.digest(raw[at : at + SECRET_BYTES], asked, "sha256")
        for at in range(0, len(raw), SECRET_BYTES)
    )
    return np.frombuffer(digests, ">u8").reshape(-1, 4)[:, 0].astype(np.uint64)


def thresholds(cumulative: Iterable[int]) -> Words:
    """Return, for each part except the last, the smallest word that lies above the part.

    ``cumulative`` has the running sums of the parts' positive shares; the last is below 2^63.
    """
    bounds = [int(bound) for bound in cumulative]
    # floor(w · total / 2^64) >= bound holds exactly from w = ceil(bound · 2^64 / total) on.
    return np.array([-(-(b << WORD_BITS) // bounds[-1]) for b in bounds[:-1]], np.uint64)
