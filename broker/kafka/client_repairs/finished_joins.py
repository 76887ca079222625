"""Repair of a consumer that drops the result of a group join which ends between two polls.

Fault: kafka-python starts a join in one poll and takes its result in a later one. If the join is
finished when the later poll begins, the client drops the result and joins once more.
Effect: the second join makes every other member join once more too. Members that poll briefly can
repeat this for minutes.
Repair: the client does wait for a join that is not finished yet. A finished join is therefore
replaced by a task that returns the same result a moment later.
"""

from __future__ import annotations

from kafka import KafkaConsumer


def keep_finished_joins(consumer: KafkaConsumer) -> None:
    """Let a poll take the result of a join that finished between two polls."""
    coordinator = consumer._coordinator
    join = coordinator.join_group_async

    async def join_or_take_result(timeout_ms: float | None = None) -> bool:
        task = coordinator._join_task
        if task is not None and task.is_done and task.succeeded():

            async def result() -> object:
                return task.value

            coordinator._join_task = coordinator._manager.call_soon(result)
        return bool(await join(timeout_ms=timeout_ms))

    coordinator.join_group_async = join_or_take_result
