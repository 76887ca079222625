"""Compare state, published sets and dead letters after an ordeal with an independent recount.

All records are read from the broker's files. Of the product only the formats are used, and the
method that computes tables from counts.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from calmstream.broker.names import TopicNames
from calmstream.estimators import methods
from calmstream.estimators.plan import Plan
from calmstream.estimators.tally import Tally
from calmstream.estimators.wire.snapshot import Kind, Manifest, MarginalRecord, decode, parse_key
from tests.brokers.segments import Stored, stored
from tests.support.batch_reading import header_section
from tests.support.service.admission_recount import Recount, Share

MAX_DEAD_LETTER_BYTES = 4 << 10  # which keeps the first bytes of the rejected record

Input = tuple[int, int]
"""Group and partition."""


@dataclass
class Findings:
    plan: Plan
    names: TopicNames
    data: Path  # the broker's directory

    def inputs(self) -> list[Input]:
        groups = range(len(self.plan.groups))
        return [(g, p) for g in groups for p in range(self.plan.partitions)]

    def log(self, where: Input) -> list[Stored]:
        return list(stored(self.data, self.names.reports(where[0]), where[1]))

    def newest_states(self) -> dict[Input, dict[str, Any]]:
        newest: dict[Input, dict[str, Any]] = {}
        for parts, body in self._state():
            where = (parts[0], parts[1])
            before = newest.get(where)
            if len(parts) == 2 and (before is None or body["next_offset"] >= before["next_offset"]):
                newest[where] = body
        return newest

    def closed(self) -> dict[tuple[Input, int], dict[str, Any]]:
        """Return the closed records; two records of one window must be equal."""
        records: dict[tuple[Input, int], dict[str, Any]] = {}
        for parts, body in self._state():
            if len(parts) == 3:
                place = ((parts[0], parts[1]), parts[2])
                assert records.setdefault(place, body) == body, (
                    f"two different closed records of {place}"
                )
        return records

    def _state(self) -> list[tuple[list[int], dict[str, Any]]]:
        records = []
        for number in range(self.plan.partitions):
            for record in stored(self.data, self.names.state, number):
                assert record.key is not None
                if record.value is not None:
                    parts = [int(part) for part in record.key.decode().split("/")]
                    records.append((parts, json.loads(record.value)))
        return records

    def manifests(self, kind: Kind) -> dict[int, Manifest]:
        """Return the complete sets of a kind: all tables have the revision of the manifest."""
        newest: dict[str, Manifest | MarginalRecord] = {}
        for record in stored(self.data, self.names.snapshots, 0):
            assert record.key is not None
            if record.value is not None:
                newest[record.key.decode()] = decode(record.value, self.plan)
        self._tables = {k: v for k, v in newest.items() if isinstance(v, MarginalRecord)}
        manifests = {}
        for key, manifest in newest.items():
            if isinstance(manifest, Manifest) and parse_key(key.encode())[1] is kind:
                tables = [self._tables.get(name) for name in manifest.marginals]
                if all(t is not None and t.revision == manifest.revision for t in tables):
                    manifests[manifest.window] = manifest
        return manifests

    def tables(self, manifest: Manifest) -> list[MarginalRecord]:
        return [self._tables[name] for name in manifest.marginals]

    def dead_letters(self) -> list[tuple[dict[str, str], int]]:
        return [
            (header_section(record.rest), len(record.value or b""))
            for record in stored(self.data, self.names.dead_letters, 0)
        ]


@dataclass
class Comparison:
    """The recounts of all inputs, each up to the offset that its state has reached."""

    findings: Findings
    recounts: dict[Input, Recount]

    @classmethod
    def of(cls, findings: Findings) -> Comparison:
        states = findings.newest_states()
        assert sorted(states) == findings.inputs(), f"state of {sorted(states)}"
        recounts = {
            where: Recount(findings.plan, where[0]).read(
                findings.log(where), below=body["next_offset"]
            )
            for where, body in states.items()
        }
        return cls(findings, recounts)

    @property
    def final(self) -> list[int]:
        shared = set.intersection(*(set(r.closed_at) for r in self.recounts.values()))
        return sorted(shared)

    def share(self, group: int, windows: range) -> Share:
        own = [r for where, r in self.recounts.items() if where[0] == group]
        return sum((r.windows[w] for r in own for w in windows if w in r.windows), Share())

    def rejects(self) -> Counter[str]:
        shares = (s for r in self.recounts.values() for s in r.windows.values())
        return sum((share.rejects for share in shares), Counter())

    def check(self) -> None:
        self._check_closed()
        self._check_states()
        for kind in (Kind.FINAL, Kind.TOTAL):
            self._check_sets(kind)
        self._check_dead_letters()

    def _check_closed(self) -> None:
        closed = self.findings.closed()
        for where, recount in self.recounts.items():
            for window, offset in recount.closed_at.items():
                body = closed.pop((where, window), None)
                assert body is not None, f"{where}: window {window} has no closed record"
                assert body["closed_at"] == offset, f"{where}, window {window}"
                expected = recount.windows.get(window, Share())
                _same(body["count"], expected, f"{where}, window {window}")
                _same(body["total"], recount.through(window), f"{where}, through {window}")
        assert not closed, f"closed too early: {sorted(closed)}"

    def _check_states(self) -> None:
        for where, body in self.findings.newest_states().items():
            recount = self.recounts[where]
            through = max(recount.closed_at, default=-1)
            assert body["closed_through"] == through, f"{where}"
            _same(body["total"], recount.through(through), f"{where}, total")
            still = {w: s for w, s in recount.windows.items() if w > through}
            assert {int(w) for w in body["open"]} == set(still), f"{where}, open windows"
            for window, share in still.items():
                _same(body["open"][str(window)], share, f"{where}, open window {window}")

    def _check_sets(self, kind: Kind) -> None:
        sets = self.findings.manifests(kind)
        assert sorted(sets) == self.final, f"{kind}: {sorted(sets)}"
        places = self.findings.inputs()
        for window, manifest in sets.items():
            what = f"{kind} of window {window}"
            closed_at = tuple(self.recounts[where].closed_at[window] for where in places)
            assert manifest.revision == closed_at, what
            windows = range(window + 1) if kind is Kind.TOTAL else range(window, window + 1)
            shares = [self.share(g, windows) for g in range(len(self.findings.plan.groups))]
            assert manifest.groups == tuple(s.cells.total() for s in shares), what
            assert manifest.rejected == dict(sum((s.rejects for s in shares), Counter())), what
            self._check_tables(manifest, shares, what)

    def _check_tables(self, manifest: Manifest, shares: list[Share], what: str) -> None:
        plan = self.findings.plan
        tables = self.findings.tables(manifest)
        assert len(tables) == (len(plan.marginals) if manifest.reports else 0), what
        if tables:
            model = methods.get(plan.method).fit(plan, tuple(map(_tally, shares)))
            for attributes, table in zip(plan.marginals, tables, strict=True):
                expected = model.marginal(attributes).table
                assert table.table == tuple(expected.ravel().tolist()), f"{what}, {attributes}"

    def _check_dead_letters(self) -> None:
        """Check that the rejected records, up to the bound, and no others have dead letters."""
        expected = {
            (self.findings.names.reports(where[0]), where[1], offset, reason)
            for where, recount in self.recounts.items()
            for offset, reason in recount.dead_letters
        }
        origins = set()
        for headers, size in self.findings.dead_letters():
            place = (headers["topic"], int(headers["partition"]), int(headers["offset"]))
            origins.add((*place, headers["reason"]))
            assert size <= MAX_DEAD_LETTER_BYTES, f"a dead letter of {size} bytes"
        assert origins == expected, (
            f"{len(expected - origins)} missing, {len(origins - expected)} extra"
        )


def _same(body: dict[str, Any], share: Share, where: str) -> None:
    cells = {i: count for i, count in enumerate(body["counts"][0]) if count}
    assert cells == dict(share.cells), f"{where}: {cells}, recounted {dict(share.cells)}"
    assert body["n"] == [share.cells.total()], where
    assert body["rejects"] == dict(share.rejects), f"{where}: {body['rejects']}"


def _tally(share: Share) -> Tally:
    counts = np.zeros((1, 4), np.int64)
    for cell, count in share.cells.items():
        counts[0, cell] = count
    return Tally(counts.sum(axis=1), counts)
