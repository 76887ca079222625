"""Check that any bytes decode to a batch within its bounds or to a rejection."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest

from calmstream.broker.records import in_chunks
from calmstream.common.errors import Reason, Rejection
from calmstream.consumer.tally.folding.fold import PartitionFold
from calmstream.estimators.randomness import SeededRandomness
from calmstream.estimators.wire.report import decode_report
from calmstream.producer.device.report import Report
from tests.support.attacks.fuzzing import changed, messages, plan_of
from tests.support.tally import TOPIC_ID, at, record

PLAN = plan_of()
GROUPS = range(len(PLAN.groups))


def ones() -> list[bytes]:
    plan = PLAN
    made = []
    for g, mechanism in enumerate(plan.mechanisms):
        columns = mechanism.perturb(np.array([g % mechanism.cells]), SeededRandomness(g))
        view = g % len(plan.groups[g].views)
        made.append(Report(g, g % 4, view, columns).encode(plan))
    return made


def test_a_report_is_read_as_it_was_written() -> None:
    plan, made = PLAN, ones()
    for raw in made:
        report = Report.decode(plan, raw)
        assert report.encode(plan) == raw
        assert not any(column.flags.writeable for column in report.columns.values())


def chain_evenly(
    one: Iterator[bytes | None], other: Iterator[bytes | None]
) -> Iterator[bytes | None]:
    return itertools.chain.from_iterable(zip(one, other, strict=False))


def test_a_changed_report_is_a_report_or_a_rejection() -> None:
    plan, made = PLAN, ones()
    refused: Counter[Reason] = Counter()
    decoded = 0
    for g in GROUPS:
        batches = (value for _, value in messages(plan, g, seed=g))
        for value in itertools.islice(chain_evenly(batches, changed(made, seed=g)), 800):
            try:
                report = Report.decode(plan, value or b"")
            except Rejection as rejection:
                refused[rejection.reason] += 1
                continue
            group, batch = decode_report(plan, value or b"")
            assert (group, batch.n, batch.period) == (report.group, 1, report.period)
            assert 0 <= report.period < plan.windows
            views, mechanism = len(plan.groups[group].views), plan.mechanisms[group]
            assert (batch.view is not None) == (views > 1)
            counts = mechanism.tally(batch.columns, batch.view, views)
            assert counts.shape == (views, mechanism.width)
            assert 0 <= counts.min() <= counts.max() <= mechanism.largest_count
            decoded += 1
    assert decoded > 100, "the fuzzer breaks everything"
    assert refused.total() > 500, "the fuzzer breaks nothing"
    assert Reason.OVER_LIMIT not in refused


def test_a_report_is_no_larger_than_a_batch() -> None:
    for raw in (b"[" * (2 << 20), b" " * (2 << 20)):
        with pytest.raises(Rejection) as refused:
            Report.decode(PLAN, raw)
        assert refused.value.reason is Reason.OVERSIZED


def test_a_fold_survives_everything_and_counts_only_what_is_accepted() -> None:
    """Pass messages through admission, duplicates and windows into the counters."""
    for group in GROUPS:
        fold = PartitionFold.start(PLAN, group, TOPIC_ID)
        accepted = 0
        stream = itertools.islice(messages(PLAN, group, seed=99), 400)
        for offset, (key, value) in enumerate(stream):
            (chunk,) = in_chunks([record(offset, at(0.5 + offset / 20), key, value)])
            accepted += sum(int(outcome.reports.sum()) for outcome in fold.fold(chunk))
        state = fold.state()
        counts = [state.total, *state.open.values()]
        assert sum(count.tally.reports for count in counts) == accepted > 0
        assert state.next_offset == 400
