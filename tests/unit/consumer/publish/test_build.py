"""The content of sets, and that the same counts always give the same bytes."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from calmstream.common.errors import FatalError, Reason
from calmstream.consumer.publish import build as snapshots
from calmstream.consumer.publish.build import build_set
from calmstream.consumer.publish.merge import MergedWindow
from calmstream.estimators.domain import Attribute, Domain
from calmstream.estimators.marginal import Marginal
from calmstream.estimators.plan import Guarantee
from calmstream.estimators.wire.snapshot import Kind, parse_key
from calmstream.estimators.wire.state import WindowCount
from tests.support.publisher import START, count_of, published_plan


def merged(kind: Kind = Kind.FINAL, window: int = 1) -> MergedWindow:
    first = count_of([0] * 400 + [1] * 100 + [2] * 300 + [3] * 200, rejects=2)
    second = count_of([0] * 500 + [3] * 400)
    with_other = WindowCount(second.tally, {Reason.DUPLICATE: 3, Reason.LATE: 1})
    return MergedWindow(window, kind, (10, 20, 30, 40), (first, with_other))


def test_the_manifest_carries_the_sets_truth() -> None:
    plan = published_plan()
    manifest = build_set(plan, merged()).manifest
    assert manifest.window == 1
    assert manifest.kind is Kind.FINAL
    assert manifest.final
    assert manifest.revision == (10, 20, 30, 40)
    assert (manifest.start, manifest.end) == (START + 10, START + 20)
    assert (manifest.plan, manifest.name) == (plan.digest, plan.name)
    assert (manifest.method, manifest.epsilon) == ("calm", "1")
    assert manifest.guarantee == {"kind": "once", "windows": 1}
    assert (manifest.loss_window, manifest.loss_plan) == ("1", "1")
    assert (manifest.reports, manifest.groups) == (1900, (1000, 900))
    assert manifest.rejected == {"duplicate": 3, "late": 3}
    assert manifest.marginals == ("1/final/a0", "1/final/a0+a1")
    assert manifest.processing[0] == "consistency between overlapping views"
    assert manifest.software


def test_tables_carry_labels_errors_and_the_same_vector() -> None:
    built = build_set(published_plan(), merged())
    one, two = built.marginals
    assert (one.attributes, two.attributes) == (("a0",), ("a0", "a1"))
    assert two.labels == (("0", "1"), ("0", "1"))
    assert {r.revision for r in built.marginals} == {(10, 20, 30, 40)}
    assert sum(two.table) == pytest.approx(1, abs=1e-9)
    assert min(two.stderr) > 0
    assert two.noise_floor == pytest.approx(np.square(two.stderr).sum())
    assert two.reports == 1000
    assert "covered" in two.flags
    flat = np.square(np.concatenate([one.stderr, two.stderr]))
    assert built.standard_error == pytest.approx(np.sqrt(flat.mean()))


def test_a_total_starts_with_the_plan() -> None:
    manifest = build_set(published_plan(), merged(Kind.TOTAL, window=2)).manifest
    assert (manifest.start, manifest.end) == (START, START + 30)
    assert manifest.marginals[0].startswith("2/total/")


def test_the_loss_over_a_plan_follows_from_its_guarantee() -> None:
    plan = published_plan(windows=20, guarantee=Guarantee("w-event", 2), epsilon="0.5")
    assert build_set(plan, merged()).manifest.loss_plan == "5.0"


def test_the_same_counts_give_the_same_bytes() -> None:
    plan = published_plan()
    first, second = build_set(plan, merged()), build_set(plan, merged())
    assert first.tables() == second.tables()
    assert first.closing() == second.closing()


def test_a_method_that_yields_no_numbers_stops_the_publisher(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Broken:
        def fit(self, *_: object) -> Broken:
            return self

        def marginal(self, attributes: tuple[int, ...]) -> Marginal:
            cells = 1 << len(attributes)
            return Marginal(attributes, np.full(cells, np.nan), np.ones(cells), 1)

    monkeypatch.setattr(snapshots.methods, "get", lambda _: Broken())
    with pytest.raises(FatalError, match="not finite in window 1"):
        build_set(published_plan(), merged())


def test_a_model_without_words_of_its_own_is_described_by_its_flags(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Plain:
        def fit(self, *_: object) -> Plain:
            return self

        def marginal(self, attributes: tuple[int, ...]) -> Marginal:
            cells = 1 << len(attributes)
            flags = ("covered", "clipped") if cells == 2 else ("maxent",)
            return Marginal(attributes, np.ones(cells) / cells, np.ones(cells), 1, flags)

    monkeypatch.setattr(snapshots.methods, "get", lambda _: Plain())
    steps = build_set(published_plan(), merged()).manifest.processing
    assert steps == ("non-negativity", "maximum entropy where no view covers")


def test_names_with_separators_keep_their_records_apart() -> None:
    labels = ("0", "1")
    names = ("a", "b", "a+b", "a/b", "a%2Bb", "manifest")
    domain = Domain(tuple(Attribute(name, labels) for name in names))
    plan = dataclasses.replace(
        published_plan(), domain=domain, marginals=((0, 1), (2,), (3,), (4,), (5,))
    )
    built = build_set(plan, merged())
    keys = [key for key, _ in [*built.tables(), built.closing()]]
    assert len(set(keys)) == 6
    assert [parse_key(key)[2] for key in keys] == [False] * 5 + [True]


def honest_window() -> MergedWindow:
    honest = count_of([0, 1, 2, 3] * 250)
    return MergedWindow(1, Kind.FINAL, (1, 2, 3, 4), (honest, honest))


def forged_window() -> MergedWindow:
    honest = count_of([0, 1, 2, 3] * 250)
    return MergedWindow(1, Kind.FINAL, (1, 2, 3, 4), (honest, count_of([3] * 2000)))


def test_tables_that_look_forged_are_flagged() -> None:
    built = build_set(published_plan(), forged_window())
    assert all("suspicious" in record.flags for record in built.marginals)
    honest = build_set(published_plan(), honest_window())
    assert not any("suspicious" in record.flags for record in honest.marginals)
