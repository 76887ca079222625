"""A disk that changes what a gateway wrote, and one that renames without atomicity."""

from __future__ import annotations

from pathlib import Path

import pytest

from calmstream.broker.transport import Sink
from calmstream.common.errors import FatalError
from tests.support.gateway.running import (
    Running,
    away,
    line,
    present_broker,
    present_plan,
    running,
    until,
)

PLAN = present_plan()
SEALED = "calmstream_gateway_batches_waiting"


def filled(folder: Path, reports: int, **settings: object) -> Path:
    with running(folder, PLAN, connect=away, stop_seconds=1.0, **settings) as gateway:
        batches_of_one(gateway, reports)
    return folder / "spool"


def batches_of_one(gateway: Running, reports: int) -> None:
    for value in range(reports):
        assert gateway.report(line(PLAN, value)).status == 202
        until("it is sealed", lambda: gateway.metric(SEALED) > value)  # noqa: B023 - called at once


def test_a_batch_that_changes_while_it_waits_is_lost_alone_and_said(tmp_path: Path) -> None:
    broker, up = present_broker(), False

    def connect() -> Sink:
        return broker.sink() if up else away()

    with running(tmp_path, PLAN, broker=broker, connect=connect) as gateway:
        batches_of_one(gateway, 3)
        (path,) = (tmp_path / "spool").rglob("*.spool")
        whole = path.read_bytes()
        place = whole.index(bytes.fromhex(PLAN.digest)[:16])  # in the first batch
        path.write_bytes(whole[:place] + b"x" + whole[place + 1 :])
        up = True
        until("the others are sent", lambda: len(gateway.values()) == 2)
        lost = "calmstream_reports_failed_total"
        until("it is shown", lambda: gateway.metric(lost, plan="", reason="damaged") == 1)


@pytest.mark.parametrize("left", ["nothing", "half"])
@pytest.mark.parametrize("name", ["clock.json", "plan.json"])
def test_a_rename_without_atomicity_is_said(tmp_path: Path, name: str, left: str) -> None:
    (path,) = filled(tmp_path, 1).rglob(name)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2 if left == "half" else 0])
    with pytest.raises(FatalError, match=rf"{name}.*restore"), running(tmp_path, PLAN):
        pass
    path.write_bytes(whole)
    with running(tmp_path, PLAN) as gateway:
        until("all are sent", lambda: gateway.values() == [0])


def test_a_reserve_of_another_size_is_made_again(tmp_path: Path) -> None:
    (path,) = filled(tmp_path, 1).rglob("reserve")
    size = path.stat().st_size
    path.write_bytes(bytes(10))
    with running(tmp_path, PLAN) as gateway:
        until("all are sent", lambda: gateway.values() == [0])
    assert path.stat().st_size == size
