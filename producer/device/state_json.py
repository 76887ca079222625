"""The file format of a device's state: one JSON document with a checksum."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, TypeVar

import orjson

from calmstream.common.errors import InvalidInput
from calmstream.producer.device.assignment import SECRET_BYTES
from calmstream.producer.device.history import Sent, WaitingReport
from calmstream.producer.device.ledger import DeviceState, Entries, Spent
from calmstream.producer.device.policy import Policy
from calmstream.producer.device.totals import DeviceTotals, Recent

STORE_VERSION = 1


def to_bytes(state: DeviceState) -> bytes:
    totals = state.totals
    document = {
        "secret": state.secret.hex(),
        "lineages": _entries_json(state.lineages),
        "signed": _entries_json(state.signed),
        "mark": totals.mark,
        "recent": [[r.counts_from, r.epsilon, r.root] for r in totals.recent],
        "ever": dict(totals.spent_in_all),
        "policy": None if state.policy is None else state.policy.to_json(),
        "withdrawn": state.withdrawn,
        "withdrawals": state.withdrawals,
        "history": [asdict(sent) for sent in state.history],
        "waiting": [asdict(report) for report in state.waiting],
        "generation": state.generation,
    }
    return sealed(document)


def sealed(document: Mapping[str, Any]) -> bytes:
    """Return a document as JSON, with the version, and a SHA-256 over everything else."""
    whole = {**document, "version": STORE_VERSION}
    whole["sha256"] = _checksum(whole)
    return orjson.dumps(whole, option=orjson.OPT_SORT_KEYS)


def unsealed(raw: bytes) -> dict[str, Any]:
    try:
        document = orjson.loads(raw)
    except orjson.JSONDecodeError:
        raise ValueError("it is not JSON") from None
    if not isinstance(document, dict):
        raise ValueError("it is not a JSON object")  # noqa: TRY004 - every bad file is a ValueError
    version = document.get("version")
    if type(version) is not int or version != STORE_VERSION:
        raise ValueError(f"its version is not {STORE_VERSION}")
    if document.pop("sha256", None) != _checksum(document):
        raise ValueError("its checksum does not match")
    del document["version"]
    return document


def from_bytes(raw: bytes) -> DeviceState:
    document = unsealed(raw)
    try:
        return _state(document)
    except (KeyError, TypeError, AttributeError, InvalidInput):
        raise ValueError("a field is missing or malformed") from None


def _state(document: Mapping[str, Any]) -> DeviceState:
    secret = bytes.fromhex(document["secret"])
    if len(secret) != SECRET_BYTES:
        raise ValueError(f"its secret does not have {SECRET_BYTES} bytes")
    policy = document["policy"]
    return DeviceState(
        secret,
        _lineages(document["lineages"]),
        _lineages(document["signed"]),
        _totals(document),
        None if policy is None else Policy.from_json(policy),
        _of(bool, document["withdrawn"]),
        _of(int, document["withdrawals"]),
        tuple(_sent(sent) for sent in document["history"]),
        _of(int, document["generation"]),
        tuple(WaitingReport(**report) for report in document["waiting"]),
    )


def _sent(document: Mapping[str, Any]) -> Sent:
    return Sent(**{**document, "attributes": tuple(document["attributes"])})


def _entries_json(lineages: Mapping[str, Entries]) -> dict[str, Any]:
    return {
        lineage: {digest: asdict(spent) for digest, spent in entries.items()}
        for lineage, entries in lineages.items()
    }


def _lineages(document: Mapping[str, Any]) -> dict[str, Entries]:
    return {
        lineage: {digest: _spent(entry) for digest, entry in entries.items()}
        for lineage, entries in document.items()
    }


def _totals(document: Mapping[str, Any]) -> DeviceTotals:
    recent = tuple(
        Recent(_of(int, counts_from), _amount(epsilon), _of(str, root))
        for counts_from, epsilon, root in document["recent"]
    )
    spent_in_all = {root: _amount(text) for root, text in document["ever"].items()}
    return DeviceTotals(_of(int, document["mark"]), recent, spent_in_all)


T = TypeVar("T")


def _of(kind: type[T], value: Any) -> T:
    if type(value) is not kind:
        raise TypeError(f"expected {kind.__name__}")
    return value


def _amount(text: Any) -> str:
    """Return a decimal string. Sums can have more digits than a policy's amounts."""
    if not re.fullmatch(r"[0-9]{1,60}(\.[0-9]{1,30})?", _of(str, text), re.ASCII):
        raise TypeError("expected a decimal number")
    return str(text)


def _spent(entry: Mapping[str, Any]) -> Spent:
    spent = Spent(**entry)
    numbers = (spent.window, spent.ends, spent.reports, spent.horizon)
    if any(type(number) is not int for number in numbers):
        raise TypeError("numbers are integers")
    _amount(spent.epsilon)
    _amount(spent.bound)
    return spent


def _checksum(document: Mapping[str, Any]) -> str:
    return hashlib.sha256(orjson.dumps(document, option=orjson.OPT_SORT_KEYS)).hexdigest()
