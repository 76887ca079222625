"""A report that can still fail is not in the ledger; one that can leave is stored before."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from calmstream import FileStore, MemoryStore, Report, Reporter, Status
from calmstream.common.errors import FatalError, Reason, RecoverableError, Rejection
from calmstream.producer.device import report
from calmstream.producer.device.control import install
from calmstream.producer.device.ledger import DeviceState
from calmstream.producer.device.store import Change
from tests.support.producer import (
    LARGE,
    START,
    NoRandomness,
    make_plan,
    unsigned_reporter,
)

PLAN = make_plan()
RECORD = {"colour": "red", "size": "xl", "flag": "1"}


class CrashError(BaseException): ...


def crash(*_: object) -> Any:
    raise CrashError


class DyingRecord(dict[str, object]):
    def __getitem__(self, key: str) -> object:
        raise CrashError


def device(path: Path, plan: Any = PLAN, **options: Any) -> Reporter:
    return unsigned_reporter(plan, FileStore(path / "d"), clock=lambda: START * 1000, **options)


def reports_after(path: Path) -> bool:
    """Return whether the device reports after a restart; check that it reports at most once."""
    first, second = device(path).report(RECORD), device(path).report(RECORD)
    assert second is None
    return first is not None


def test_a_death_while_the_record_is_read_costs_no_report(tmp_path: Path) -> None:
    with pytest.raises(CrashError):
        device(tmp_path).report(DyingRecord())
    assert reports_after(tmp_path)


@pytest.mark.parametrize("step", ["encode_report", "decode_report"])
def test_a_failure_or_death_before_the_claim_costs_no_report(
    step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for fault in (crash, lambda *_: 1 // 0):
        with monkeypatch.context() as patched:
            patched.setattr(report, step, fault)
            with pytest.raises((CrashError, ZeroDivisionError)):
                device(tmp_path).report(RECORD)
    assert reports_after(tmp_path)


def test_a_report_that_no_gateway_reads_is_not_claimed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> Any:
        raise Rejection(Reason.OVERSIZED, "too large")

    with monkeypatch.context() as patched:
        patched.setattr(report, "decode_report", refuse)
        with pytest.raises(FatalError, match=r"no gateway reads.*nothing was reported"):
            device(tmp_path).report(RECORD)
    assert reports_after(tmp_path)


class DiesIn(FileStore):
    def __init__(self, path: Path, step: str, patched: pytest.MonkeyPatch) -> None:
        super().__init__(path)
        self._step, self._patched = "", patched
        install(self, LARGE)
        self._step = step

    def update(self, change: Change) -> DeviceState:
        def changed(state: DeviceState) -> DeviceState:
            after = change(state)
            if after is not state and self._step:
                self._arm()
            return after

        state = super().update(changed)
        if self._step == "returned" and state.lineages:
            raise CrashError
        return state

    def _arm(self) -> None:
        syncs = 0
        sync = os.fsync

        def sync_or_die(descriptor: int) -> None:
            nonlocal syncs
            syncs += 1
            if (syncs, self._step) in ((1, "written"), (2, "renamed")):
                raise CrashError
            sync(descriptor)

        self._patched.setattr(os, "fsync", sync_or_die)
        if self._step == "flushed":
            self._patched.setattr(Path, "replace", crash)


@pytest.mark.parametrize(
    ("step", "reports"),
    [("written", True), ("flushed", True), ("renamed", False), ("returned", False)],
)
def test_a_death_around_the_claim_costs_one_report_at_most(
    step: str, reports: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until the new ledger has the file's name the old one stands; from then on the claim does."""
    with monkeypatch.context() as patched:
        store = DiesIn(tmp_path / "d", step, patched)
        with pytest.raises(CrashError):
            unsigned_reporter(PLAN, store, clock=lambda: START * 1000).report(RECORD)
    assert reports_after(tmp_path) == reports


def test_nothing_is_returned_where_the_ledger_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert device(tmp_path).status() is Status.READY

    def refuse(_: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", refuse)
        with pytest.raises(RecoverableError, match="No space left"):
            device(tmp_path).report(RECORD)
    assert reports_after(tmp_path)


def test_nothing_is_drawn_where_the_ledger_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "d").write_bytes(b"rubbish")
    with pytest.raises(FatalError, match="damaged"):
        device(tmp_path, randomness=NoRandomness()).report(RECORD)


class Between(MemoryStore):
    def __init__(self, happens: Callable[[Between], None]) -> None:
        super().__init__(DeviceState(bytes(16), policy=LARGE))
        self._happens: Callable[[Between], None] | None = happens

    def update(self, change: Change) -> DeviceState:
        happens, self._happens = self._happens, None
        if happens is not None:
            happens(self)
        return super().update(change)


def test_of_many_threads_one_reports(tmp_path: Path) -> None:
    made: list[Report | None] = []
    threads = [
        threading.Thread(target=lambda: made.append(device(tmp_path).report(RECORD)))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(made) == 8
    assert sum(report is not None for report in made) == 1


def test_a_device_that_became_another_one_does_not_report_as_the_first() -> None:
    def swap(store: Between) -> None:
        store._state = DeviceState(bytes(range(16)), policy=LARGE)

    store = Between(swap)
    assert unsigned_reporter(PLAN, store, clock=lambda: START * 1000).report(RECORD) is None
    assert not store.read().lineages
