"""Check the publisher: which of several is active, its loop, its estimates and its metrics."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from calmstream.common.errors import FatalError, RecoverableError
from calmstream.consumer.publish import session as estimate
from calmstream.consumer.publish.build import SnapshotSet, build_set
from calmstream.consumer.publish.estimate_runner import EstimateRunner
from calmstream.consumer.publish.merge import MergedWindow
from calmstream.consumer.publish.session import PublishingSession
from calmstream.consumer.runtime.service import Alone
from calmstream.estimators.plan import Plan
from calmstream.estimators.wire.snapshot import Kind
from tests.support.faulty_broker import SendFault
from tests.support.publisher import Bench, published_plan, work
from tests.support.service.processes import until

EARLY, FINAL, TOTAL = Kind.EARLY, Kind.FINAL, Kind.TOTAL


# Estimating


def test_a_long_estimate_does_not_hold_up_the_turns(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = threading.Event()

    def slow(plan: Plan, merged: MergedWindow, *, counts: bool) -> SnapshotSet:
        assert release.wait(30)
        return build_set(plan, merged, counts=counts)

    bench.close_all(windows=2)
    bench.put_all()
    publisher = bench.publisher()
    with monkeypatch.context() as patched:
        patched.setattr(estimate, "build_set", slow)
        patched.setattr(publisher, "_estimates", EstimateRunner(wait_seconds=0.01))
        work(publisher, 10)
        assert publisher.active
        assert bench.snapshot_records() == []
        # Somebody else publishes that window meanwhile: this estimate is not wanted any more.
        patched.setattr(estimate, "build_set", build_set)
        work(bench.publication())
        release.set()
    before = bench.snapshot_records()
    assert len(before) == 12
    session = publisher._session
    assert session is not None

    def ended() -> bool:
        publisher.turn()
        return session._due is None

    until("the estimate has ended", ended, 60)
    work(publisher)
    assert bench.snapshot_records() == before
    assert publisher._session is session
    assert session._due is None


def test_what_the_method_raises_stops_the_publisher(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_plan: Plan, merged: MergedWindow, **_: bool) -> SnapshotSet:
        raise FatalError(f"window {merged.window} cannot be estimated")

    bench.close_all()
    bench.put_all()
    monkeypatch.setattr(estimate, "build_set", broken)
    with pytest.raises(FatalError, match="window 0 cannot be estimated"):
        work(bench.publisher())


def test_a_set_of_another_plan_does_not_pass_for_a_published_one(bench: Bench) -> None:
    bench.close_all()
    bench.put_all()
    work(bench.publication())
    own = bench.snapshot_records()
    foreign = Bench(replace(bench.plan, purpose="another"))
    foreign.close_all()
    foreign.put_all()
    work(foreign.publication())
    again = Bench(bench.plan)
    again.close_all()
    again.put_all()
    for key, value in foreign.snapshot_records():
        again.sink.send(again.names.snapshots, key, value).wait(5)
    work(again.publication())
    assert again.snapshot_records()[len(foreign.snapshot_records()) :] == own


# Membership


def test_one_of_two_is_active_and_the_other_takes_over(bench: Bench) -> None:
    bench.close_all()
    one, two = bench.publisher(), bench.publisher()
    for _ in range(4):
        one.turn()
        two.turn()
    assert [one.active, two.active].count(True) == 1
    active, waiting = (one, two) if one.active else (two, one)
    assert not waiting.finished
    assert waiting.ready
    active.finish()
    assert not active.active
    bench.put_all()
    work(waiting)
    assert waiting.active
    assert waiting.finished


# The loop


def test_failures_that_pass_are_tried_again(bench: Bench) -> None:
    bench.close_all()
    bench.put_all()
    bench.broker.faults.plan(bench.names.snapshots, *[SendFault.FAIL] * 2)
    publisher = bench.publisher(started=False)
    stop = threading.Event()
    runner = threading.Thread(target=Alone(publisher).run, args=(stop,), daemon=True)
    runner.start()
    until("everything is published", lambda: len(bench.shown()) == 6, 60)
    stop.set()
    runner.join(60)
    assert not runner.is_alive()
    assert len(bench.shown()) == 6
    assert not publisher.active


def test_failures_that_last_stop_it_when_the_budget_is_spent(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: PublishingSession, __: float) -> bool:
        bench.clock.advance(61)
        raise RecoverableError("nobody answers")

    monkeypatch.setattr(PublishingSession, "step", fail)
    publisher = bench.publisher(started=False)
    with pytest.raises(FatalError, match="the broker did not answer for 60 s: nobody answers"):
        Alone(publisher).run(threading.Event())
    assert not publisher.active


def test_topics_that_are_not_as_they_must_be_stop_it_with_the_remedy(bench: Bench) -> None:
    bench.topics.delete([bench.names.snapshots])
    with pytest.raises(FatalError, match=r"snapshots does not exist; create it: calmstream topics"):
        Alone(bench.publisher(started=False)).run(threading.Event())


def test_metrics_tell_what_was_done(bench: Bench) -> None:
    bench.close_all()
    bench.fill_inputs()
    bench.put_all()
    bench.trim_inputs()
    publisher = bench.publisher()
    registry = publisher._context.metrics.registry
    label = {"plan": f"{bench.plan.name}-{bench.plan.digest[:32]}"}

    def value(name: str, **more: str) -> float | None:
        return registry.get_sample_value(f"calmstream_{name}", label | more)

    assert value("publisher_active") == value("windows_final") == 0
    work(publisher)
    bench.clock.advance(60)
    work(publisher)
    assert value("publisher_active") == 1
    assert value("windows_final") == 3
    assert value("windows_waiting") == 0
    assert value("early_snapshots_published_total") == 0
    assert value("final_snapshots_published_total") == 3
    assert value("estimate_duration_seconds_count") == 6
    assert value("last_snapshot_timestamp_seconds") == bench.clock.now_ms() / 1000 - 60
    assert 0 < (value("expected_standard_error") or 0) < 1
    assert value("group_share_deviation", group="0") == 0
    assert value("final_window_reports") == 2 * 51
    publisher.finish()
    assert value("publisher_active") == value("windows_final") == 0
    assert value("expected_standard_error") == value("final_window_reports") == 0


def test_shares_are_known_again_after_a_restart() -> None:
    bench = Bench(published_plan(partitions=1))
    bench.logs[0].report(0, *([1] * 30)).close(0)
    bench.logs[1].report(0, *([2] * 10)).close(0)
    bench.put_all()
    work(bench.publisher())
    publication = bench.publication()
    work(publication)
    label = f"{bench.plan.name}-{bench.plan.digest[:32]}"

    registry = publication._measures._metrics.registry
    labels = ({"plan": label, "group": group} for group in ("0", "1"))
    found = [registry.get_sample_value("calmstream_group_share_deviation", one) for one in labels]
    # A fair coin thrown 40 times: a quarter is sqrt(10) standard deviations of a share.
    assert found == pytest.approx([10**0.5, -(10**0.5)])
