"""Tests of change that a publisher makes of its newest final, for gauges and their alert."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from calmstream.consumer.metrics.registry import plan_label
from calmstream.consumer.publish import build, change_tests
from calmstream.consumer.publish.follower import UnfinishedWindows
from calmstream.consumer.publish.session import PublishingSession
from calmstream.consumer.read import kept as kept_counts
from calmstream.consumer.read.changes import changes
from calmstream.consumer.read.history import History
from calmstream.estimators.analysis.poisoning import Examination
from calmstream.estimators.plan import Plan
from calmstream.estimators.tally import Tally
from calmstream.estimators.wire.snapshot import Kind
from calmstream.estimators.wire.state import closed_key
from tests.support.publisher import Bench, published_plan, steps, work

GAUGES = ("tables_tested", "tables_changed", "smallest_adjusted_p")


def bench(windows: int = 3) -> Bench:
    found = Bench(published_plan(windows=windows, groups=2), test_changes=True)
    for log in found.logs:
        for window in range(windows):
            log.report(window, *([0, 1, 2, 3] * 30), *([window % 4] * 40)).close(window)
    found.put_all()
    return found


def shown(one: Bench, session: PublishingSession, against: str) -> list[float | None]:
    registry = session._measures._metrics.registry
    labels = {"plan": plan_label(one.plan), "against": against}
    return [registry.get_sample_value(f"calmstream_changes_{name}", labels) for name in GAUGES]


def asked(one: Bench, window: int, against: str) -> list[float]:
    with History(one.plan, one.broker, namespace=one.names.namespace) as history:
        found = changes(history, str(window), against).comparison
    return [found.tested, found.changed, found.smallest]


@pytest.mark.parametrize("against", ["previous", "before"])
def test_gauges_show_what_the_command_says_of_the_newest_final(against: str) -> None:
    one = bench()
    session = one.publication()
    work(session)
    assert session.finished
    found = asked(one, 2, against)
    assert shown(one, session, against) == found
    assert found[0] == len(one.plan.marginals)
    assert found[2] < 0.05


def test_the_first_window_has_nothing_before_it() -> None:
    one = bench(1)
    session = one.publication()
    work(session)
    assert session.finished
    assert shown(one, session, "previous") == shown(one, session, "before") == [0, 0, 1]


def test_tests_that_take_long_delay_no_later_result_and_the_newest_follows() -> None:
    one, held = bench(), []
    one.start_tests = held.append
    session = one.publication()
    work(session)
    assert one.kinds() == [(w, kind) for w in range(3) for kind in (Kind.FINAL, Kind.TOTAL)]
    assert (len(held), session.finished) == (1, False)
    while held:
        held.pop()()
        work(session)
    assert session.finished
    assert shown(one, session, "previous") == asked(one, 2, "previous")


def test_a_publisher_that_starts_later_tests_the_newest_final_from_counts_alone() -> None:
    one = bench()
    one.fill_inputs()
    work(one.publication())
    one.trim_inputs()
    successor = one.publication()
    steps(successor, lambda: successor.caught_up)
    for log in one.logs:
        for window in range(3):
            one.put(log, (closed_key(log.group, log.partition, window), None))
    work(successor)
    assert successor.finished
    assert shown(one, successor, "before") == asked(one, 2, "before")


def test_counts_of_few_windows_are_kept_in_memory() -> None:
    one = bench()
    session = one.publication()
    work(session)
    assert list(session.follower.untested._records) == [2], "the next window is compared with it"
    kept = UnfinishedWindows(one.plan, on=True, most=2)
    for window in range(5):
        for group in range(2):
            kept.read(window, group, b"")
    assert (list(kept._records), kept.whole()) == ([3, 4], [4])


def test_a_failed_test_does_not_stop_a_final(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise np.linalg.LinAlgError("singular")

    monkeypatch.setattr(change_tests, "_compared", broken)
    one = bench()
    session = one.publication()
    work(session)
    assert session.finished
    assert one.kinds()[-1] == (2, Kind.TOTAL)


def test_counts_are_examined_as_those_of_their_number_of_windows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Under w-event, devices report several times in a total or a range."""
    seen: set[tuple[str, int, int]] = set()

    def recording(where: str) -> Callable[..., Examination]:
        def examined(_: Plan, tallies: Sequence[Tally], windows: int = 1) -> Examination:
            seen.add((where, sum(tally.reports for tally in tallies), windows))
            return Examination(())

        return examined

    for module in (build, kept_counts):
        monkeypatch.setattr(module, "examine", recording(module.__name__.split(".")[-1]))
    one = bench(4)
    work(one.publication())
    with History(one.plan, one.broker, namespace=one.names.namespace) as history:
        history.ask(["a0"], "1..3")
    each = min(reports for _, reports, _ in seen)
    assert {(where, windows) for where, _, windows in seen} == {
        *(("build", windows) for windows in (1, 2, 3, 4)),
        ("kept", 3),
    }
    assert all(reports == windows * each for _, reports, windows in seen)
