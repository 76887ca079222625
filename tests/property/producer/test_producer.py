"""No value makes a device fail, and its silence does not depend on one: that would reveal it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calmstream import MemoryStore
from calmstream.estimators.plan import Guarantee
from calmstream.estimators.randomness import SeededRandomness
from calmstream.estimators.wire.report import decode_report
from calmstream.producer.device.assignment import place
from calmstream.producer.device.ledger import DeviceState
from tests.support.producer import START, WINDOW, make_plan, unsigned_reporter

PLAN = make_plan()
W_EVENT = make_plan(guarantee=Guarantee("w-event", 4), windows=12)


class Hostile:
    def __str__(self) -> str:
        raise RuntimeError("str")

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("eq")

    def __hash__(self) -> int:
        raise RuntimeError("hash")


class HostileText(str):
    __slots__ = ()

    def __hash__(self) -> int:
        raise RecursionError("hash")


class HostileRecord(Mapping[str, object]):
    def __init__(self, error: type[Exception]) -> None:
        self._error = error

    def __getitem__(self, key: str) -> object:
        raise self._error(key)

    def __iter__(self) -> Iterator[str]:
        raise self._error

    def __len__(self) -> int:
        raise self._error


scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.binary()
    | st.sampled_from(["red", "xl", "1", "", "RED"])
    | st.builds(Hostile)
    | st.builds(HostileText, st.text())
)
values = st.recursive(scalars, lambda v: st.lists(v) | st.dictionaries(st.text(), v), max_leaves=4)
names = st.sampled_from(PLAN.domain.names) | st.text()
records = st.dictionaries(names, values) | st.builds(
    HostileRecord, st.sampled_from([KeyError, TypeError, OSError, RecursionError, MemoryError])
)
anything = records | values
secrets = st.binary(min_size=16, max_size=16)


@pytest.mark.slow
@given(record=anything, secret=secrets)
@settings(max_examples=400, deadline=None)
def test_every_record_yields_a_legal_report(record: object, secret: bytes) -> None:
    store = MemoryStore(DeviceState(secret))
    reporter = unsigned_reporter(PLAN, store, SeededRandomness(1), lambda: START * 1000)
    report = reporter.report(record)  # type: ignore[arg-type]
    assert report is not None
    where = place(PLAN, secret)
    assert (report.group, report.view, report.period) == (where.group, where.view, 0)
    assert decode_report(PLAN, report.encode(PLAN))[0] == where.group


@given(
    pair=st.tuples(anything, anything),
    secret=secrets,
    times=st.lists(st.integers(-WINDOW, 14 * WINDOW), max_size=12),
)
@settings(max_examples=200, deadline=None)
def test_silence_does_not_depend_on_the_record(
    pair: tuple[object, object], secret: bytes, times: list[int]
) -> None:
    now = [0]
    stores = [MemoryStore(DeviceState(secret)) for _ in pair]
    reporters = [unsigned_reporter(W_EVENT, store, clock=lambda: now[0]) for store in stores]
    for second in times:
        now[0] = (START + second) * 1000
        outcomes = []
        for reporter, record in zip(reporters, pair, strict=True):
            before = reporter.status()
            report = reporter.report(record)  # type: ignore[arg-type]
            shown = report and (report.group, report.view, report.period)
            outcomes.append((before, shown, reporter.status()))
        assert outcomes[0] == outcomes[1]
    # All but the history, which holds the perturbed values, is the same.
    states = [replace(store.read(), history=()) for store in stores]
    assert states[0] == states[1]


@given(secret=secrets, times=st.lists(st.integers(0, 12 * WINDOW - 1), max_size=40))
@settings(max_examples=200, deadline=None)
def test_any_w_windows_hold_one_report_at_most(secret: bytes, times: list[int]) -> None:
    now = [0]
    store = MemoryStore(DeviceState(secret))
    periods = []
    for second in times:
        now[0] = (START + second) * 1000
        report = unsigned_reporter(W_EVENT, store, clock=lambda: now[0]).report({})
        if report is not None:
            periods.append(report.period)
    assert all(b - a >= 4 for a, b in pairwise(periods))
    assert {p % 4 for p in periods} <= {place(W_EVENT, secret).slot}
