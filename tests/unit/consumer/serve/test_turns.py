"""The pool: order within a queue, fairness between queues, bounds and cancellation."""

from __future__ import annotations

import threading

import pytest

from calmstream.consumer.runtime.threads import Threads
from calmstream.consumer.serve.problems import Problem, Refused
from calmstream.consumer.serve.turns import Queue

DEADLINE = 60.0


def test_jobs_of_a_queue_run_in_order_one_at_a_time() -> None:
    turns, done = Threads(4, "answers"), []
    queue, running = Queue(turns, 1000), threading.Lock()

    def job(number: int) -> None:
        assert running.acquire(blocking=False)
        done.append(number)
        running.release()

    futures = [queue.submit(lambda n=n: job(n)) for n in range(200)]  # type: ignore[misc]
    for future in futures:
        future.result(DEADLINE)
    assert done == list(range(200))
    turns.close()


def test_queues_take_turns() -> None:
    turns, done = Threads(1, "answers"), []
    gate = threading.Event()
    heavy, light = Queue(turns, 100), Queue(turns, 100)
    heavy.submit(lambda: gate.wait(DEADLINE))
    futures = [heavy.submit(lambda n=n: done.append(("heavy", n))) for n in range(5)]  # type: ignore[misc]
    futures.append(light.submit(lambda: done.append(("light", 0))))
    gate.set()
    for future in futures:
        future.result(DEADLINE)
    # Behind the job that runs and one of the heavy queue at most.
    assert done.index(("light", 0)) <= 1
    turns.close()


def test_a_full_queue_takes_nothing_but_what_must_be_done() -> None:
    turns, gate = Threads(1, "answers"), threading.Event()
    queue, began = Queue(turns, 3), threading.Event()
    first = queue.submit(lambda: (began.set(), gate.wait(DEADLINE)))
    assert began.wait(DEADLINE)
    waiting = [queue.submit(lambda: 1, peer="a") for _ in range(2)]
    with pytest.raises(Refused) as refused:
        queue.submit(lambda: 2, peer="a")
    assert refused.value.problem is Problem.BUSY
    must = queue.submit(lambda: 3)
    assert waiting[0].cancel()
    assert waiting[1].cancel()
    last = queue.submit(lambda: 4, peer="a")  # cancelled jobs make room
    gate.set()
    assert first.result(DEADLINE)
    assert (must.result(DEADLINE), last.result(DEADLINE)) == (3, 4)
    turns.close()


def test_an_error_belongs_to_its_job() -> None:
    turns = Threads(1, "answers")
    queue = Queue(turns, 10)
    bad, good = queue.submit(lambda: 1 / 0), queue.submit(lambda: 5)
    with pytest.raises(ZeroDivisionError):
        bad.result(DEADLINE)
    assert good.result(DEADLINE) == 5
    turns.close()


def test_peers_take_turns_and_the_server_comes_first() -> None:
    turns, gate, done = Threads(1, "answers"), threading.Event(), []
    queue, began = Queue(turns, 100), threading.Event()
    queue.submit(lambda: (began.set(), gate.wait(DEADLINE)))
    assert began.wait(DEADLINE)
    futures = [
        queue.submit(lambda n=n: done.append(("many", n)), peer="many")  # type: ignore[misc]
        for n in range(50)
    ]
    futures.append(queue.submit(lambda: done.append(("one", 0)), peer="one"))
    futures.append(queue.submit(lambda: done.append(("server", 0))))
    gate.set()
    for future in futures:
        future.result(DEADLINE)
    assert done[:3] == [("server", 0), ("many", 0), ("one", 0)]
    assert done[3:] == [("many", n) for n in range(1, 50)]
    turns.close()
