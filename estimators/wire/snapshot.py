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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import orjson

from calmstream.common.errors import ForeignRecord, InvalidInput
from calmstream.estimators.wire.table_summary import TableSummary, read_summary

VERSION = "1.3"
_MANIFEST = "manifest"
Revision = tuple[int, ...]


class Kind(StrEnum):
    """What a set is about.

    ``early``: the window still receives reports. ``final``: it never will again. ``total``: all
    windows up to and including this one, all of them final.
    """

    EARLY = "early"
    FINAL = "final"
    TOTAL = "total"


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
            Without any, the record lacks the field; so do snapshots of versions without it.
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
        """Key of the record."""
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
            empty where there was no report, and in snapshots of versions without it.
        analysis: association of the published pairs, as `analyse` writes
            it, where the plan asks for it; else empty.
        leverage: what forged reports can do: ``forged``, a share of all reports, and ``reach``,
            per marginal the most that they can move a cell by; ``approximate`` where the tables are
            more than linear estimates. Empty without tables, and in snapshots of versions without.
        central: what readers of snapshots learn about one device from this final, as
            `plan.central_statement` states it: ``epsilon``, ``delta``, ``n`` and
            the list ``assumes``. Empty where there is no statement; then the record lacks it.
        counts: whether the counters of this final window were written to the counts topic before
            the set; the final is complete only with them. False for other kinds, and in snapshots
            of versions without it.
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
    leverage: Mapping[str, Any] = field(default_factory=dict)
    counts: bool = False
    central: Mapping[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> bytes:
        """Key of the record."""
        return manifest_key(self.window, self.kind)

    @property
    def withheld(self) -> bool:
        """Whether there were reports, and the tables are kept back because they look forged."""
        return self.reports > 0 and not self.marginals

    @property
    def final(self) -> bool:
        """Whether later reports can no longer change the set."""
        return self.kind is not Kind.EARLY


def marginal_key(window: int, kind: Kind, attributes: Sequence[str]) -> bytes:
    """Return the key of a marginal record."""
    joined = "+".join(_escaped(name) for name in attributes)
    if joined == _MANIFEST:
        # The 1-way table of an attribute of that very name must not replace the manifest.
        joined = f"%{ord(joined[0]):02X}{joined[1:]}"
    return f"{window}/{kind}/{joined}".encode()


def _escaped(name: str) -> str:
    return name.replace("%", "%25").replace("+", "%2B").replace("/", "%2F")


def manifest_key(window: int, kind: Kind) -> bytes:
    """Return the key of a manifest."""
    return f"{window}/{kind}/{_MANIFEST}".encode()


def parse_key(key: bytes) -> tuple[int, Kind, bool]:
    """Return window, kind and whether the record is a manifest, from its key.

    Tombstones have such keys too.

    Raises:
        ForeignRecord: no key of a snapshots topic; something else writes there.
    """
    try:
        window, kind, name = key.decode().split("/")
        return int(window), Kind(kind), name == _MANIFEST
    except ValueError:
        raise ForeignRecord(
            "the snapshots topic holds a record with a foreign key; who else writes to it?"
        ) from None


def encode(record: MarginalRecord | Manifest) -> bytes:
    """Return the value of a record; finite numbers only."""
    kind = "manifest" if isinstance(record, Manifest) else "marginal"
    body = {name: getattr(record, name) for name in record.__slots__}
    for later in ("central", "summaries"):
        if not body.get(later, True):
            del body[later]
    return orjson.dumps({"v": VERSION, "type": kind, **body})


def decode(raw: bytes) -> MarginalRecord | Manifest:
    """Read what :func:`encode` wrote; fields of later minor versions are ignored.

    Raises:
        InvalidInput: a snapshot of a newer major version.
        ForeignRecord: not a snapshot record.
    """
    try:
        body = orjson.loads(raw)
        major = int(body["v"].split(".")[0])
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError, AttributeError):
        raise ForeignRecord("the snapshots topic holds a value that is no snapshot") from None
    if major != 1:
        raise InvalidInput(
            f"snapshot version {body['v']} is newer than {VERSION}: upgrade to read it"
        )
    try:
        return _manifest(body) if body["type"] == "manifest" else _marginal(body)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise ForeignRecord(f"a snapshot record is damaged: {error}") from None


def _marginal(body: Mapping[str, Any]) -> MarginalRecord:
    return MarginalRecord(
        window=int(body["window"]),
        kind=Kind(body["kind"]),
        revision=tuple(body["revision"]),
        attributes=tuple(body["attributes"]),
        labels=tuple(tuple(labels) for labels in body["labels"]),
        table=tuple(body["table"]),
        stderr=tuple(body["stderr"]),
        noise_floor=float(body["noise_floor"]),
        reports=int(body["reports"]),
        flags=tuple(body["flags"]),
        summaries=tuple(map(read_summary, body.get("summaries", ()))),
    )


def _manifest(body: Mapping[str, Any]) -> Manifest:
    later = ("poisoning", "analysis", "leverage", "central")
    known = {name: body[name] for name in Manifest.__slots__ if name not in (*later, "counts")}
    known |= {name: body.get(name, {}) for name in later}
    known["counts"] = body.get("counts") is True
    for name in ("revision", "groups", "marginals", "processing"):
        known[name] = tuple(known[name])
    known["kind"] = Kind(known["kind"])
    return Manifest(**known)
