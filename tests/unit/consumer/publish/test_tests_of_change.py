"""The record of tests of change that a publisher writes beside the counts of a final."""

from __future__ import annotations

import numpy as np
import pytest

from broker.transport import Partition
from consumer.metrics.registry import plan_label
from consumer.publish import changes
from consumer.read.kept import KeptCounts
from estimators.errors import ForeignRecord, InvalidInput
from estimators.wire.changes import (
    ChangesRecord,
    Family,
    changes_key,
    decode_changes,
    encode_changes,
    is_changes_key,
)
from estimators.wire.counts import read_record
from tests.support.publisher import Bench, published_plan, work


def bench(windows: int = 3, **config: float) -> Bench:
    found = Bench(published_plan(windows=windows, groups=2), test_changes=True, **config)
    found.close_all(windows)
    found.put_all()
    return found


def records_of(one: Bench) -> dict[int, ChangesRecord]:
    records = one.broker.records(Partition(one.names.counts, 0))
    found = [
        decode_changes(one.plan, r.key, r.value) for r in records if r.key and is_changes_key(r.key)
    ]
    return {record.window: record for record in found}


def test_every_final_has_a_record_with_its_revision() -> None:
    one = bench()
    work(one.publication())
    found = records_of(one)
    assert sorted(found) == [0, 1, 2]
    for window, record in found.items():
        assert record.revision == tuple(log.closed_at(window) for log in one.logs)
        assert [family.against for family in record.families] == ["previous", "before"]
    assert [family.reason for family in found[0].families] == ["no window was before"] * 2
    assert [family.windows for family in found[2].families] == [(1, 1), (0, 1)]
    assert all(len(f.p) == len(one.plan.marginals) for f in found[2].families)


def test_a_publisher_that_starts_later_writes_the_same_bytes() -> None:
    one, other = bench(), bench()
    work(one.publication())
    session = other.publication()
    for _ in range(200):
        session.step(0.0)
        if len(records_of(other)) == 1:
            break
    session.close(0.0)
    work(other.publication())
    assert records_of(other) == records_of(one)


def test_a_failed_test_does_not_stop_a_final(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise np.linalg.LinAlgError("singular")

    monkeypatch.setattr(changes, "changes_record", broken)
    one = bench()
    session = one.publication()
    work(session)
    assert session.finished
    assert records_of(one) == {}


def test_tests_can_be_switched_off() -> None:
    one = Bench(published_plan(windows=2, groups=2), test_changes=False)
    one.close_all(2)
    one.put_all()
    work(one.publication())
    assert records_of(one) == {}


def test_the_record_is_no_counts_record_for_earlier_releases() -> None:
    """They skip records with such a key, and go on."""
    one = bench(1)
    with pytest.raises(ForeignRecord):
        read_record(one.plan, changes_key(0), b"{}")


def test_readers_of_counts_keep_the_record_apart() -> None:
    one = bench()
    work(one.publication())
    kept = KeptCounts(one.plan, one.broker, one.names, one.clock)
    kept.refresh()
    assert kept.windows() == [0, 1, 2]
    assert kept.tests == records_of(one)
    kept.close()


def test_gauges_show_the_newest_tests() -> None:
    one = bench()
    session = one.publication()
    work(session)
    registry = session._measures._metrics.registry
    newest = records_of(one)[2]
    for family in newest.families:
        labels = {"plan": plan_label(one.plan), "against": family.against}
        value = registry.get_sample_value("calmstream_changes_smallest_adjusted_p", labels)
        assert value == family.smallest
        tested = registry.get_sample_value("calmstream_changes_tables_tested", labels)
        assert tested == family.tested


@pytest.mark.parametrize(
    ("value", "error"),
    [
        (None, ForeignRecord),
        (b"{", ForeignRecord),
        (b'{"v":"2.0"}', InvalidInput),
        (b'{"v":"1.0","plan":"x"}', ForeignRecord),
    ],
)
def test_damaged_records_are_refused(value: bytes | None, error: type[Exception]) -> None:
    plan = published_plan(windows=1, groups=1)
    with pytest.raises(error):
        decode_changes(plan, b"0/changes", value)


def test_a_record_survives_its_encoding() -> None:
    plan = published_plan(windows=1, groups=1)
    family = Family("before", (0, 3), (10, 20), 2, 1, 0.01, ("paired",), "", (0.1, None), ({},))
    record = ChangesRecord(4, (1,), (family,))
    raw = encode_changes(plan, record)
    assert decode_changes(plan, b"4/changes", raw) == record
    with pytest.raises(ForeignRecord, match="under another key"):
        decode_changes(plan, b"5/changes", raw)
