"""Connection of commands to Kafka; security settings come from the environment only."""

from __future__ import annotations

import argparse
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

from calmstream import arguments
from calmstream.broker.kafka import KafkaBroker, connect
from calmstream.broker.names import TopicNames
from calmstream.broker.security import SecurityConfig
from calmstream.broker.transport import GroupReader, Reader, Sink, Topics
from calmstream.common.settings import load
from calmstream.consumer.subscribe.subscribe import plan_names
from calmstream.estimators.plan import Plan


def kafka(bootstrap: str, **limits: Any) -> KafkaBroker:
    """Connect to ``HOST:PORT[,HOST:PORT]`` with the security of ``CALMSTREAM_*`` variables."""
    return connect(bootstrap, load(SecurityConfig), **limits)


@contextmanager
def opened(args: argparse.Namespace, **limits: Any) -> Iterator[KafkaBroker]:
    """Connect to the broker of ``--bootstrap``, and close the connection at the end."""
    with closing(kafka(args.bootstrap, **limits)) as broker:
        yield broker


def names_of(args: argparse.Namespace, plan: Plan) -> TopicNames:
    return plan_names(plan, **arguments.spaces(args))


class LazyKafka:
    """A `Broker` that connects when it is first needed, and again after a failure; thread-safe."""

    def __init__(self, bootstrap: str, **limits: Any) -> None:
        load(SecurityConfig).client_settings()  # for its errors
        self._bootstrap = bootstrap
        self._limits = limits
        self._lock = threading.Lock()
        self._broker: KafkaBroker | None = None

    def sink(self) -> Sink:
        return self._connected().sink()

    def reader(self) -> Reader:
        return self._connected().reader()

    def group_reader(self, group: str) -> GroupReader:
        return self._connected().group_reader(group)

    def topics(self) -> Topics:
        return self._connected().topics()

    def close(self) -> None:
        with self._lock:
            if self._broker is not None:
                self._broker.close()
                self._broker = None

    def _connected(self) -> KafkaBroker:
        with self._lock:
            if self._broker is None:
                self._broker = kafka(self._bootstrap, **self._limits)
            return self._broker
