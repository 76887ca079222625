"""What happens while the server runs: events, new windows, failures and their end."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from calmstream.broker.transport import Partition, Reader, Topics
from calmstream.common.errors import RecoverableError
from calmstream.consumer.metrics.registry import plan_label
from calmstream.consumer.read.history import History
from calmstream.consumer.serve import server
from calmstream.consumer.serve.problems import Problem
from tests.support.publisher import Bench, published_plan, work
from tests.support.serving import Serving, filled, serving, serving_bench, wait_for


def publish(bench: Bench, window: int) -> None:
    for log in bench.logs:
        log.report(window, 0, 1, 2, 3).close(window)
        bench.put(log, log.closed(window))
    work(bench.publication())


def test_what_is_published_is_answered() -> None:
    bench = Bench(published_plan(groups=3))
    with serving_bench(bench) as live:
        assert live.get("/windows").json()["newest"] is None
        found = live.get("/tables?attributes=a0")
        assert (found.status_code, found.json()["detail"]) == (404, "no window is final yet")
        for window in range(3):
            publish(bench, window)
            wait_for(lambda window=window: live.get("/windows").json()["newest"] == window)
            # A question after a final was listed is about its counts.
            found = live.get("/tables?attributes=a0&windows=latest")
            assert found.json()["windows"][0]["last"] == window
            assert live.get("/windows").json()["kept"] == [[0, window]]
            assert live.get("/tables?attributes=a0").json()["windows"][0]["last"] == window
        assert live.get("/windows").json()["finals"][0]["reports"] == 24


class Away:
    """A broker that can be away: every call of its clients fails then, or finds nothing."""

    def __init__(self, bench: Bench) -> None:
        self.away = False
        self._bench = bench

    def reader(self) -> Reader:
        self._check()
        return self._wrapped(self._bench.broker.reader())

    def topics(self) -> Topics:
        self._check()
        return self._wrapped(self._bench.broker.topics())

    def _check(self) -> None:
        if self.away:
            raise RecoverableError("no broker answers")

    def _wrapped(self, client: Any) -> Any:
        outer = self

        class Client:
            def __getattr__(self, name: str) -> Any:
                if name != "close":
                    outer._check()
                return getattr(client, name)

        return Client()


@contextmanager
def away(bench: Bench, *, at_start: bool) -> Iterator[tuple[Away, Serving]]:
    broker = Away(bench)
    broker.away = at_start
    space = bench.names.namespace
    with serving(bench.plan, broker, namespace=space, ready=not at_start) as found:  # type: ignore[arg-type]
        yield broker, found


def test_a_broker_that_is_away_at_the_start_comes_back() -> None:
    bench = filled(windows=1)
    with away(bench, at_start=True) as (broker, live):
        wait_for(lambda: "no broker answers" in live.server.health.readiness().detail)
        for path in ("/windows", "/tables?attributes=a0", "/series?attributes=a0"):
            found = live.get(path)
            assert found.status_code == 503
            assert found.headers["retry-after"] == "5"
            assert found.json()["detail"] == "no broker answers"
        assert live.get("").status_code == 200  # the plan itself is known
        broker.away = False
        wait_for(lambda: live.server.health.readiness().well)
        assert live.get("/tables?attributes=a0").status_code == 200


def test_known_results_are_shown_while_the_broker_is_away() -> None:
    bench = filled(windows=2)
    with away(bench, at_start=False) as (broker, live):
        before = live.get("/tables?attributes=a0").json()
        broker.away = True
        wait_for(lambda: not live.server.health.readiness().well)
        assert live.get("/tables?attributes=a0").json() == before
        assert live.get("/tables?attributes=a1&windows=0").status_code == 200
        broker.away = False
        publish(bench, 2)
        wait_for(lambda: live.get("/windows").json()["newest"] == 2)
        labels = {"plan": plan_label(bench.plan)}
        name = "calmstream_serve_windows_final"
        wait_for(lambda: live.registry.get_sample_value(name, labels) == 3)
        wait_for(lambda: live.server.health.readiness().well)
        assert live.get("/tables?attributes=a0").json()["windows"][0]["last"] == 2


def test_results_of_a_newer_version_are_refused_until_this_one_is_upgraded() -> None:
    bench = filled(windows=2)
    where = Partition(bench.names.counts, 0)
    record = bench.broker.records(where)[-1]
    newer = (record.value or b"").replace(b'"v":"1.1"', b'"v":"2.0"', 1)
    assert newer != record.value
    bench.sink.send(where.topic, record.key, newer, partition=0).wait(5)
    with serving_bench(bench, ready=False) as live:
        wait_for(lambda: "2.0" in live.server.health.readiness().detail)
        found = live.get("/tables?attributes=a0")
        assert found.status_code == 503
        assert found.json()["type"] == "urn:calmstream:problem:unreadable"
        assert "2.0" in found.json()["detail"]
        assert live.get("/windows").status_code == 200
        assert live.get("/series?attributes=a0").status_code == 200
        # The record is replaced, and all is well.
        bench.sink.send(where.topic, record.key, record.value, partition=0).wait(5)
        bench.broker.compact(where.topic, active=0)
        wait_for(lambda: live.server.health.readiness().well)
        assert live.get("/tables?attributes=a0").status_code == 200


def test_a_retired_plan_says_so() -> None:
    bench = filled(windows=1)
    with serving_bench(bench) as live:
        bench.topics.delete([bench.names.snapshots, bench.names.counts])
        wait_for(lambda: not live.server.health.readiness().well)
        found = live.get("/tables?attributes=a0")
        assert found.status_code == 410
        assert "was deleted: its results are gone" in found.json()["detail"]


def test_without_a_counts_topic_published_tables_are_shown() -> None:
    bench = filled(windows=1)
    bench.topics.delete([bench.names.counts])
    with serving_bench(bench) as live:
        wait_for(lambda: live.get("/tables?attributes=a0").status_code == 410)
        found = live.get("/tables?attributes=a0").json()
        assert found["type"] == "urn:calmstream:problem:not_kept"
        assert "create it: calmstream topics" in found["detail"]
        assert live.get("/series?attributes=a0").json()["windows"][0]["table"]
        # The topic may be made later.
        bench.topics.create([s for s in bench.names.specs(0) if s.name == bench.names.counts])
        wait_for(lambda: "its counts are missing" in live.get("/tables?attributes=a0").text)


def test_forged_windows_are_flagged_and_windows_without_reports_have_a_reason() -> None:
    bench = Bench(published_plan(groups=3))
    for log in bench.logs:
        log.report(0, *([log.group] * 3000)).close(0)
        log.close(1)
    bench.put_all()
    work(bench.publication())
    with serving_bench(bench) as live:
        empty = live.get("/tables?attributes=a0&windows=1")
        assert (empty.status_code, Problem.NO_REPORTS in empty.text) == (404, True)
        finals = live.get("/windows").json()["finals"]
        assert [one["suspicious"] for one in finals] == [True, False]
        for group in ("", "a0=0|1"):
            params = {"attributes": "a0", "group": group}
            found = live.get("/series", params=params).json()["windows"]
            assert [one["table"] is None for one in found] == [False, True]
            assert "suspicious" in found[0]["flags"]


def finish_jobs(live: Serving) -> None:
    """Wait for the jobs with which a plan begins: a first one that reads asks for a second one."""
    for _ in range(2):
        live.service._queue.submit(lambda: None).result(60)


def test_a_slow_answer_is_computed_and_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = filled(windows=2)
    gate, computed = threading.Event(), []
    with serving_bench(bench, answer_seconds=0.2) as live:
        real = History.ask

        def slow(self: History, *given: Any, **options: Any) -> Any:
            gate.wait(60)
            computed.append(given)
            return real(self, *given, **options)

        monkeypatch.setattr(History, "ask", slow)
        for _ in range(2):
            found = live.get("/tables?attributes=a0,a1")
            assert found.status_code == 503
            assert found.json()["type"] == "urn:calmstream:problem:slow"
            assert found.headers["retry-after"] == "2"
        gate.set()
        wait_for(lambda: live.get("/tables?attributes=a0,a1").status_code == 200)
        assert len(computed) == 1


def test_more_questions_than_may_wait_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = filled(windows=2)
    gate, began = threading.Event(), threading.Event()

    def slow(*_: Any, **__: Any) -> None:
        began.set()
        gate.wait(60)

    def problem(attributes: str) -> str:
        found: str = live.get(f"/tables?attributes={attributes}").json()["type"]
        return found.rpartition(":")[2]

    monkeypatch.setattr(server, "MAX_WAITING", 1)
    with serving_bench(bench, answer_seconds=0.1) as live:
        finish_jobs(live)
        monkeypatch.setattr(History, "ask", slow)
        assert problem("a0") == "slow"
        assert began.wait(60)  # it runs; the next one waits
        assert [problem("a1"), problem("a2")] == ["slow", "busy"]
        gate.set()


def test_a_defect_is_one_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = filled(windows=1)
    with serving_bench(bench) as live:
        monkeypatch.setattr(History, "ask", lambda *_, **__: 1 / 0)
        found = live.get("/tables?attributes=a0")
        assert found.status_code == 500
        assert found.json() == {
            "type": "urn:calmstream:problem:internal",
            "title": "The server has a defect.",
            "status": 500,
            "reason": "internal",
        }
        assert live.get("/windows").status_code == 200
