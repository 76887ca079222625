"""What a frame of the spool holds: accepted reports, sealed batches, and what became of them.

Integers are little-endian. A payload is a sequence of entries; the first byte is its kind.

=====  ========================================================================================
``H``  ``u16`` length, canonical JSON: the version, the plan's digest and the window. Once, first.
``R``  16 bytes id, ``u16`` key, ``u16`` group, and the row as :class:`RowCodec` packs it. Reports
       are numbered in the order of the file, from 0.
``O``  ``u32`` n, n numbers (``u32``) of reports that have left; the batches follow in the frame.
``S``  16 bytes batch id, ``u16`` group, ``u32`` reports, ``u32`` length, the record's body.
``A``  16 bytes batch id: acknowledged by the broker.
``L``  16 bytes batch id: lost, because its window ended first.
=====  ========================================================================================

Nothing of the sender is written but the number of the application key, 0 for none.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import orjson

from calmstream.estimators.plan import Plan
from calmstream.producer.gateway.encoding import EncodedBatch, Row

VERSION = "spool-1"
_HEADER = struct.Struct("<cH")
_REPORT = struct.Struct("<c16sHH")
_LEFT = struct.Struct("<cI")
_SEALED = struct.Struct("<c16sHII")
_SETTLED = struct.Struct("<c16s")


@dataclass(frozen=True, slots=True)
class SpoolEntry:
    """A report that was read and checked: an ``R`` entry of its window's file."""

    report_id: bytes
    key: int
    group: int
    period: int
    row: Row


Stored = SpoolEntry | EncodedBatch | list[int] | bytes
"""An entry: an ``S`` one is a batch without its bytes, an ``O`` one a list, and the bytes are the
batch id of an ``A`` or ``L`` one."""


class RowCodec:
    """Packs rows of one plan into a fixed number of bytes per group."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._forms = [
            struct.Struct(
                "<I"
                + "".join(
                    f"{-(-column.bound // 8)}s" if column.kind == "bits" else "Q"
                    for column in mechanism.columns
                )
            )
            for mechanism in plan.mechanisms
        ]

    def unused(self, group: int) -> int:
        """Return how much shorter a row of this group is than the longest of the plan."""
        return max(form.size for form in self._forms) - self._forms[group].size

    def pack(self, group: int, row: Row) -> bytes:
        return self._forms[group].pack(row[0], *row[1])

    def unpack(self, group: int, payload: bytes, at: int) -> tuple[Row, int]:
        form = self._forms[group]
        view, *values = form.unpack_from(payload, at)
        return (view, tuple(values)), at + form.size


def header(digest: str, period: int) -> bytes:
    text = orjson.dumps({"v": VERSION, "plan": digest, "period": period})
    return _HEADER.pack(b"H", len(text)) + text


def reports(codec: RowCodec, entries: Iterable[SpoolEntry]) -> bytes:
    return b"".join(
        _REPORT.pack(b"R", e.report_id, e.key, e.group) + codec.pack(e.group, e.row)
        for e in entries
    )


def sealed(numbers: Sequence[int], batches: Iterable[EncodedBatch]) -> bytes:
    parts = [_LEFT.pack(b"O", len(numbers)), np.array(sorted(numbers), "<u4").tobytes()]
    for batch in batches:
        head = _SEALED.pack(b"S", batch.batch_id, batch.group, batch.n, len(batch.value))
        parts += [head, batch.value]
    return b"".join(parts)


def settled(batch_id: bytes, *, acknowledged: bool) -> bytes:
    return _SETTLED.pack(b"A" if acknowledged else b"L", batch_id)


def read_header(payload: bytes) -> tuple[object, int]:
    """Return the header's JSON and the offset behind it; (None, 0) where there is none."""
    if payload[:1] != b"H":
        return None, 0
    _, size = _HEADER.unpack_from(payload)
    end = _HEADER.size + size
    return orjson.loads(payload[_HEADER.size : end]), end


def read_entries(
    codec: RowCodec, payload: bytes, at: int, *, period: int, offset: int
) -> Iterator[Stored]:
    """Yield the entries of a payload from ``at`` on; ``offset`` is the payload's in the file."""
    while at < len(payload):
        kind = payload[at : at + 1]
        if kind == b"R":
            _, report_id, key, group = _REPORT.unpack_from(payload, at)
            row, at = codec.unpack(group, payload, at + _REPORT.size)
            yield SpoolEntry(report_id, key, group, period, row)
        elif kind == b"O":
            _, n = _LEFT.unpack_from(payload, at)
            at += _LEFT.size
            yield np.frombuffer(payload, "<u4", n, at).tolist()
            at += 4 * n
        elif kind == b"S":
            _, batch_id, group, n, length = _SEALED.unpack_from(payload, at)
            at += _SEALED.size
            check = zlib.crc32(memoryview(payload)[at : at + length])
            yield EncodedBatch(
                codec.plan,
                group,
                period,
                n,
                batch_id,
                offset=offset + at,
                length=length,
                check=check,
            )
            at += length
        elif kind in {b"A", b"L"}:
            _, batch_id = _SETTLED.unpack_from(payload, at)
            at += _SETTLED.size
            yield batch_id
        else:
            raise ValueError(f"unknown kind of entry {kind!r}")
