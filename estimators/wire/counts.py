"""Kept counts: the counters of a final window, from which any table can be computed later.

docs/asking-later.md has the format. Like a final, the counters are a function of the log.
"""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass

import numpy as np
import orjson

from calmstream.common.errors import ForeignRecord
from calmstream.estimators.arrays import Counts
from calmstream.estimators.plan import Plan
from calmstream.estimators.tally import MOST_COUNT, Tally
from calmstream.estimators.wire import fields
from calmstream.estimators.wire.snapshot import Revision

VERSION = "1.1"
_LEVEL = 6
_WORD = 8
_KEY = re.compile(rb"(\d{1,9})/(\d{4,6})")


@dataclass(frozen=True, slots=True)
class CountsHeader:
    """What the counters of a record belong to; ``suspicious``: those of all groups look forged."""

    window: int
    group: int
    revision: Revision
    suspicious: bool


@dataclass(frozen=True, slots=True)
class GroupCounts:
    """The counters of one group in one final window, and of all windows through this one."""

    window: int
    group: int
    revision: Revision
    tally: Tally
    total: Tally
    suspicious: bool = False


def counts_key(window: int, group: int) -> bytes:
    return f"{window}/{group:04d}".encode()


def read_record(plan: Plan, key: bytes, value: bytes | None) -> CountsHeader:
    """Return what a record of the counts topic belongs to; its counters stay unread."""
    place = parse_key(key)
    if value is None:
        # Nobody deletes counts, except with their topic.
        raise ForeignRecord("the counts topic holds a deletion; who else writes to it?")
    header = decode_header(plan, value)
    if (header.window, header.group) != place:
        raise ForeignRecord(f"counts of window {header.window} under another key")
    return header


def parse_key(key: bytes) -> tuple[int, int]:
    """Return window and group."""
    found = fields.match_key(_KEY, key, "counts")
    return int(found[1]), int(found[2])


def encode_counts(plan: Plan, counts: GroupCounts) -> bytes:
    header = {
        "v": VERSION,
        "plan": plan.digest,
        **{name: getattr(counts, name) for name in CountsHeader.__slots__},
    }
    both = (counts.tally, counts.total)
    values = np.concatenate([part.ravel() for t in both for part in (t.n, t.counts)])
    used = -(-int(values.max()).bit_length() // 8)
    planes = values.astype("<i8").view(np.uint8).reshape(-1, _WORD)[:, :used].T
    return orjson.dumps(header) + b"\n" + zlib.compress(planes.tobytes(), _LEVEL)


def decode_header(plan: Plan, raw: bytes) -> CountsHeader:
    """Read the first line of a value; ForeignRecord if it is none of this plan."""
    body = fields.read_object(
        raw.partition(b"\n")[0], "counts record", plan=plan.digest, version=VERSION
    )
    fields.check_fields(
        body,
        "a counts record",
        {
            "window": fields.integer(0, plan.windows - 1),
            "group": fields.integer(0, len(plan.groups) - 1),
            "revision": fields.each(fields.offset_of(plan), plan.partitions),
            "suspicious": fields.flag,
        },
    )
    revision = tuple(body["revision"])
    return CountsHeader(body["window"], body["group"], revision, body["suspicious"])


def decode_counts(plan: Plan, raw: bytes) -> GroupCounts:
    header = decode_header(plan, raw)
    views, width = len(plan.groups[header.group].views), plan.mechanisms[header.group].width
    size = views * (1 + width)
    try:
        values = _counters(raw[raw.index(b"\n") + 1 :], 2 * size)
    except (ValueError, zlib.error) as error:
        raise ForeignRecord(
            f"the counts of window {header.window}, group {header.group} are damaged: {error}"
        ) from None
    tally, total = (
        Tally(part[:views], part[views:].reshape(views, width)) for part in values.reshape(2, size)
    )
    return GroupCounts(
        header.window, header.group, header.revision, tally, total, header.suspicious
    )


def _counters(compressed: bytes, size: int) -> Counts:
    """Return the counters, shape (size,); ValueError or zlib.error if they are not so many."""
    unpacking = zlib.decompressobj()
    planes = unpacking.decompress(compressed, size * _WORD + 1)
    if not unpacking.eof or unpacking.unused_data or len(planes) % size:
        raise ValueError(f"expected {size} counters")
    used = len(planes) // size
    words = np.zeros((size, _WORD), np.uint8)
    words[:, :used] = np.frombuffer(planes, np.uint8).reshape(used, size).T
    values: Counts = words.view("<i8").ravel().astype(np.int64)
    if (values < 0).any() or (values > MOST_COUNT).any():
        raise ValueError("a counter is negative or too large")
    return values
