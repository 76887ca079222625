"""Connection of commands to Kafka; security settings come from the environment only."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

from calmstream import arguments
from calmstream.broker.kafka import KafkaBroker, connect
from calmstream.broker.names import TopicNames
from calmstream.broker.security import SecurityConfig
from calmstream.common.settings import load
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
    return TopicNames.of(plan, **arguments.spaces(args))
