"""Reading kept counts: what comes from counts alone, and when manifests of old windows are read."""

from __future__ import annotations

from dataclasses import replace

import pytest

from calmstream.broker.in_process import InProcessBroker
from calmstream.broker.transport import Partition
from calmstream.consumer.read.kept import KeptCounts
from calmstream.estimators.analysis import poisoning
from calmstream.estimators.wire.counts import decode_counts, encode_counts
from calmstream.estimators.wire.snapshot import Kind, manifest_key
from tests.support.publisher import Bench, published_plan, work

WINDOWS = 12
SET = 3
"""Records of a set of the plan: two tables and a manifest."""


def filled(windows: int = WINDOWS, forged: int | None = None) -> Bench:
    """Return a bench with published windows; the reports of one of them are all alike."""
    bench = Bench(published_plan(windows=windows, groups=3))
    for log in bench.logs:
        for window in range(windows):
            cells = [log.group] * 3000 if window == forged else [0, 1, 2, 3]
            log.report(window, *cells).close(window)
    bench.put_all()
    work(bench.publication(), 40 * windows)
    return bench


@pytest.fixture(scope="module")
def long() -> Bench:
    return filled()


@pytest.fixture
def fetched(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the offsets of the records of snapshots topics that readers get."""
    offsets: list[int] = []
    make = InProcessBroker.reader

    def reader(self: InProcessBroker) -> object:
        found = make(self)
        poll = found.poll_chunks

        def polled(*args: object) -> object:
            chunks = poll(*args)  # type: ignore[arg-type]
            for chunk in chunks:
                if chunk.partition.topic.endswith(".snapshots"):
                    offsets.extend(chunk.offset.tolist())
            return chunks

        found.poll_chunks = polled  # type: ignore[method-assign,assignment]
        return found

    monkeypatch.setattr(InProcessBroker, "reader", reader)
    return offsets


def reading(bench: Bench) -> KeptCounts:
    found = KeptCounts(bench.plan, bench.broker, bench.names, bench.clock)
    found.refresh()
    return found


def send(bench: Bench, topic: str, key: bytes | None, value: bytes | None) -> None:
    bench.sink.send(topic, key, value, partition=0).wait(5)


def rewritten(bench: Bench, window: int, **changes: object) -> None:
    """Write the counts of a window again, changed."""
    for record in bench.broker.records(Partition(bench.names.counts, 0)):
        one = decode_counts(bench.plan, record.value or b"")
        if one.window == window:
            value = encode_counts(bench.plan, replace(one, **changes))  # type: ignore[arg-type]
            send(bench, bench.names.counts, record.key, value)


def through(windows: int) -> Bench:
    """Return a bench whose topics are those of the first windows, and the counts of one more."""
    source, bench = filled(windows + 1), Bench(published_plan(windows=windows + 1, groups=3))
    for topic in (source.names.snapshots, source.names.counts):
        for record in source.broker.records(Partition(topic, 0)):
            late = int((record.key or b"").split(b"/")[0]) >= windows
            if topic == source.names.counts or not late:
                send(bench, topic, record.key, record.value)
    return bench


def test_counts_suffice_for_old_windows(long: Bench, fetched: list[int]) -> None:
    kept = reading(long)
    records = 2 * SET * WINDOWS
    assert kept.windows() == list(range(WINDOWS))
    for window in range(WINDOWS):
        final = kept.final(window)
        assert final is not None
        logs = tuple(log.closed_at(window) for log in long.logs)
        assert final == (logs, True, False)
    assert min(fetched) == records - 4 * SET
    assert len(fetched) == 4 * SET


def test_the_search_passes_early_sets(fetched: list[int]) -> None:
    bench = filled(3)
    early = next(
        r.value or b"" for r in bench.broker.records(Partition(bench.names.snapshots, 0))
    ).replace(b'"final"', b'"early"')
    for _ in range(30):
        send(bench, bench.names.snapshots, b"3/early/a0", early)
    kept = reading(bench)
    assert kept.newest() == 2
    assert min(fetched) == 0
    kept.refresh()
    assert kept.windows() == [0, 1, 2]


def test_the_newest_final_is_found_in_spite_of_an_older_one_written_after_it(
    fetched: list[int],
) -> None:
    bench = filled(3)
    key = manifest_key(1, Kind.FINAL)
    old = next(
        r.value for r in bench.broker.records(Partition(bench.names.snapshots, 0)) if r.key == key
    )
    for _ in range(4 * SET):
        send(bench, bench.names.snapshots, key, old)
    assert reading(bench).newest() == 2


def test_counts_before_their_manifest_are_not_final_yet() -> None:
    bench = through(3)
    kept = reading(bench)
    assert kept.newest() == 2
    assert kept.final(3) is None
    assert kept.windows() == [0, 1, 2]


def test_a_window_without_counts_is_known_from_its_manifest(fetched: list[int]) -> None:
    bench = filled()
    counts = Partition(bench.names.counts, 0)
    records = list(bench.broker.records(counts))
    bench.topics.delete([bench.names.counts])
    bench.topics.create([s for s in bench.names.specs(0) if s.name == bench.names.counts])
    for record in records:
        if record.key is not None and not record.key.startswith(b"1/"):
            send(bench, bench.names.counts, record.key, record.value)
    kept = reading(bench)
    assert kept.windows() == [0, *range(2, WINDOWS)]
    assert min(fetched) > 0
    final = kept.final(1)
    assert final is not None
    assert final.counts
    assert not kept.kept(1)
    assert set(fetched) == set(range(2 * SET * WINDOWS))


@pytest.mark.parametrize("offset", [0, 10_000])
def test_counts_that_fit_no_neighbour_are_compared_with_the_manifest(offset: int) -> None:
    bench = filled()
    rewritten(bench, 4, revision=(offset, offset))
    assert reading(bench).windows() == [0, 1, 2, 3, *range(5, WINDOWS)]


def test_a_forged_window_is_known_without_its_manifest(
    monkeypatch: pytest.MonkeyPatch, fetched: list[int]
) -> None:
    bench = filled(forged=2)
    monkeypatch.setattr("calmstream.consumer.read.kept.examine", None)
    found = [reading(bench).final(window) for window in range(WINDOWS)]
    assert [window for window, f in enumerate(found) if f and f.suspicious] == [2]
    assert 0 not in fetched


def test_counts_of_version_1_0_are_examined(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = filled(forged=2)
    for window in range(WINDOWS):
        rewritten(bench, window, suspicious=None)
    examined = []

    def examine(*args: object) -> object:
        examined.append(args)
        return poisoning.examine(*args)  # type: ignore[arg-type]

    monkeypatch.setattr("calmstream.consumer.read.kept.examine", examine)
    kept = reading(bench)
    for _ in range(2):
        found = [kept.final(window) for window in range(WINDOWS)]
        assert [window for window, f in enumerate(found) if f and f.suspicious] == [2]
    assert len(examined) == WINDOWS - 2, "once for a window whose manifest was not read"
