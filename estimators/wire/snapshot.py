"""Snapshots: the published tables that subscribers read; docs/reading-a-snapshot.md.

Nothing in a record depends on when or by which process it is written, so the final sets are a
function of the log.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import orjson

from calmstream.common.errors import ForeignRecord
from calmstream.estimators.plan import Plan
from calmstream.estimators.wire import fields
from calmstream.estimators.wire.table_summary import SUMMARY, TableSummary, read_summary

VERSION = "1.3"
_MANIFEST = "manifest"
_KEY = re.compile(rb"(\d{1,9})/(early|final|total|current)/([^/]+)")
Revision = tuple[int, ...]


class Kind(StrEnum):
    """What a set is about: an open window, a closed one, all up to one, or what is so now."""

    EARLY = "early"
    FINAL = "final"
    TOTAL = "total"
    CURRENT = "current"


@dataclass(frozen=True, slots=True)
class MarginalRecord:
    """One published marginal; table and stderr row-major, last attribute fastest, as `Marginal`.

    ``revision``: one offset per partition, group by group, up to which reports are counted. Without
    ``summaries`` the record lacks the field.
    """

    window: int
    kind: Kind
    revision: Revision
    attributes: tuple[str, ...]
    labels: tuple[tuple[str, ...], ...]
    table: tuple[float, ...]
    stderr: tuple[float, ...]
    noise_floor: float
    reports: int
    flags: tuple[str, ...]
    summaries: tuple[TableSummary, ...] = ()

    def __post_init__(self) -> None:
        cells = math.prod(len(labels) for labels in self.labels)
        if len(self.labels) != len(self.attributes):
            raise ValueError("one list of labels per attribute was expected")
        if not len(self.table) == len(self.stderr) == cells:
            raise ValueError(f"{len(self.table)} cells, the labels make {cells}")

    @property
    def key(self) -> bytes:
        return marginal_key(self.window, self.kind, self.attributes)


@dataclass(frozen=True, slots=True)
class Manifest:
    """The contents of a set and the reports that it is computed from.

    ``start``, ``end``: seconds; a total starts at the start of the plan. ``groups``: accepted
    reports. ``rejected``: records by reason. ``marginals``: keys, in order; none without reports.
    ``poisoning``, ``analysis``, ``central``: empty where there is none. ``counts``: whether the
    window's counters were written before; a final is complete only with them.
    ``tracking``: of a current set its first window, later ones that were not counted, whether
    some view moves as no model expects; per view the reports and windows that its table is worth,
    discount, factor of its variance, reports of one device, window in which it began anew.
    """

    window: int
    kind: Kind
    revision: Revision
    start: int
    end: int
    plan: str
    name: str
    method: str
    epsilon: str
    guarantee: Mapping[str, Any]
    loss_window: str
    loss_plan: str
    reports: int
    groups: tuple[int, ...]
    rejected: Mapping[str, int]
    marginals: tuple[str, ...]
    processing: tuple[str, ...]
    software: str
    poisoning: Mapping[str, Any] = field(default_factory=dict)
    analysis: Mapping[str, Any] = field(default_factory=dict)
    counts: bool = False
    central: Mapping[str, Any] = field(default_factory=dict)
    tracking: Mapping[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> bytes:
        return manifest_key(self.window, self.kind)

    @property
    def final(self) -> bool:
        """Whether later reports can no longer change the set."""
        return self.kind is not Kind.EARLY


def marginal_key(window: int, kind: Kind, attributes: Sequence[str]) -> bytes:
    joined = "+".join(_escaped(name) for name in attributes)
    if joined == _MANIFEST:
        # The 1-way table of an attribute of that very name must not replace the manifest.
        joined = f"%{ord(joined[0]):02X}{joined[1:]}"
    return f"{window}/{kind}/{joined}".encode()


def _escaped(name: str) -> str:
    return name.replace("%", "%25").replace("+", "%2B").replace("/", "%2F")


def manifest_key(window: int, kind: Kind) -> bytes:
    return f"{window}/{kind}/{_MANIFEST}".encode()


def parse_key(key: bytes) -> tuple[int, Kind, bool]:
    """Return window, kind and whether the record is a manifest; tombstones have such keys too."""
    found = fields.match_key(_KEY, key, "snapshots")
    return int(found[1]), Kind(found[2].decode()), found[3] == _MANIFEST.encode()


def encode(record: MarginalRecord | Manifest) -> bytes:
    kind = "manifest" if isinstance(record, Manifest) else "marginal"
    body = {name: getattr(record, name) for name in record.__slots__}
    for later in ("central", "summaries", "tracking"):
        if not body.get(later, True):
            del body[later]
    return orjson.dumps({"v": VERSION, "type": kind, **body})


def decode(raw: bytes, plan: Plan) -> MarginalRecord | Manifest:
    """Read what `encode` wrote for a plan; an InvalidInput if it is of a newer version."""
    body = fields.read_object(
        raw, "snapshot record", plan=plan.digest, version=VERSION, always=False
    )
    record: MarginalRecord | Manifest
    if body.get("type") == "manifest":
        record = _manifest(body)
    elif body.get("type") == "marginal":
        record = _marginal(body)
    else:
        raise ForeignRecord("a snapshot record is damaged: type")
    if not _of_plan(plan, record):
        raise ForeignRecord("a snapshot record is damaged: it does not fit the plan")
    return record


_OF_BOTH = {
    "window": fields.count,
    "kind": fields.one_of(Kind),
    "revision": fields.each(fields.count),
    "reports": fields.count,
}
_MARGINAL_FIELDS = _OF_BOTH | {
    "attributes": fields.texts,
    "labels": fields.each(fields.texts),
    "table": fields.numbers,
    "stderr": fields.numbers,
    "noise_floor": fields.number,
    "flags": fields.texts,
}
_NUMBER = fields.either(fields.null, fields.number)
_TEST = {"test": fields.text, "statistic": _NUMBER, "of": fields.count, "p": _NUMBER}
_PAIR = {"attributes": fields.each(fields.text, 2), "mutual_information": fields.number}
_CHI_SQUARE = {
    "statistic": _NUMBER,
    "critical": _NUMBER,
    "p_value": _NUMBER,
    "dependent": fields.flag,
}
_LATER = {
    "central": fields.fields(
        {
            "epsilon": fields.number,
            "delta": fields.number,
            "n": fields.count,
            "assumes": fields.texts,
        }
    ),
    "tracking": fields.fields(
        {
            "since": fields.count,
            "missing": fields.count,
            "misfit": fields.flag,
            "reports": fields.each(fields.count),
            "windows": fields.each(fields.number),
            "discount": fields.each(fields.number),
            "variance": fields.each(fields.number),
            "repeats": fields.each(fields.number),
            "anew": fields.each(fields.count),
        }
    ),
}
_MANIFEST_FIELDS = _OF_BOTH | {
    "start": fields.seconds,
    "end": fields.seconds,
    "plan": fields.text,
    "name": fields.text,
    "method": fields.text,
    "epsilon": fields.text,
    "guarantee": fields.fields({"kind": fields.text, "windows": fields.count}),
    "loss_window": fields.text,
    "loss_plan": fields.text,
    "groups": fields.each(fields.count),
    "rejected": fields.named(fields.count),
    "marginals": fields.texts,
    "processing": fields.texts,
    "software": fields.text,
    "poisoning": fields.empty_or(
        {"suspicious": fields.flag, "p": _NUMBER, "tests": fields.each(fields.fields(_TEST))}
    ),
    "analysis": fields.empty_or(
        {
            "pairs": fields.each(
                fields.fields(
                    _PAIR | {"cramers_v": fields.number},
                    {"chi_square": fields.either(fields.null, fields.fields(_CHI_SQUARE))},
                )
            ),
            "tree": fields.each(fields.fields(_PAIR)),
        }
    ),
    "counts": fields.flag,
}


def _marginal(body: Mapping[str, Any]) -> MarginalRecord:
    optional = {"summaries": fields.each(SUMMARY)}
    fields.check_fields(body, "a snapshot record", _MARGINAL_FIELDS, optional)
    known = {name: body[name] for name in _MARGINAL_FIELDS}
    for name in ("revision", "attributes", "table", "stderr", "flags"):
        known[name] = tuple(known[name])
    known["kind"] = Kind(known["kind"])
    known["labels"] = tuple(map(tuple, body["labels"]))
    known["summaries"] = tuple(map(read_summary, body.get("summaries", ())))
    try:
        return MarginalRecord(**known)
    except ValueError as error:
        raise ForeignRecord(f"a snapshot record is damaged: {error}") from None


def _manifest(body: Mapping[str, Any]) -> Manifest:
    fields.check_fields(body, "a snapshot record", _MANIFEST_FIELDS, _LATER)
    known = {name: body[name] for name in _MANIFEST_FIELDS}
    known |= {name: body.get(name, {}) for name in _LATER}
    for name in ("revision", "groups", "marginals", "processing"):
        known[name] = tuple(known[name])
    known["kind"] = Kind(known["kind"])
    return Manifest(**known)


def _of_plan(plan: Plan, record: MarginalRecord | Manifest) -> bool:
    """Return whether a publisher of the plan can have written a record."""
    offset = fields.offset_of(plan)
    if not (
        record.window < plan.windows
        and len(record.revision) == len(plan.groups) * plan.partitions
        and all(map(offset, record.revision))
    ):
        return False
    if isinstance(record, MarginalRecord):
        return _table_fits(plan, record)
    start = plan.start if record.kind is Kind.TOTAL else plan.window_start(record.window) // 1000
    return (
        record.name == plan.name
        and (record.start, record.end) == (start, plan.window_end(record.window) // 1000)
        and len(record.groups) == len(plan.groups)
    )


def _table_fits(plan: Plan, record: MarginalRecord) -> bool:
    labels = {attribute.name: attribute.labels for attribute in plan.domain.attributes}
    units = {"", *(attribute.unit for attribute in plan.domain.attributes)}
    return (
        len(set(record.attributes)) == len(record.attributes) > 0
        and tuple(labels.get(name) for name in record.attributes) == record.labels
        and all(
            labels.keys() >= {*summary.attributes, *summary.given}
            and summary.unit in units
            and all(
                len(row.labels) == len(summary.given)
                and all(
                    label in labels[name]
                    for name, label in zip(summary.given, row.labels, strict=True)
                )
                for row in summary.rows
            )
            for summary in record.summaries
        )
    )
