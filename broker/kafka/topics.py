"""Administration of topics in an Apache Kafka cluster: create, describe, alter, delete."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any

from kafka import KafkaAdminClient, TopicPartition
from kafka import errors as kafka_errors
from kafka.admin import ConfigResource, ConfigResourceType, OffsetSpec

from calmstream.broker.kafka.limits import milliseconds
from calmstream.broker.kafka.translate import lacks, translated
from calmstream.broker.transport import Partition, TopicInfo, TopicSpec
from calmstream.common.errors import FatalError, MissingTopic, RecoverableError

# Pause in seconds between two checks that deleted topics are gone.
_DELETION_CHECK_SECONDS = 0.05


class KafkaTopics:
    """Administers topics; see `Topics`. Safe for several threads."""

    def __init__(self, admin: KafkaAdminClient, request_seconds: float) -> None:
        self._admin = admin
        self._seconds = request_seconds

    def create(self, specs: Sequence[TopicSpec]) -> list[str]:
        wanted = {spec.name: spec for spec in specs}
        for name in self._metadata(list(wanted)):
            del wanted[name]
        if not wanted:
            return []
        request = {
            spec.name: {
                "num_partitions": spec.partitions,
                "replication_factor": -1,  # the broker's default
                "configs": dict(spec.settings),
            }
            for spec in wanted.values()
        }
        with translated(f"creating {_few(wanted)}", "CREATE"):
            response = self._admin.create_topics(request, raise_errors=False)
            created = [topic["name"] for topic in response["topics"] if _created(topic)]
            self._admin.wait_for_topics(list(wanted), timeout_ms=milliseconds(self._seconds))
        return created

    def describe(
        self, names: Sequence[str], settings: Collection[str] | None = None
    ) -> dict[str, TopicInfo]:
        found = self._metadata(names)
        values = self._settings(found, settings) if found and settings != () else {}
        return {
            name: TopicInfo(
                name, str(topic["topic_id"]), len(topic["partitions"]), values.get(name, {})
            )
            for name, topic in found.items()
        }

    def _settings(
        self, names: Collection[str], wanted: Collection[str] | None
    ) -> dict[str, dict[str, str]]:
        keys = None if wanted is None else dict.fromkeys(wanted, "")
        resources = [ConfigResource(ConfigResourceType.TOPIC, name, keys) for name in names]
        with translated(f"describing {_few(names)}", "DESCRIBE_CONFIGS"):
            response = self._admin.describe_configs(resources, config_filter="all")
        found = response.get("topic", {})
        # The client hides a refusal; a topic that is gone has no settings either.
        if unread := self._metadata([name for name in names if not found.get(name)]):
            raise lacks("DESCRIBE_CONFIGS", f"describing {_few(unread)}")
        return {
            name: {key: item["value"] or "" for key, item in items.items()}
            for name, items in found.items()
        }

    def delete(self, names: Sequence[str]) -> None:
        found = list(self._metadata(names))
        if not found:
            return
        with translated(f"deleting {_few(found)}", "DELETE"):
            response = self._admin.delete_topics(found, raise_errors=False)
            for topic in response["topics"]:
                _exists(topic)  # it may be gone already
        deadline = time.monotonic() + self._seconds
        while self._metadata(found):
            if time.monotonic() > deadline:
                raise RecoverableError(f"deleting {_few(found)}: not gone in time")
            time.sleep(_DELETION_CHECK_SECONDS)

    def log_starts(self, partitions: Collection[Partition]) -> dict[Partition, int]:
        return self._offsets(dict.fromkeys(partitions, OffsetSpec.EARLIEST))

    def log_ends(self, partitions: Collection[Partition]) -> dict[Partition, int]:
        return self._offsets(dict.fromkeys(partitions, OffsetSpec.LATEST))

    def first_after(self, times: Mapping[Partition, int]) -> dict[Partition, int]:
        found = self._offsets({partition: time_ms + 1 for partition, time_ms in times.items()})
        return {partition: offset for partition, offset in found.items() if offset >= 0}

    def owned(self, groups: Collection[str]) -> frozenset[Partition]:
        with translated(f"describing {_few(groups)}", "DESCRIBE"):
            found = self._admin.describe_groups(list(groups))
        return frozenset(
            Partition(topic["topic"], number)
            for group in found.values()
            for member in group["members"]
            for topic in (member["member_assignment"] or {}).get("assigned_partitions", ())
            for number in topic["partitions"]
        )

    def alter(self, names: Sequence[str], settings: Mapping[str, str]) -> None:
        changes = [ConfigResource(ConfigResourceType.TOPIC, name, dict(settings)) for name in names]
        with translated(f"altering {_few(names)}", "ALTER_CONFIGS"):
            # The broker itself refuses unknown names. To look them up first, as the client can do,
            # would need one more permission.
            response = self._admin.alter_configs(changes, raise_on_unknown=False)
            for status in response.get("topic", {}).values():
                if status != "OK":
                    raise kafka_errors.KafkaError(status)

    def close(self) -> None:
        with suppress(Exception):
            self._admin.close()

    def partitions(self, topics: Collection[str]) -> dict[str, int]:
        """Return the number of partitions of each topic; MissingTopic names the missing ones."""
        found = self._metadata(sorted(topics))
        if missing := sorted(set(topics) - found.keys()):
            raise MissingTopic(f"topic {missing[0]} does not exist", missing)
        return {name: len(topic["partitions"]) for name, topic in found.items()}

    def _metadata(self, names: Sequence[str]) -> dict[str, dict[str, Any]]:
        if not names:
            return {}
        with translated(f"looking up {_few(names)}", "DESCRIBE"):
            found = self._admin.describe_topics(list(names))
            return {topic["name"]: topic for topic in found if _exists(topic)}

    def _offsets(self, specs: Mapping[Partition, OffsetSpec | int]) -> dict[Partition, int]:
        if not specs:
            return {}
        wanted = {TopicPartition(*partition): spec for partition, spec in specs.items()}
        with translated(f"asking for the offsets of {_few(specs)}", "DESCRIBE"):
            results = self._admin.list_partition_offsets(wanted)
        return {Partition(*where): result.offset for where, result in results.items()}


def _created(topic: dict[str, Any]) -> bool:
    """Return whether a topic was created; raise any error except that it exists."""
    if topic["error_code"] == kafka_errors.TopicAlreadyExistsError.errno:
        return False
    error = kafka_errors.for_code(topic["error_code"])
    if error is kafka_errors.NoError:
        return True
    if error is kafka_errors.TopicAuthorizationFailedError:
        raise error
    message = topic.get("error_message") or error.__name__
    raise FatalError(f"topic {topic['name']} was not created: {message}")


def _exists(topic: dict[str, Any]) -> bool:
    """Return whether the result is for a topic that exists; raise any other error."""
    error = kafka_errors.for_code(topic["error_code"])
    if error not in (kafka_errors.NoError, kafka_errors.UnknownTopicOrPartitionError):
        raise error(topic["name"])
    return error is kafka_errors.NoError


def _few(names: Collection[object]) -> str:
    shown = [str(name) for name in names]
    more = f" and {len(shown) - 2} more" if len(shown) > 2 else ""
    return ", ".join(shown[:2]) + more
