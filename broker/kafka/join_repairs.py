"""Joining a consumer group with polls that are shorter than a join.

kafka-python 3.0 starts a join in one poll and takes its result in a later one. Two things go wrong
between the two; members that poll briefly, as ours do, meet both.
"""

from __future__ import annotations

from kafka import KafkaConsumer


def finish_joins(consumer: KafkaConsumer) -> None:
    """Have a consumer take the result of every join that it began, and only one per rebalance."""
    _keep_finished_joins(consumer)
    _await_begun_joins(consumer)


def _keep_finished_joins(consumer: KafkaConsumer) -> None:
    """Let a poll take the result of a join that finished between two polls.

    The client drops it and joins once more, which makes every other member join once more too; so
    they may go on for minutes. It does wait for a join that is not done yet, and so a finished one
    is handed to it as one that is about to be.
    """
    coordinator = consumer._coordinator  # noqa: SLF001 - no public way
    join = coordinator.join_group_async

    async def patient(timeout_ms: float | None = None) -> bool:
        task = coordinator._join_task  # noqa: SLF001 - the same
        if task is not None and task.is_done and task.succeeded():

            async def result() -> object:
                return task.value

            coordinator._join_task = coordinator._manager.call_soon(result)  # noqa: SLF001
        return bool(await join(timeout_ms=timeout_ms))

    coordinator.join_group_async = patient


def _await_begun_joins(consumer: KafkaConsumer) -> None:
    """Let polls go on with a join until its result was taken.

    A leader whose topics changed joins because the partitions that it shared out are not those that
    there are. In the middle of the join it shares out anew, and the client sees no reason to join
    any more: if a poll ends just then, no later one takes the result. Such a member has stopped its
    heartbeats for the join. It is expelled, never learns of it, and owns nothing from then on.
    """
    coordinator = consumer._coordinator  # noqa: SLF001 - no public way
    has_reason = coordinator.need_rejoin

    def need_rejoin() -> bool:
        begun = coordinator.rejoining and consumer.subscription() is not None
        return bool(begun or has_reason())

    coordinator.need_rejoin = need_rejoin
