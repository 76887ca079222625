"""Batches of GRR reports written and read by hand, as docs/wire-formats.md says.

Nothing here is the product's: senders of forged batches and independent recounts use it.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

HEAD = struct.Struct("<BB16sHIH")
MAX_BYTES = 1 << 20
KEY_BYTES = 16


class Read(NamedTuple):
    # why it is rejected, empty if it is not; the cells are those of a valid batch only
    problem: str
    period: int = 0
    cells: tuple[int, ...] = ()


def forged(
    digest: str,
    cells: list[int],
    *,
    group: int = 0,
    period: int = 0,
    n: int | None = None,
    version: int = 1,
    width: int = 1,
) -> bytes:
    """Return a batch of a group with one view; each cell takes ``width`` bytes."""
    stated = len(cells) if n is None else n
    head = HEAD.pack(1, version, bytes.fromhex(digest)[:16], group, period, stated)
    return head + b"".join(cell.to_bytes(width, "little") for cell in cells)


def read(digest: str, group: int, bound: int, key: bytes | None, value: bytes | None) -> Read:
    """Read a record that is no tick, of a group with one view; the checks have their order."""
    if value is None or value[:1] != b"\x01" or len(value) > MAX_BYTES:
        return Read("oversized" if len(value or b"") > MAX_BYTES else "undecodable")
    if value[1:2] not in {b"", b"\x01"}:
        return Read("unknown_version")
    if len(value) < HEAD.size:
        return Read("malformed")
    _, _, stated, of_group, period, n = HEAD.unpack_from(value)
    width = next(w for w in (1, 2, 4, 8) if bound <= 256**w)
    cells = tuple(
        int.from_bytes(value[at : at + width], "little")
        for at in range(HEAD.size, len(value), width)
    )
    checks = {
        "unknown_plan": stated == bytes.fromhex(digest)[:16],
        "bad_batch_id": key is not None and len(key) == KEY_BYTES,
        "wrong_group": of_group == group,
        "out_of_range": n > 0,
        "malformed": len(value) == HEAD.size + n * width,
    }
    problem = next((reason for reason, holds in checks.items() if not holds), "")
    if not problem and max(cells) >= bound:
        problem = "out_of_range"
    return Read(problem, period, () if problem else cells)
