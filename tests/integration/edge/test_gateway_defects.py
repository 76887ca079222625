"""A defect of the encoder costs the report that meets it, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from calmstream.estimators.plan import Plan
from calmstream.producer.gateway.durable import plan_spool
from calmstream.producer.gateway.durable.entries import RowCodec
from calmstream.producer.gateway.encoding import EncodedBatch, Row
from tests.support.gateway.running import line, running, until

ODD: Row = (0, (13,))


def test_a_row_that_cannot_be_encoded_is_lost_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encode = plan_spool.batch_of_rows

    def faulty(plan: Plan, group: int, period: int, rows: Sequence[Row]) -> EncodedBatch:
        if ODD in rows:
            raise ValueError("a made-up defect")
        return encode(plan, group, period, rows)

    monkeypatch.setattr(plan_spool, "batch_of_rows", faulty)
    with running(tmp_path) as found:
        answer = found.report(*(line(found.plan, value) for value in (12, 13, 14)))
        assert answer.results == ["accepted"] * 3
        until("the others are sent", lambda: found.values() == [12, 14])
        lost = found.metric("calmstream_reports_failed_total", plan="", reason="defect")
        assert lost == 1
        assert found.report(line(found.plan, 15)).status == 202
        until("the gateway goes on", lambda: found.values() == [12, 14, 15])


def test_a_request_that_meets_a_defect_fails_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pack = RowCodec.pack

    def faulty(codec: RowCodec, group: int, row: Row) -> bytes:
        if row == ODD:
            raise ValueError("a made-up defect")
        return pack(codec, group, row)

    monkeypatch.setattr(RowCodec, "pack", faulty)
    with running(tmp_path) as found:
        refused = found.report(line(found.plan, 13))
        assert (refused.status, refused.reason) == (500, "internal")
        assert found.report(line(found.plan, 12)).status == 202
        until("the gateway goes on", lambda: found.values() == [12])
