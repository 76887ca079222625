"""Counting again into another namespace, also with more time for late reports."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from calmstream.cli import main
from calmstream.common.errors import FatalError
from calmstream.consumer.publish.config import PublisherConfig
from calmstream.estimators.wire.snapshot import Kind
from tests.support.publisher import Bench, published_plan, work
from tests.support.tally import small_plan
from tests.support.tally_bench import Stage


def late(stage: Stage) -> None:
    """Let a window close, and then get one report more."""
    stage.batch(0, [1, 1, 1])
    stage.move_to(stage.plan.window + stage.plan.grace + 1)
    stage.batch(1, [2])
    stage.batch(0, [3])
    worker = stage.worker()
    stage.turns(worker)
    worker.finish()


def test_a_second_count_waits_longer_for_late_reports() -> None:
    stage = Stage(small_plan(windows=4))
    late(stage)
    assert [w.count.tally.reports for w in stage.closed()] == [3]
    assert [letter.reason for letter, _ in stage.dead_letters()] == ["late"]
    again = Stage(stage.plan.counted_with(10 * stage.plan.window))
    assert again.plan.digest == stage.plan.digest
    again.broker, again.clock = stage.broker, stage.clock
    again.names = replace(stage.names, output_namespace="again")
    stage.topics.create(again.names.specs(0)[len(stage.names.all_reports) :])
    again.turns(again.worker())
    assert again.closed() == []
    assert again.states()[-1].open[0].tally.reports == 4
    assert len(stage.dead_letters()) == 1


def test_workers_with_another_grace_do_not_share_a_namespace() -> None:
    stage = Stage(small_plan(windows=4))
    late(stage)
    other = Stage(stage.plan.counted_with(10 * stage.plan.window))
    other.broker, other.clock = stage.broker, stage.clock
    with pytest.raises(FatalError, match="is not the one that was counted"):
        other.turns(other.worker())


def test_the_manifests_of_a_second_count_say_so() -> None:
    bench = Bench(published_plan(windows=1), note="windows waited 99 s for late reports, not 60 s")
    bench.close_all(1)
    bench.put_all()
    work(bench.publication())
    for one in bench.shown():
        assert one.manifest.processing[0] == "windows waited 99 s for late reports, not 60 s"
    assert {one.kind for one in bench.shown()} == {Kind.FINAL, Kind.TOTAL}
    assert PublisherConfig().note == ""


@pytest.mark.parametrize(
    "words",
    [["--plan", "plan.json"], ["--plans", ".", "--allow-unsigned", "--output-namespace", "again"]],
)
def test_another_grace_needs_another_namespace(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
) -> None:
    (tmp_path / "plan.json").write_bytes(small_plan().to_bytes())
    monkeypatch.chdir(tmp_path)
    given = ["consume", *words, "--bootstrap", "127.0.0.1:1", "--grace", "99", "--http-port", "-1"]
    assert main(given) == 2
    assert "--grace goes with --plan FILE and --output-namespace NS" in capsys.readouterr().err
