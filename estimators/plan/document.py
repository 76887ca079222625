"""Strict reading of a plan document: unknown, missing or contradictory fields are refused.

Every refusal is one line that says where (a path such as ``groups[3].views[0].share``) and what.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar

import orjson

from calmstream.common.errors import DomainError, PlanError
from calmstream.estimators.domain import Domain
from calmstream.estimators.mechanisms.registry import build
from calmstream.estimators.plan.group import Group, Guarantee
from calmstream.estimators.plan.limits import PlanLimits
from calmstream.estimators.plan.plan import FIELDS, PLAN_VERSION, Plan
from calmstream.estimators.view import View

T = TypeVar("T")

MAX_PLAN_BYTES = 16 << 20
_OPTIONAL: dict[str, type] = {
    "analysis": bool,
    "lineage_name": str,
    "continues": list,
    "early": bool,
    "summaries": list,
}
_NOT_EMPTY = {
    "lineage_name": "a name",
    "continues": "at least one lineage",
    "summaries": "at least one statistic",
}


def read_plan(raw: bytes) -> Plan:
    """Return the plan in ``raw``, for services and tools; devices use `read_device_plan`."""
    if len(raw) > MAX_PLAN_BYTES:
        raise PlanError(f"plan: {len(raw):,} bytes; at most {MAX_PLAN_BYTES:,} are read")
    return plan_of(parse(raw))


def parse(raw: bytes) -> object:
    try:
        document = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise PlanError(f"plan: not JSON: {error}") from None
    _refuse_repeats(raw)
    return document


def plan_of(document: object, check: Callable[[tuple[Group, ...]], None] | None = None) -> Plan:
    fields = _fields(document)
    try:
        domain = Domain.from_json(fields["domain"])
    except DomainError as error:
        raise PlanError(str(error)) from None
    guarantee = read_object(fields["guarantee"], "guarantee", {"kind": str, "windows": int})
    method = read_object(fields["method"], "method", {"name": str, "parameters": dict})
    limits = read_object(fields["limits"], "limits", {"batch_reports": int, "batches": int})
    groups = read_groups(fields["groups"], "groups", fields["epsilon"])
    if check is not None:
        check(groups)
    plan = Plan(
        **{name: fields[name] for name, kind in FIELDS.items() if kind in (int, str)},
        domain=domain,
        guarantee=Guarantee(**guarantee),
        method=method["name"],
        parameters=method["parameters"],
        groups=groups,
        marginals=_each(fields["marginals"], "marginals", _integers),
        limits=PlanLimits(**limits),
        **_optional(fields),
    )
    if plan.parameters != method["parameters"]:
        raise PlanError("method.parameters: fractions are decimal strings")
    return plan


def _fields(document: object) -> dict[str, Any]:
    if isinstance(document, dict) and "model" in document:
        raise PlanError(
            f"model: this is a {document['model']} plan, for raw records and a trusted aggregator; "
            "local reports take none of it: calmstream central"
        )
    version = document.get("version", PLAN_VERSION) if isinstance(document, dict) else PLAN_VERSION
    if type(version) is int and version != PLAN_VERSION:
        raise PlanError(f"version: expected {PLAN_VERSION}, got {_shown(version)}")
    return read_object(document, "plan", FIELDS, _OPTIONAL)


def _optional(fields: Mapping[str, Any]) -> dict[str, Any]:
    for name, what in _NOT_EMPTY.items():
        if name in fields and not fields[name]:
            raise PlanError(f"{name}: expected {what}, or no such field")
    found = {name: fields[name] for name in _OPTIONAL if name in fields}
    for name, kind in _OPTIONAL.items():
        if kind is list and name in found:
            if not all(type(entry) is str for entry in found[name]):
                raise PlanError(f"{name}: expected a list of strings")
            found[name] = tuple(found[name])
    return found


def read_groups(entries: object, where: str, epsilon: str) -> tuple[Group, ...]:
    if not isinstance(entries, list):
        raise PlanError(f"{where}: expected a list")
    return _each(entries, where, partial(_group, epsilon))


def _group(epsilon: str, entry: object, where: str) -> Group:
    fields = read_object(entry, where, {"mechanism": dict, "views": list})
    pairs = _each(fields["views"], f"{where}.views", _view)
    mechanism = build(fields["mechanism"], epsilon)
    try:
        return Group(mechanism, tuple(v for v, _ in pairs), tuple(share for _, share in pairs))
    except PlanError as error:
        raise PlanError(f"{where}: {error}") from None


def _view(entry: object, where: str) -> tuple[View, int]:
    optional = {"parity": list, "character": list, "modulus": int}
    fields = read_object(entry, where, {"attributes": list, "share": int}, optional)
    for name in ("attributes", "parity", "character"):
        if name in fields:
            _integers(fields[name], f"{where}.{name}")
    try:
        return View.from_json(fields), fields["share"]
    except PlanError as error:
        raise PlanError(f"{where}: {error}") from None


def _integers(entry: object, where: str) -> tuple[int, ...]:
    if not isinstance(entry, list) or not all(type(x) is int and x >= 0 for x in entry):
        raise PlanError(f"{where}: expected a list of non-negative integers")
    return tuple(entry)


def _each(entries: list[Any], where: str, read: Callable[[object, str], T]) -> tuple[T, ...]:
    if not entries:
        raise PlanError(f"{where}: expected at least one")
    return tuple(read(entry, f"{where}[{i}]") for i, entry in enumerate(entries))


def _refuse_repeats(raw: bytes) -> None:
    """Check that no object names a field twice: JSON readers disagree about which one counts."""

    def unique(pairs: list[tuple[str, Any]]) -> None:
        seen = set()
        for name, _ in pairs:
            if name in seen:
                raise PlanError(f"plan: field {name!r} stands twice in one object")
            seen.add(name)

    try:
        json.loads(raw, object_pairs_hook=unique)
    except RecursionError:
        raise PlanError("plan: nested too deeply") from None


def read_object(
    entry: object,
    where: str,
    required: Mapping[str, type],
    optional: Mapping[str, type] | None = None,
) -> dict[str, Any]:
    known = {**required, **(optional or {})}
    if not isinstance(entry, dict):
        raise PlanError(f"{where}: expected an object")
    unknown = sorted(set(entry) - set(known))
    if unknown:
        raise PlanError(f"{where}: unknown field {unknown[0]!r}")
    missing = sorted(set(required) - set(entry))
    if missing:
        raise PlanError(f"{where}: missing field {missing[0]!r}")
    for name, value in entry.items():
        if type(value) is not known[name]:
            raise PlanError(f"{where}.{name}: expected {_WORDS[known[name]]}, got {_shown(value)}")
    return entry


_WORDS: dict[type, str] = {
    bool: "true or false",
    int: "an integer",
    str: "a string",
    list: "a list",
    dict: "an object",
}


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:40]}…"
