"""Provide a real Kafka broker to the tests.

It is the broker that CALMSTREAM_TEST_BOOTSTRAP names, or one in a container (testcontainers), or
one from the jars with Java; the first of these that is available. Where CALMSTREAM_TEST_KAFKA_IMAGE
names an image, only a container of this image is tried.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from tests.brokers import container
from tests.brokers.jars import Unavailable
from tests.brokers.native import PATIENT, NativeKafka

GIVEN = "CALMSTREAM_TEST_BOOTSTRAP"
REQUIRED = "CALMSTREAM_REQUIRE_BROKER"
STARTS = 2


@dataclass(frozen=True)
class Provided:
    """A running broker: its address, its kind, and a function that ends it."""

    bootstrap: str
    kind: str
    close: Callable[[], None]


def provide() -> Provided:
    given = os.environ.get(GIVEN)
    if given:
        return Provided(given, f"given by {GIVEN}", lambda: None)
    try:
        bootstrap, close = container.start()
        return Provided(bootstrap, "in a container", close)
    except Unavailable as error:
        if container.demanded():
            raise
        tried = [str(error)]
    for _ in range(STARTS):
        broker = NativeKafka(properties=PATIENT)  # on other ports than the last
        try:
            broker.start()
            return Provided(broker.bootstrap, "native, from its jars", broker.close)
        except Unavailable as error:
            broker.close()
            tried.append(str(error))
    raise Unavailable("; ".join(tried))


def required() -> bool:
    return os.environ.get(REQUIRED, "") not in {"", "0"}


@contextmanager
def or_skip() -> Iterator[None]:
    """Skip (or, if required, fail) a test whose own broker cannot be started."""
    try:
        yield
    except Unavailable as error:
        if required():
            pytest.fail(f"no native broker: {error}")
        pytest.skip(f"this test needs a broker of its own: {error}")
