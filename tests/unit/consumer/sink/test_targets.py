"""Check every target against one contract: whole sets, and no older one after a newer one."""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from calmstream.common.errors import InvalidInput, RecoverableError
from calmstream.consumer.sink.target import Target
from calmstream.consumer.subscribe.assembler import SetId, Snapshot, above
from calmstream.estimators.domain import Attribute, Domain
from calmstream.estimators.mechanisms.registry import standard
from calmstream.estimators.plan import Group, Plan
from calmstream.estimators.view import View
from calmstream.estimators.wire.snapshot import Kind, MarginalRecord
from tests.support.plans import pair_plan
from tests.support.publisher import START, count_of, names_of, published_plan, snapshot_of
from tests.support.sink.postgres import PostgresServer
from tests.support.sink.targets import Place, expected_results, expected_sets, place

PLAN = published_plan(groups=1, windows=20)
NAMES = names_of(PLAN)
SPACE = NAMES.namespace


def snapshot(window: int, kind: Kind, revision: tuple[int, int], reports: int = 5) -> Snapshot:
    cells = [(window + i) % 4 for i in range(reports)]
    return snapshot_of(PLAN, window, kind, revision, count_of(cells, rejects=1))


def check(where: Place, *snapshots: Snapshot) -> None:
    assert where.results() == expected_results(PLAN, NAMES, list(snapshots))
    assert where.sets() == expected_sets(PLAN, NAMES, list(snapshots))


def test_rows_are_the_tables_and_a_second_time_changes_nothing(where: Place) -> None:
    sets = [snapshot(0, Kind.FINAL, (5, 1)), snapshot(0, Kind.TOTAL, (5, 1))]
    sets.append(snapshot(1, Kind.FINAL, (6, 2), reports=0))
    for again in range(2):
        target = where.target()
        target.open()
        stored = target.store(SPACE, sets)
        target.close()
        assert (stored.sets, stored.rows) == ((0, 0) if again else (3, 12))
        check(where, *sets)


def test_a_higher_revision_replaces_and_a_lower_or_other_one_does_not(where: Place) -> None:
    target = where.target()
    target.open()
    newer = snapshot(3, Kind.EARLY, (7, 4), reports=9)
    target.store(SPACE, [snapshot(3, Kind.EARLY, (5, 4))])
    assert target.store(SPACE, [newer]).sets == 1
    for revision in ((7, 4), (6, 4), (8, 3), (7, 4, 9)):
        older = snapshot(3, Kind.EARLY, revision, reports=2)  # type: ignore[arg-type]
        assert target.store(SPACE, [older]).sets == 0
    target.close()
    check(where, newer)


def test_a_final_replaces_the_early_set_for_ever(where: Place) -> None:
    target = where.target()
    target.open()
    early, final = snapshot(2, Kind.EARLY, (5, 4)), snapshot(2, Kind.FINAL, (9, 9))
    target.store(SPACE, [early])
    check(where, early)
    target.store(SPACE, [final])
    check(where, final)
    # After a restart the topic may still hold the early set, before the final or alone.
    for sets in ([early], [snapshot(2, Kind.EARLY, (99, 99))], [early, final]):
        assert target.store(SPACE, sets).sets == 0
        check(where, final)
    target.close()


def test_a_set_with_fewer_tables_leaves_no_row_of_the_earlier_one(where: Place) -> None:
    target = where.target()
    target.open()
    target.store(SPACE, [snapshot(4, Kind.EARLY, (5, 4))])
    empty = Snapshot(snapshot(4, Kind.EARLY, (6, 4)).manifest, {})
    target.store(SPACE, [empty])
    target.close()
    assert where.results() == []
    assert [row[3:5] for row in where.sets()] == [(4, "early")]


def test_another_output_namespace_stands_beside_the_first(where: Place) -> None:
    target = where.target()
    target.open()
    first, again = snapshot(0, Kind.FINAL, (5, 1)), snapshot(0, Kind.FINAL, (5, 1))
    target.store(SPACE, [first])
    assert target.store("again", [again]).sets == 1
    target.close()
    rows = where.results()
    assert {row[0] for row in rows} == {"again", NAMES.namespace}
    assert [row[1:] for row in rows if row[0] == "again"] == [
        row[1:] for row in rows if row[0] != "again"
    ]


ODD = ['"', "\\", "a\tb", "a\nb\r", "{,}", "NULL", "", "\\N", "ü€😀", "'; DROP TABLE--", "a|b"]
MANY = [f"label {number}" for number in range(4096)]
ODD_PLAN = pair_plan(
    "odd",
    START,
    10,
    1,
    domain=Domain((Attribute('na"me\\{}', tuple(ODD)), Attribute("many", tuple(MANY)))),
    k=1,
    groups=(Group(standard("grr", "1", len(ODD)), (View((0,)),), (1,)),),
    marginals=((0,), (1,)),
)


def odd_set(plan: Plan) -> Snapshot:
    whole = snapshot_of(plan, 0, Kind.FINAL, (1,), count_of([]))
    tables = [
        MarginalRecord(
            window=0,
            kind=Kind.FINAL,
            revision=(1,),
            attributes=(attribute.name,),
            labels=(attribute.labels,),
            table=tuple((-1) ** i * 10.0 ** (i % 600 - 300) for i in range(len(attribute.labels))),
            stderr=tuple(i / 7 for i in range(len(attribute.labels))),
            noise_floor=1.0,
            reports=3,
            flags=("covered", "noise"),
        )
        for attribute in plan.domain.attributes
    ]
    manifest = replace(whole.manifest, reports=3)
    return Snapshot(manifest, {table.attributes: table for table in tables})


def test_odd_labels_and_4096_of_them_come_back_as_they_are(where: Place) -> None:
    target, one = where.target(), odd_set(ODD_PLAN)
    target.check_plan(ODD_PLAN)
    target.open()
    target.store(SPACE, [one])
    target.close()
    assert where.results() == expected_results(ODD_PLAN, NAMES, [one])


def test_nul_in_a_label_is_stored_or_refused_before_anything_is_written(where: Place) -> None:
    domain = Domain((Attribute("a", ("x\0", "x", *ODD[2:])), ODD_PLAN.domain.attributes[1]))
    plan = replace(ODD_PLAN, domain=domain)
    target, one = where.target(), odd_set(plan)
    if where.kind == "postgresql":
        with pytest.raises(InvalidInput, match=r"cannot store the character U\+0000.*parquet:DIR"):
            target.check_plan(plan)
        return
    target.check_plan(plan)
    target.open()
    target.store(SPACE, [one])
    assert where.results() == expected_results(plan, NAMES, [one])


def test_two_writers_leave_the_newest_of_each_set(where: Place) -> None:
    """Several processes may store in one target; here threads, with targets of their own."""
    rng = random.Random(7)
    sets = [
        snapshot(window, Kind.EARLY, (n, n), reports=n + 1) for window in range(4) for n in range(6)
    ]
    finals = [snapshot(window, Kind.FINAL, (9, 9), reports=9) for window in range(2)]
    where.target().open()
    failures: list[BaseException] = []

    def write(order: list[Snapshot]) -> None:
        target = where.target()
        try:
            for at in range(0, len(order), 3):
                store_patiently(target, order[at : at + 3])
        except BaseException as error:  # noqa: BLE001 - asserted below
            failures.append(error)
        finally:
            target.close()

    orders = [[*rng.sample(sets, len(sets)), *finals] for _ in range(2)]
    writers = [threading.Thread(target=write, args=(order,)) for order in orders]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(120)
    assert not failures
    check(where, *finals, *(s for s in sets if s.window > 1 and s.revision == (5, 5)))


def store_patiently(target: Target, sets: list[Snapshot]) -> None:
    """Store, and repeat as the follower does where a file is in use."""
    for _ in range(600):
        try:
            target.store(SPACE, sets)
        except RecoverableError:
            time.sleep(0.05)
        else:
            return
    raise AssertionError("the target was never free")


@pytest.mark.parametrize("seed", [0, *(pytest.param(s, marks=pytest.mark.slow) for s in (1, 2))])
def test_any_order_leaves_what_an_oracle_keeps(where: Place, seed: int) -> None:
    rng = random.Random(seed)
    target = where.target()
    target.open()
    kept: dict[SetId, Snapshot] = {}
    for _ in range(12):
        batch = [random_set(rng) for _ in range(rng.randrange(1, 4))]
        target.store(SPACE, [*batch])
        for one in batch:
            keep(kept, one)
        if rng.random() < 0.3:
            target.close()
    target.close()
    check(where, *kept.values())


def random_set(rng: random.Random) -> Snapshot:
    kind = rng.choice(list(Kind))
    # A final and a total have one revision, by the rules of the publisher.
    revision = (9, 9) if kind is not Kind.EARLY else (rng.randrange(4), rng.randrange(4))
    return snapshot(rng.randrange(3), kind, revision, reports=rng.randrange(4))


def keep(kept: dict[SetId, Snapshot], one: Snapshot) -> None:
    if one.kind is Kind.EARLY and SetId(one.window, Kind.FINAL) in kept:
        return
    at = SetId(one.window, one.kind)
    if at in kept and not above(one.revision, kept[at].revision):
        return
    kept[at] = one
    if one.kind is Kind.FINAL:
        kept.pop(SetId(one.window, Kind.EARLY), None)


class Killed(BaseException):
    """Ends a call as a kill of the process does: nothing after it runs."""


@pytest.mark.parametrize("step", range(7))
def test_parquet_after_a_crash_at_any_step(
    step: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = place("parquet", tmp_path, None)
    early = [snapshot(window, Kind.EARLY, (1, 1)) for window in range(2)]
    finals = [snapshot(window, Kind.FINAL, (9, 9)) for window in range(2)]
    target = where.target()
    target.open()
    target.store(SPACE, [*early])
    left = [step]

    def dies(call: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*arguments: Any, **options: Any) -> Any:
            left[0] -= 1
            if left[0] < 0:
                raise Killed
            return call(*arguments, **options)

        return wrapped

    with monkeypatch.context() as patch:
        for name in ("replace", "unlink", "chmod"):
            patch.setattr(Path, name, dies(getattr(Path, name)))
        with contextlib.suppress(Killed):
            where.target().store(SPACE, [*finals])
    # Every file is whole, and each window has its early set or its final.
    kinds = {(row[3], row[4]) for row in where.results()}
    assert {window for window, _ in kinds} == {0, 1}
    where.target().store(SPACE, [*early, *finals])
    check(where, *finals)
    assert not list(tmp_path.rglob("*.tmp"))


def test_a_lost_connection_fails_once_and_the_next_call_connects_again(
    postgres_server: PostgresServer,
) -> None:
    where = place("postgresql", Path(), postgres_server)
    first, second = snapshot(0, Kind.FINAL, (5, 1)), snapshot(1, Kind.FINAL, (6, 1))
    target = where.target()
    target.open()
    target.store(SPACE, [first])
    with postgres_server.connect("postgres") as owner:
        owner.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s",
            (where.address.rsplit("/", 1)[1],),
        )
    with pytest.raises(RecoverableError, match=r"^PostgreSQL .*: "):
        target.store(SPACE, [second])
    assert target.store(SPACE, [second]).sets == 1
    target.close()
    check(where, first, second)
