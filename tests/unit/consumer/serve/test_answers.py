"""Answers: each question is computed once at a time, and only while somebody waits for it."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future

from calmstream.consumer.serve.answers import Answers


def test_a_question_is_computed_once_for_all_who_wait() -> None:
    begun: list[Future[bytes]] = []

    def submit() -> Future[bytes]:
        begun.append(Future())
        return begun[-1]

    async def ask() -> list[bytes]:
        answers = Answers(1 << 20, 60.0)
        both = [asyncio.ensure_future(answers.get("a", submit)) for _ in range(2)]
        await asyncio.sleep(0)
        begun[0].set_result(b"table")
        return [*await asyncio.gather(*both), await answers.get("a", submit)]

    assert asyncio.run(ask()) == [b"table"] * 3
    assert len(begun) == 1


def test_a_question_asked_again_at_the_moment_of_its_cancellation_is_answered() -> None:
    """A page asks again at the moment it drops its last request: it gets an answer."""
    begun: list[Future[bytes]] = []

    def submit() -> Future[bytes]:
        begun.append(Future())
        return begun[-1]

    async def ask(steps: int) -> bytes:
        answers = Answers(1 << 20, 60.0)
        first = asyncio.ensure_future(answers.get("a", submit))
        await asyncio.sleep(0)
        first.cancel()
        for _ in range(steps):
            await asyncio.sleep(0)
        second = asyncio.ensure_future(answers.get("a", submit))
        await asyncio.sleep(0)
        if begun[-1].set_running_or_notify_cancel():
            begun[-1].set_result(b"table")
        return await second

    for steps in range(6):
        begun.clear()
        assert asyncio.run(asyncio.wait_for(ask(steps), 60)) == b"table", steps
