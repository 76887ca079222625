"""Snapshots: the published tables that subscribers read.

A *set* is all that is published for one window and kind: one record per marginal, key
``<window>/<kind>/<attribute>+<attribute>``, and a manifest, key ``<window>/<kind>/manifest``,
written last. In a key ``%``, ``+`` and ``/`` of an attribute's name are written ``%25``, ``%2B``
and ``%2F``, so that no two records share one. All records of a set carry the same *revision*: one
input offset per partition of the plan, group by group. Nothing in them depends on when or by
which process they are written, so the final sets are a function of the log.
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
_KEY = re.compile(r"(\d{1,9})/(early|final|total|current)/([^/]+)", re.ASCII)
Revision = tuple[int, ...]


class Kind(StrEnum):
    """What a set is about.

    ``early``: the window still receives reports. ``final``: it never will again. ``total``: all
    windows up to and including this one, all of them final. ``current``: the value in this window,
    with what earlier windows say about it (docs/continuous.md).
    """

    EARLY = "early"
    FINAL = "final"
    TOTAL = "total"
    CURRENT = "current"


@dataclass(frozen=True, slots=True)
class MarginalRecord:
    """One published marginal.

    Attributes:
        window: number of the window.
        kind: kind of the set to which the record belongs.
        revision: one offset per input partition, up to which reports are counted.
        attributes: names of the attributes, in the order of the axes.
        labels: labels of each attribute, in the order of their codes.
        table: estimate of every cell, row-major, last attribute fastest.
        stderr: standard error of every cell, before negative cells were corrected.
        noise_floor: sum of the squares of stderr, the expected squared error by noise.
        reports: number of reports with information about these attributes.
        flags: see `Marginal`.
        summaries: statistics of numbers, ordered labels and options, where the plan asks for them.
            Without any, the record lacks the field.
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

    Attributes:
        window, kind, revision: see :class:`MarginalRecord`.
        start, end: first second of the window and the second after it, since the epoch; a total
            starts at the start of the plan.
        plan: digest. name: the plan's.
        method: registry name. epsilon: of one report, decimal string.
        guarantee: once or w-event with its windows, as in the plan.
        loss_window: maximum privacy loss of one device in this window.
        loss_plan: maximum privacy loss of one device over the whole plan.
        reports: number of accepted reports (reports, never people).
        groups: accepted reports per group.
        rejected: rejected records by reason.
        marginals: keys of the marginal records, in order; empty where there was no report.
        processing: what was done to the raw estimates, in order.
        software: version that wrote it.
        poisoning: signs of forged reports, as `analysis.poisoning` writes them;
            empty where there was no report.
        analysis: association of the published pairs, as `analyse` writes
            it, where the plan asks for it; else empty.
        central: what readers of snapshots learn about one device from this final, as
            `plan.central_statement` states it: ``epsilon``, ``delta``, ``n`` and
            the list ``assumes``. Empty where there is no statement; then the record lacks it.
        tracking: what the tables of a current set rest on: ``since``, the first window;
            ``missing``, how many later ones were not counted; ``misfit``, whether some view moves
            as no model of it expects; and per view ``reports`` and ``windows``, what its table is
            worth, ``discount``, ``variance`` (the factor by which its variance exceeds the noise of
            these reports), ``repeats`` (reports of one device in it, at least 1) and ``anew`` (the
            window in which it began anew). Empty for other kinds; then the record lacks it.
        counts: whether the counters of this final window were written to the counts topic before
            the set; the final is complete only with them. False for other kinds.
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
    """Return window, kind and whether the record is a manifest; tombstones have such keys too.

    Raises:
        ForeignRecord: no key of a snapshots topic; something else writes there.
    """
    found = _KEY.fullmatch(key.decode("utf-8", "replace"))
    if found is None:
        raise ForeignRecord(
            "the snapshots topic holds a record with a foreign key; who else writes to it?"
        )
    return int(found[1]), Kind(found[2]), found[3] == _MANIFEST


def encode(record: MarginalRecord | Manifest) -> bytes:
    """Return the value of a record; finite numbers only."""
    kind = "manifest" if isinstance(record, Manifest) else "marginal"
    body = {name: getattr(record, name) for name in record.__slots__}
    for later in ("central", "summaries", "tracking"):
        if not body.get(later, True):
            del body[later]
    return orjson.dumps({"v": VERSION, "type": kind, **body})


def decode(raw: bytes, plan: Plan) -> MarginalRecord | Manifest:
    """Read what :func:`encode` wrote for a plan.

    Raises:
        InvalidInput: a snapshot of this plan of a newer version.
        ForeignRecord: not a snapshot record that fits the plan.
    """
    body = fields.read_object(
        raw, "snapshot record", plan=plan.digest, version=VERSION, always=False
    )
    manifest = body.get("type") == "manifest"
    if manifest:
        fields.check_fields(body, "a snapshot record", _MANIFEST_FIELDS, _LATER)
    elif body.get("type") == "marginal":
        optional = {"summaries": fields.each(SUMMARY)}
        fields.check_fields(body, "a snapshot record", _MARGINAL_FIELDS, optional)
    else:
        raise ForeignRecord("a snapshot record is damaged: type")
    record = _manifest(body) if manifest else _marginal(body)
    if not _of_plan(plan, record):
        raise ForeignRecord("a snapshot record is damaged: it does not fit the plan")
    return record


_KINDS = frozenset(map(str, Kind))


def _kind(value: Any) -> bool:
    return type(value) is str and value in _KINDS


_OF_BOTH = {
    "window": fields.count,
    "kind": _kind,
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
_PAIR = {
    "attributes": fields.each(fields.text, 2),
    "mutual_information": fields.number,
}
_CHI_SQUARE = {
    "statistic": _NUMBER,
    "critical": _NUMBER,
    "p_value": _NUMBER,
    "dependent": fields.flag,
}
_CENTRAL = fields.fields(
    {
        "epsilon": fields.number,
        "delta": fields.number,
        "n": fields.count,
        "assumes": fields.texts,
    }
)
_LATER = {
    "central": _CENTRAL,
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
    known = {attribute.name: attribute for attribute in plan.domain.attributes}
    labels = {name: attribute.labels for name, attribute in known.items()}
    units = {"", *(attribute.unit for attribute in known.values())}
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
