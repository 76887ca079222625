"""Batches of raw records: how senders write them, and how readers read each record.

Raw 1.0, JSON: ``{"v": "central-1.0", "plan": "<digest>", "n": 2, "users": ["u1", "u2"],
"columns": {"sex": ["F", null], ...}}``; null or "" is missing. The key is a random batch id.

One user's record never has an effect on another's: :func:`user_id` and :func:`value_text` convert
each entry by itself, at the sender and again at readers. Only the frame (JSON, version, plan,
lengths), which no user writes, can make a whole batch unreadable.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NoReturn

import orjson

from calmstream.common.errors import InvalidInput, Reason, Rejection
from calmstream.estimators.central.plan import CentralPlan

VERSION = "central-1.0"
BATCH_ID_BYTES = 16
MAX_BATCH_BYTES = 1 << 20
MAX_BATCH_RECORDS = 1 << 14
MAX_TEXT = 256  # characters of a value, the rest is cut; a digest replaces longer user ids
MAX_VALUE_BYTES = 4 * MAX_TEXT  # maximum number of bytes of a value in UTF-8
TICK = b'{"tick":1,"v":"central-1.0"}'  # no records: its append time advances an idle log

_SURROGATE = re.compile("[\ud800-\udfff]")
_JSON_CHARACTER_BYTES = 6  # at most, of a control character: an escape
_MAX_DIGITS = 18  # int() refuses very long numbers: one would make its batch unreadable


@dataclass(frozen=True, slots=True)
class RawBatch:
    """The raw records of one batch, n ids and n values per column; "" is unusable or missing."""

    users: list[str]
    columns: tuple[list[str], ...]


def value_text(value: object) -> str:
    """Return the first 256 characters of a value; "" (missing) if it is not text.

    Lone surrogates, which UTF-8 cannot hold, become U+FFFD.
    """
    if not isinstance(value, str):
        return ""
    text = value[:MAX_TEXT]
    return text if text.isascii() else _SURROGATE.sub("\ufffd", text)


def user_id(user: object) -> str:
    """Return a user's id; "" if it is not text.

    Distinct ids stay distinct, so that no user can displace another's record: an id that is too
    long, or that UTF-8 cannot hold, is replaced by its SHA-256 and not cut.
    """
    if not isinstance(user, str):
        return ""
    if len(user) <= MAX_TEXT and (user.isascii() or not _SURROGATE.search(user)):
        return user
    return "sha256:" + hashlib.sha256(user.encode("utf-8", "surrogatepass")).hexdigest()


def encode_batches(
    plan: CentralPlan,
    users: Sequence[object],
    columns: Sequence[Sequence[object]],
    batch_size: int,
) -> Iterator[tuple[int, bytes]]:
    """Yield batches of all records that have a user, in order: number of records, and body.

    A block of ``batch_size`` records that is too large for one batch is halved until its parts
    fit, so that long values never reach beyond their own block.
    """
    _check_room(plan)
    for start in range(0, len(users), batch_size):
        rows = slice(start, start + batch_size)
        ids = [user_id(user) for user in users[rows]]
        kept = [i for i, user in enumerate(ids) if user]
        block = [[column[rows][i] for i in kept] for column in columns]
        yield from _halved(plan, [ids[i] for i in kept], block)


def _halved(
    plan: CentralPlan, users: Sequence[str], columns: Sequence[Sequence[object]]
) -> Iterator[tuple[int, bytes]]:
    if not users:
        return
    body = _body(plan, users, columns)
    if len(body) <= MAX_BATCH_BYTES and len(users) <= MAX_BATCH_RECORDS:
        yield len(users), body
        return
    half = len(users) // 2
    yield from _halved(plan, users[:half], [column[:half] for column in columns])
    yield from _halved(plan, users[half:], [column[half:] for column in columns])


def _check_room(plan: CentralPlan) -> None:
    """Check that the largest possible record fits a batch; depends on the plan alone."""
    texts = (len(plan.columns) + 1) * (_JSON_CHARACTER_BYTES * MAX_TEXT + 3)
    if len(_body(plan, [], [[]] * len(plan.columns))) + texts > MAX_BATCH_BYTES:
        raise InvalidInput(
            f"the names of the plan's {len(plan.columns)} columns leave no room for a record in a "
            f"batch of {MAX_BATCH_BYTES:,} bytes: plan shorter names"
        )


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


def decode_raw(plan: CentralPlan, key: bytes | None, value: bytes | None) -> RawBatch:
    """Return the batch in a record of the raw topic; entries that are unusable are "" in it."""
    if value is not None and len(value) > MAX_BATCH_BYTES:
        _reject(Reason.OVERSIZED, f"a batch has at most {MAX_BATCH_BYTES} bytes")
    body = _parsed(value or b"")
    if not isinstance(body, dict):
        _reject(Reason.UNDECODABLE, "not a JSON object")
    if body.get("v") != VERSION:
        _reject(Reason.UNKNOWN_VERSION, f"expected {VERSION}: raw records of a central plan")
    if body.get("plan") != plan.digest:
        _reject(Reason.UNKNOWN_PLAN, f"expected plan {plan.digest[:8]}")
    if key is None or len(key) != BATCH_ID_BYTES:
        _reject(Reason.BAD_BATCH_ID, f"the key must be a batch id of {BATCH_ID_BYTES} bytes")
    n, columns = body.get("n"), body.get("columns")
    if type(n) is not int or not 1 <= n <= MAX_BATCH_RECORDS:
        _reject(Reason.OUT_OF_RANGE, f"n must be 1 to {MAX_BATCH_RECORDS}")
    if not isinstance(columns, dict) or set(columns) != set(plan.columns):
        _reject(Reason.MALFORMED, f"expected the {len(plan.columns)} columns of the plan")
    users = [user_id(user) for user in _entries("users", body.get("users"), n)]
    texts = (map(value_text, _entries("a column", columns[name], n)) for name in plan.columns)
    return RawBatch(users, tuple(map(list, texts)))


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
        _reject(Reason.UNDECODABLE, "not JSON")


def _entries(what: str, values: object, n: int) -> list[object]:
    if not isinstance(values, list):
        _reject(Reason.MALFORMED, f"{what} must be a list")
    if len(values) != n:
        _reject(Reason.LENGTH_MISMATCH, f"{what} must have n entries")
    return values


def _reject(reason: Reason, detail: str) -> NoReturn:
    raise Rejection(reason, detail)
