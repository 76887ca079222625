"""The file format of a device's state: one JSON document with a checksum."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import orjson

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
    # Fields need no checks of their own: version and checksum are those that `to_bytes` writes.
    policy = document["policy"]
    recent = tuple(Recent(*each) for each in document["recent"])
    return DeviceState(
        secret=bytes.fromhex(document["secret"]),
        lineages=_lineages(document["lineages"]),
        signed=_lineages(document["signed"]),
        totals=DeviceTotals(document["mark"], recent, document["ever"]),
        policy=None if policy is None else Policy.from_json(policy),
        withdrawn=document["withdrawn"],
        withdrawals=document["withdrawals"],
        history=tuple(_sent(sent) for sent in document["history"]),
        generation=document["generation"],
        waiting=tuple(WaitingReport(**report) for report in document["waiting"]),
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
        lineage: {digest: Spent(**entry) for digest, entry in entries.items()}
        for lineage, entries in document.items()
    }


def _checksum(document: Mapping[str, Any]) -> str:
    return hashlib.sha256(orjson.dumps(document, option=orjson.OPT_SORT_KEYS)).hexdigest()
