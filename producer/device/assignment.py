"""Assigns a group, a view and a slot to a device, by a keyed hash of the device's secret.

A word of 64 bits, HMAC-SHA256 with the secret over a purpose and the plan's lineage, is the same in
all plans of a lineage; each purpose has its own, so that a slot reveals nothing about a group. Word
w is mapped to [0, total) as floor(w · total / 2^64): the error of a probability is below 2^-64.
"""

from __future__ import annotations

import hmac
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from calmstream.estimators.plan import Plan

SECRET_BYTES = 16  # 128 bits, too many to guess
WORD_BITS = 64
GROUP = b"group"
SLOT = b"slot"  # both are purposes of a word


def new_secret() -> bytes:
    return os.urandom(SECRET_BYTES)


def parts(secrets: Iterable[bytes], lineage: str, purpose: bytes, total: int) -> list[int]:
    message = b"calmstream/1/" + purpose + b"/" + bytes.fromhex(lineage)
    return [
        int.from_bytes(hmac.digest(secret, message, "sha256")[:8], "big") * total >> WORD_BITS
        for secret in secrets
    ]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a device belongs."""

    group: int
    view: int  # within the group
    slot: int  # it may report in windows whose number modulo w is this; 0 under ``once``


def place(plan: Plan, secret: bytes) -> Place:
    flat, slot = places(plan, (secret,))
    group = int(group_of(plan, flat)[0])
    return Place(group, int(flat[0]) - int(plan.first_view[group]), int(slot[0]))


def places(plan: Plan, secrets: Sequence[bytes]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the views, counted over all groups, and the slots of n devices, both (n,) int64."""
    cumulative, w = plan.cumulative_shares, plan.guarantee.windows
    words = parts(secrets, plan.lineage, GROUP, int(cumulative[-1]))
    flat = np.searchsorted(cumulative, np.array(words, np.int64), side="right")
    slots = parts(secrets, plan.lineage, SLOT, w) if w > 1 else [0] * len(secrets)
    return flat.astype(np.int64), np.array(slots, np.int64)


def group_of(plan: Plan, flat: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the groups of views, from indices among all views."""
    return np.searchsorted(plan.first_view, flat, side="right") - 1
