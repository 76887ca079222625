"""Proportions that are shown with errors from kept counts."""

from __future__ import annotations

import numpy as np
import pytest

from calmstream.consumer.read.history import History
from calmstream.estimators.wire.snapshot import Kind
from calmstream.pages.exact_conditional import SnapshotWithProportions, with_proportions
from calmstream.pages.watch import plain, view
from tests.support.publisher import Bench, published_plan, work


@pytest.fixture
def bench() -> Bench:
    bench = Bench(published_plan(groups=3))
    bench.close_all()
    bench.put_all()
    work(bench.publication())
    return bench


def asking(bench: Bench) -> History:
    return History(bench.plan, bench.broker, namespace=bench.names.namespace)


def test_the_newest_final_and_total_have_errors_of_their_counts(bench: Bench) -> None:
    with asking(bench) as history:
        found = list(with_proportions(bench.shown(), history, ["a0", "a1"], ["a0"]))
        exact = [s for s in found if isinstance(s, SnapshotWithProportions)]
        assert [(s.window, s.kind) for s in exact] == [(2, Kind.FINAL), (2, Kind.TOTAL)]
        for snapshot, windows in zip(exact, ("latest", "total"), strict=True):
            answer = history.ask(["a0", "a1"], windows, given=["a0"])
            shown = view(snapshot, ["a0", "a1"], ["a0"])
            assert shown.attributes == ("a0", "a1")
            assert np.array(shown.stderr) == pytest.approx(answer.stderr.ravel())
            assert "approximate" not in shown.flags
            assert "independent" not in plain(snapshot, ["a0", "a1"], ["a0"])
            assert view(snapshot, ["a0", "a1"]) == snapshot.record("a0", "a1")
    assert len(found) == 6


def test_others_take_cells_as_independent_and_say_so(bench: Bench) -> None:
    with asking(bench) as history:
        first = next(iter(with_proportions(bench.shown(), history, ["a0", "a1"], ["a0"])))
    shown = view(first, ["a0", "a1"], ["a0"])
    assert shown.flags[-2:] == ("conditional", "approximate")
    assert "independent" in plain(first, ["a0", "a1"], ["a0"])


def test_without_kept_counts_snapshots_are_shown_as_they_are(bench: Bench) -> None:
    bench.topics.delete([bench.names.counts])
    with asking(bench) as history:
        found = list(with_proportions(bench.shown(), history, ["a0", "a1"], ["a0"]))
    assert found == bench.shown()
