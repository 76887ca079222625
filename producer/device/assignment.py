"""The view (hence the group) and the slot of a device, fixed by a keyed hash.

A device draws a secret of 128 bits once, keeps it, and never sends it. HMAC-SHA256 under that
secret, over a purpose and the plan's lineage, gives a word of 64 bits that nobody else can predict
and that never changes: the group stays the same in all windows and in all plans of one lineage.
Each purpose has its own hash, so a device's slot says nothing about its group.

A word w is mapped to [0, total) as floor(w · total / 2^64), exactly, in integers. A view then holds
either the floor or the ceiling of its exact share of the 2^64 words. Its probability is off by less
than 2^-64, which no number of devices can show.
"""

from __future__ import annotations

import hmac
import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from estimators.plan import Plan

SECRET_BYTES = 16
WORD_BITS = 64

GROUP = b"group"
SLOT = b"slot"

Words = NDArray[np.uint64]


def new_secret() -> bytes:
    """Return a new secret: 16 bytes from the operating system."""
    return os.urandom(SECRET_BYTES)


def _message(lineage: str, purpose: bytes) -> bytes:
    return b"calmstream/1/" + purpose + b"/" + bytes.fromhex(lineage)


def keyed_word(secret: bytes, lineage: str, purpose: bytes) -> int:
    """Return the device's word for one purpose: an integer in [0, 2^64).

    Args:
        secret: 16 bytes.
        lineage: 32 hex digits.
        purpose: ``GROUP`` or ``SLOT``.
    """
    return int.from_bytes(hmac.digest(secret, _message(lineage, purpose), "sha256")[:8], "big")


def keyed_words(secrets: NDArray[np.uint8], lineage: str, purpose: bytes) -> Words:
    """Return :func:`keyed_word` of many devices: shape (n,), uint64. O(n).

    Args:
        secrets: shape (n, 16), one device a row.
        lineage: 32 hex digits.
        purpose: ``GROUP`` or ``SLOT``.
    """
    raw, message = np.ascontiguousarray(secrets).tobytes(), _message(lineage, purpose)
    digests = b"".join(
        hmac.digest(raw[at : at + SECRET_BYTES], message, "sha256")
        for at in range(0, len(raw), SECRET_BYTES)
    )
    return np.frombuffer(digests, ">u8").reshape(-1, 4)[:, 0].astype(np.uint64)


def thresholds(cumulative: Iterable[int]) -> Words:
    """Return the smallest word beyond each part but the last: shape (parts - 1,), ascending.

    Args:
        cumulative: running sums of positive integer shares; their total is below 2^63.
    """
    bounds = [int(bound) for bound in cumulative]
    # floor(w · total / 2^64) >= bound holds exactly from w = ceil(bound · 2^64 / total) on.
    return np.array([-(-(b << WORD_BITS) // bounds[-1]) for b in bounds[:-1]], np.uint64)


@dataclass(frozen=True, slots=True)
class Place:
    """Group, view and slot of one device under a plan.

    Attributes:
        group: index into the plan's groups.
        view: index into that group's views.
        slot: under w-event the device reports in the windows W with W mod w = slot; else 0.
    """

    group: int
    view: int
    slot: int


@dataclass(frozen=True, slots=True, eq=False)
class Places:
    """Views and slots of many devices: :class:`Place` as columns.

    Attributes:
        flat: shape (n,), int64, index of the view among all views of the plan, group by group.
        slot: shape (n,), int64.
    """

    flat: NDArray[np.int64]
    slot: NDArray[np.int64]


def place(plan: Plan, secret: bytes) -> Place:
    """Return the place of one device, a fixed function of its secret and the plan."""
    word = keyed_word(secret, plan.lineage, GROUP)
    cumulative = plan.cumulative_shares
    flat = int(np.searchsorted(cumulative, word * int(cumulative[-1]) >> WORD_BITS, side="right"))
    group = group_of(plan, flat)
    w = plan.guarantee.windows
    slot = keyed_word(secret, plan.lineage, SLOT) * w >> WORD_BITS
    return Place(group, flat - int(plan.first_view[group]), slot)


def places(plan: Plan, secrets: NDArray[np.uint8]) -> Places:
    """Return :func:`place` of many devices at once.

    Args:
        plan: defines shares and guarantee.
        secrets: shape (n, 16), uint8.
    """
    words = keyed_words(secrets, plan.lineage, GROUP)
    flat = np.searchsorted(thresholds(plan.cumulative_shares), words, side="right")
    return Places(flat.astype(np.int64), _slots(plan, secrets))


def _slots(plan: Plan, secrets: NDArray[np.uint8]) -> NDArray[np.int64]:
    w = plan.guarantee.windows
    if w == 1:
        return np.zeros(len(secrets), np.int64)
    words = keyed_words(secrets, plan.lineage, SLOT)
    return np.searchsorted(thresholds(range(1, w + 1)), words, side="right").astype(np.int64)


def group_of(plan: Plan, flat: Any) -> Any:
    """Return the group of a flat view index; an array gives an array."""
    group = np.searchsorted(plan.first_view, flat, side="right") - 1
    return group if np.ndim(flat) else int(group)
