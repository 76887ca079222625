"""Repair of a client that never learns of a new topic or leader again.

*Metadata* are the topics of the cluster with their partitions and leaders.

Fault: kafka-python refreshes its metadata in a loop on its own thread. There it goes over the
group's topics while the caller's thread may change them. The error ends the loop, silently, and
nothing starts it again.
Effect: partitions of topics that are subscribed later are never assigned, and a partition whose
leader changes is never read again.
Repair: an error of any kind fails one refresh only; the next one follows after the usual pause.
"""

from __future__ import annotations

import logging
from typing import Any

from kafka import errors as kafka_errors

_LOG = logging.getLogger(__name__)


def keep_refreshing(client: Any) -> None:
    """Let a client refresh its metadata again after an error of any kind."""
    cluster = client._manager.cluster
    refresh = cluster.refresh_metadata

    async def refresh_or_fail(*arguments: Any, **more: Any) -> None:
        try:
            await refresh(*arguments, **more)
        except kafka_errors.KafkaError:
            raise
        except Exception as error:
            _LOG.warning("a refresh of the metadata failed and is repeated", exc_info=True)
            failure = kafka_errors.KafkaError(f"refreshing metadata: {error!r}")
            cluster.failed_update(failure)
            cluster.request_update()
            raise failure from error

    cluster.refresh_metadata = refresh_or_fail
