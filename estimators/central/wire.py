"""Batches of raw records (docs/wire-formats.md): how senders write them, and readers read each one.

One user's record never has an effect on another's: each entry is converted by itself, at the sender
and again at readers. Only the frame, which no user writes, can make a whole batch unreadable.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Sequence

import orjson

from calmstream.estimators.central.plan import CentralPlan

VERSION = "central-1.0"
BATCH_ID_BYTES = 16
MAX_BATCH_BYTES = 1 << 20
MAX_BATCH_RECORDS = 1 << 14
MAX_TEXT = 256  # characters of a value, the rest is cut; a digest replaces longer user ids
MAX_VALUE_BYTES = 4 * MAX_TEXT  # maximum number of bytes of a value in UTF-8
TICK = b'{"tick":1,"v":"central-1.0"}'  # no records: its append time advances an idle log

_SURROGATE = re.compile("[\ud800-\udfff]")
_MAX_DIGITS = 18  # int() refuses very long numbers: one would make its batch unreadable


def value_text(value: object) -> str:
    """Return the first 256 characters of a value, which UTF-8 can hold; "" if it is not text."""
    if not isinstance(value, str):
        return ""
    text = value[:MAX_TEXT]
    return text if text.isascii() else _SURROGATE.sub("\ufffd", text)


def user_id(user: object) -> str:
    """Return a user's id; "" if it is not text."""
    if not isinstance(user, str):
        return ""
    if len(user) <= MAX_TEXT and (user.isascii() or not _SURROGATE.search(user)):
        return user
    # Not cut: distinct ids stay distinct, so that no user can displace another's record.
    return "sha256:" + hashlib.sha256(user.encode("utf-8", "surrogatepass")).hexdigest()


def encode_batches(
    plan: CentralPlan,
    users: Sequence[object],
    columns: Sequence[Sequence[object]],
    batch_size: int,
) -> Iterator[tuple[int, bytes]]:
    """Yield batches of all records that have a user, in order: number of records, and body."""
    for start in range(0, len(users), batch_size):
        rows = slice(start, start + batch_size)
        ids = [user_id(user) for user in users[rows]]
        kept = [i for i, user in enumerate(ids) if user]
        block = [[column[rows][i] for i in kept] for column in columns]
        yield from _halved(plan, [ids[i] for i in kept], block)


def _halved(
    plan: CentralPlan, users: Sequence[str], columns: Sequence[Sequence[object]]
) -> Iterator[tuple[int, bytes]]:
    """Halve a block until its parts fit, so that long values never reach beyond their own block."""
    if not users:
        return
    body = _body(plan, users, columns)
    if len(body) <= MAX_BATCH_BYTES and len(users) <= MAX_BATCH_RECORDS:
        yield len(users), body
        return
    half = len(users) // 2
    yield from _halved(plan, users[:half], [column[:half] for column in columns])
    yield from _halved(plan, users[half:], [column[half:] for column in columns])


def _body(plan: CentralPlan, users: Sequence[str], columns: Sequence[Sequence[object]]) -> bytes:
    texts = ([value_text(value) or None for value in column] for column in columns)
    return orjson.dumps(
        {
            "v": VERSION,
            "plan": plan.digest,
            "n": len(users),
            "users": users,
            "columns": dict(zip(plan.columns, texts, strict=True)),
        }
    )


def decode_raw(
    plan: CentralPlan, key: bytes | None, value: bytes | None
) -> Iterable[tuple[str, tuple[str, ...]]]:
    """Return id and values ("": unusable, missing) of each record; none of an unreadable batch."""
    body = _parsed(value) if value is not None and len(value) <= MAX_BATCH_BYTES else None
    if not isinstance(body, dict) or body.get("v") != VERSION or body.get("plan") != plan.digest:
        return ()
    n, columns = body.get("n"), body.get("columns")
    if type(n) is not int or not 1 <= n <= MAX_BATCH_RECORDS:
        return ()
    if key is None or len(key) != BATCH_ID_BYTES:
        return ()
    if not isinstance(columns, dict) or set(columns) != set(plan.columns):
        return ()
    lists = [body.get("users"), *(columns[name] for name in plan.columns)]
    if not all(isinstance(own, list) and len(own) == n for own in lists):
        return ()
    users, *values = lists
    texts = (map(value_text, column) for column in values)
    return zip(map(user_id, users), zip(*texts, strict=True), strict=True)


def _parsed(raw: bytes) -> object:
    """Parse JSON, also if a strict parser would refuse the batch because of one user's text."""
    try:
        return orjson.loads(raw)
    except orjson.JSONDecodeError:
        pass
    try:
        return json.loads(
            raw.decode("utf-8", "surrogateescape"),
            strict=False,
            parse_int=lambda digits: int(digits) if len(digits) <= _MAX_DIGITS else None,
            parse_float=lambda _: None,
            parse_constant=lambda _: None,
        )
    except (ValueError, RecursionError):
        return None
