"""Run the central model on the in-process broker, from raw records to releases."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from calmstream.broker.in_process.broker import InProcessTopics
from calmstream.commands.central import lines
from calmstream.common.errors import FatalError, RecoverableError
from calmstream.consumer.central.aggregator import Aggregator
from calmstream.consumer.runtime.service import Alone
from calmstream.estimators.central.ledger import BudgetSpent
from calmstream.estimators.mechanisms.registry import build
from calmstream.estimators.randomness import SeededRandomness
from tests.support.central import PLAN, CentralBench, Patience, released_counts
from tests.support.tally import small_plan


@pytest.fixture
def bench(tmp_path: Path) -> CentralBench:
    return CentralBench(tmp_path)


def fill(bench: CentralBench) -> None:
    bench.submit(3000, sex="F", job="nurse", city="Ulm")
    bench.submit(2000, sex="M", job="nurse", city=None)
    bench.submit(1000, sex="M", job=None, city="")


def test_records_become_noisy_releases_window_by_window(bench: CentralBench) -> None:
    aggregator = bench.aggregator()
    fill(bench)
    bench.turns(aggregator, 2)
    assert bench.releases() == []
    bench.clock.advance(60)
    bench.turns(aggregator)
    (first,) = bench.releases()
    deviation = first.levels[1]["stderr"]
    expected = {("F",): 3000, ("M",): 3000, ("nurse",): 5000, ("Ulm",): 3000}
    assert set(released_counts(first, 1)) == set(expected)
    for value, count in released_counts(first, 1).items():
        assert abs(count - expected[value]) < 6 * deviation
    assert set(released_counts(first, 3)) == {("F", "nurse", "Ulm")}
    assert first.manifest["levels"] == [1, 2, 3]
    assert "6000" not in str(first.manifest)
    bench.submit(500, sex="F", job="baker", city="Bonn")
    bench.clock.advance(60)
    bench.turns(aggregator)
    assert aggregator.over()
    second = bench.releases()[1]
    assert second.manifest["window"] == 1
    assert ("baker",) in released_counts(second, 1)
    assert "epsilon 8 of 8" in second.manifest["spent"]
    text = "\n".join(lines(second))
    assert "job=baker" in text
    assert "central model" in text
    only = "\n".join(lines(first, ("job", "sex")))
    assert "sex=F, job=nurse" in only
    assert "city" not in only
    assert bench.sample("budget_spent_ratio") == pytest.approx(1.0, abs=1e-4)


def test_a_restart_reads_the_log_again_and_releases_nothing_twice(bench: CentralBench) -> None:
    first = bench.aggregator()
    fill(bench)
    bench.clock.advance(60)
    bench.turns(first)
    before = [r.manifest for r in bench.releases()]
    assert len(before) == 1
    second = bench.aggregator(seed=2)
    bench.submit(700, sex="F", job="smith", city="Kiel")
    bench.clock.advance(60)
    bench.turns(second)
    after = bench.releases()
    assert [r.manifest["window"] for r in after] == [0, 1]
    assert after[0].manifest == before[0]
    assert set(released_counts(after[1], 1)) == {("F",), ("smith",), ("Kiel",)}


def test_publishing_stops_when_the_budget_is_spent(bench: CentralBench) -> None:
    bench.account().pay("elsewhere")
    aggregator = bench.aggregator()
    fill(bench)
    bench.clock.advance(200)
    with pytest.raises(BudgetSpent, match="release 1 is refused"):
        Alone(aggregator, until_over=True).run(Patience(bench.clock, 40, 1.5))
    assert [r.manifest["window"] for r in bench.releases()] == [0]
    assert bench.sample("refused_total") == 1


def test_perturbed_reports_and_nonsense_are_refused_without_a_word(bench: CentralBench) -> None:
    from tests.support.tally import Batch, encode_batch

    plan = small_plan()
    mechanism = build({"name": "grr", "cells": 4}, "1")
    reports = mechanism.perturb([1, 2], SeededRandomness(1))  # type: ignore[arg-type]
    local = encode_batch(plan, 0, Batch(0, 2, None, reports))
    sink = bench.broker.sink()
    for value in (local, b"", b"nonsense", None, b"[]"):
        sink.send(bench.names.raw, b"k" * 16, value).wait(1)
    aggregator = bench.aggregator()
    bench.clock.advance(60)
    bench.turns(aggregator)
    (first,) = bench.releases()  # an empty window is released like any other
    assert first.levels[1]["tables"] == []


def test_memory_is_checked_from_the_plan_before_anything_is_read(tmp_path: Path) -> None:
    # 1,000 users, of whom all count: 400 bytes each and 1,025 for each of three values.
    bench = CentralBench(tmp_path, replace(PLAN, users=1000))
    with pytest.raises(FatalError, match="raise CALMSTREAM_RAW_MEMORY_BYTES") as refusal:
        bench.aggregator(memory=3_474_999)
    assert "\n" not in str(refusal.value)
    assert "up to 3,475,000 bytes" in str(refusal.value)
    bench.aggregator(memory=3_475_000)
    # A sample needs less, and a plan that does not state its users is never refused.
    sampled = replace(PLAN, users=1000, sample="0.1")
    CentralBench(tmp_path / "sampled", sampled).aggregator(memory=1_000_000)
    CentralBench(tmp_path / "silent").aggregator(memory=1 << 16)


def test_missing_topics_are_named(bench: CentralBench) -> None:
    bench.broker.topics().delete([bench.names.raw])
    with pytest.raises(FatalError, match="calmstream central topics"):
        bench.aggregator().turn()


def test_no_account_is_bound_to_a_topic_that_must_be_made_again(bench: CentralBench) -> None:
    bench.broker.grow(bench.names.releases, 3)
    with pytest.raises(FatalError, match="has 3 partitions, the plan states 1"):
        bench.aggregator().turn()
    assert bench.account().read().topic == ""


def until_it_stops(bench: CentralBench, aggregator: Aggregator) -> None:
    """Take turns for two minutes of the clock; every look at the topics is awaited."""
    for _ in range(120):
        aggregator.turn()
        bench.clock.advance(1.0)
        assert aggregator._watch is not None
        if aggregator._watch._thread is not None:
            aggregator._watch._thread.join(30)


def test_no_broker_is_said_and_ends_the_aggregator(
    bench: CentralBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    aggregator, said = bench.aggregator(), []
    aggregator.turn()
    assert aggregator.health.readiness().well
    monkeypatch.setattr(aggregator, "_send", lambda: said.append(aggregator.health.readiness()))

    def away(*_: object) -> None:
        raise RecoverableError("the broker does not answer")

    monkeypatch.setattr(InProcessTopics, "describe", away)
    with pytest.raises(FatalError, match=r"for 6\d s; start again \(.*does not answer"):
        until_it_stops(bench, aggregator)
    assert any("no broker has answered" in verdict.detail for verdict in said)


def test_a_raw_topic_that_changes_stops_the_aggregator_with_the_remedy(bench: CentralBench) -> None:
    aggregator = bench.aggregator()
    aggregator.turn()
    bench.broker.topics().alter([bench.names.raw], {"message.timestamp.type": "CreateTime"})
    with pytest.raises(FatalError, match="CreateTime, not LogAppendTime; set it back"):
        until_it_stops(bench, aggregator)


def test_raw_records_in_added_partitions_are_said_to_be_lost(bench: CentralBench) -> None:
    aggregator = bench.aggregator()
    aggregator.turn()
    bench.broker.grow(bench.names.raw, PLAN.partitions + 1)
    until_it_stops(bench, aggregator)
    assert "are never counted" in aggregator.health.readiness().detail
