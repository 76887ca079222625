"""Strict types of records: a format is a mapping from the name of a field to a check of its value.

A record that fails is a `ForeignRecord`: readers skip and count it. Only one that names the
reader's plan and a newer version stops the reader. Fields that no format names are ignored.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import orjson

from calmstream.common.errors import CalmstreamError, ForeignRecord, InvalidInput
from calmstream.estimators.plan import Plan
from calmstream.estimators.tally import MOST_COUNT

Check = Callable[[Any], bool]
Format = Mapping[str, Check]

_MOST_RECORDS_PER_SECOND = 1_000_000
_SPARE_SECONDS = 366 * 86_400
_VERSION = re.compile(r"\d{1,4}\.\d{1,4}", re.ASCII)
_LAST_SECOND = 253_402_300_799


def integer(least: int = 0, most: int = MOST_COUNT) -> Check:
    return lambda value: type(value) is int and least <= value <= most


def offset_of(plan: Plan) -> Check:
    """Accept offsets that a log of the plan can reach: a million records a second, a year more."""
    seconds = plan.expires - plan.start + plan.grace + _SPARE_SECONDS
    return integer(0, _MOST_RECORDS_PER_SECOND * seconds)


def number(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value)


def text(value: Any) -> bool:
    """Accept texts without the character NUL, which databases refuse."""
    return type(value) is str and "\0" not in value


def flag(value: Any) -> bool:
    return type(value) is bool


count = integer()
seconds = integer(0, _LAST_SECOND)
milliseconds = integer(0, _LAST_SECOND * 1000)


def numbers(value: Any) -> bool:
    """Accept a list of finite numbers; fast for long ones."""
    if type(value) is not list or not set(map(type, value)) <= {int, float}:
        return False
    return all(map(math.isfinite, value))


def each(check: Check, length: int | None = None) -> Check:
    return lambda value: (
        type(value) is list and length in (None, len(value)) and all(map(check, value))
    )


texts = each(text)


def either(*checks: Check) -> Check:
    return lambda value: any(check(value) for check in checks)


def null(value: Any) -> bool:
    return value is None


def one_of(names: Iterable[str]) -> Check:
    return list(names).__contains__


def named(check: Check) -> Check:
    """Accept an object of which every value passes, under any names."""
    return lambda value: (
        type(value) is dict and all(map(text, value)) and all(map(check, value.values()))
    )


def fields(required: Format, optional: Format | None = None) -> Check:
    return lambda value: type(value) is dict and _misfit(value, required, optional or {}) is None


def empty_or(required: Format) -> Check:
    return either(lambda value: value == {}, fields(required))


def _misfit(body: Mapping[str, Any], required: Format, optional: Format) -> str | None:
    """Return the first field that is missing or does not pass."""
    for name, check in required.items():
        if name not in body or not check(body[name]):
            return name
    return next((n for n, check in optional.items() if n in body and not check(body[n])), None)


def check_fields(
    body: Mapping[str, Any], what: str, required: Format, optional: Format | None = None
) -> None:
    """Raise ForeignRecord where a field is missing or does not pass."""
    wrong = _misfit(body, required, optional or {})
    if wrong is not None:
        raise ForeignRecord(f"{what} is damaged: {wrong}")


def match_key(pattern: re.Pattern[bytes], key: bytes, topic: str) -> re.Match[bytes]:
    found = pattern.fullmatch(key)
    if found is None:
        raise ForeignRecord(
            f"the {topic} topic holds a record with a foreign key; who else writes to it?"
        )
    return found


def read_object(
    raw: bytes,
    what: str,
    *,
    plan: str,
    version: str,
    newer: type[CalmstreamError] = InvalidInput,
    always: bool = True,
) -> dict[str, Any]:
    """Return the JSON object of a record, judged by its plan and its version."""
    try:
        body = orjson.loads(raw)
    except orjson.JSONDecodeError:
        body = None
    if type(body) is not dict:
        raise ForeignRecord(f"a value is no {what}")
    owner = body.get("plan")
    if owner != plan and (always or owner is not None):
        raise ForeignRecord(f"a {what} of another plan")
    found = body.get("v")
    if found != version:
        if owner == plan and type(found) is str and _later(found, version):
            raise newer(
                f"a {what} has version {found}, newer than {version}: run the newer release again, "
                "or use a new namespace"
            )
        raise ForeignRecord(f"a {what} of an unknown version")
    return body


def _later(found: str, version: str) -> bool:
    # The versions of the central model have another form: none is newer.
    if not (_VERSION.fullmatch(found) and _VERSION.fullmatch(version)):
        return False
    return tuple(map(int, found.split("."))) > tuple(map(int, version.split(".")))
