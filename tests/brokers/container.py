"""Start Kafka in a Docker container, where Docker is available."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from tests.brokers.jars import Unavailable

START_SECONDS = 120
IMAGE = "CALMSTREAM_TEST_KAFKA_IMAGE"
"""Names a local image to use instead of the one that testcontainers pulls."""
# The same settings as the native broker's, so that tests meet the same conditions.
ENVIRONMENT = {
    "KAFKA_AUTO_CREATE_TOPICS_ENABLE": "false",
    "KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "300",
    "KAFKA_GROUP_MIN_SESSION_TIMEOUT_MS": "1000",
    "KAFKA_LOG_CLEANER_BACKOFF_MS": "500",
    "KAFKA_BROKER_SESSION_TIMEOUT_MS": "60000",
}


def demanded() -> bool:
    """Return whether an image is named, so that no other kind of broker may take its place."""
    return bool(os.environ.get(IMAGE))


def start() -> tuple[str, Callable[[], None]]:
    try:
        import docker
        from testcontainers.community.kafka import KafkaContainer
    except ImportError as error:
        raise Unavailable(f"no {error.name} package") from error
    try:
        engine = docker.from_env(timeout=5)
        engine.ping()
    except Exception as error:
        raise Unavailable("Docker does not answer") from error
    image = os.environ.get(IMAGE)
    if image:
        _use_only_what_is_here(engine, image)
    container = (KafkaContainer(image) if image else KafkaContainer()).with_kraft()
    for name, value in ENVIRONMENT.items():
        container.with_env(name, value)
    try:
        container.start(timeout=START_SECONDS)
    except Exception as error:
        container.stop()
        raise Unavailable(f"the container did not start: {error}") from error
    return container.get_bootstrap_server(), container.stop


def _use_only_what_is_here(engine: Any, image: str) -> None:
    """Refuse an image that would be pulled, and do without Ryuk, whose image would be, too."""
    from docker.errors import ImageNotFound
    from testcontainers.core.config import testcontainers_config

    try:
        engine.images.get(image)
    except ImageNotFound as error:
        raise Unavailable(
            f"{IMAGE}: there is no image {image}; tests/containers/images.sh kafka makes one"
        ) from error
    testcontainers_config.ryuk_disabled = True
