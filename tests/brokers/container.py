"""Start Kafka in a Docker container, where Docker is available."""

from __future__ import annotations

from collections.abc import Callable

from tests.brokers.jars import Unavailable

START_SECONDS = 120
# The same settings as the native broker's, so that tests meet the same conditions.
ENVIRONMENT = {
    "KAFKA_AUTO_CREATE_TOPICS_ENABLE": "false",
    "KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "300",
    "KAFKA_GROUP_MIN_SESSION_TIMEOUT_MS": "1000",
    "KAFKA_LOG_CLEANER_BACKOFF_MS": "500",
}


def start() -> tuple[str, Callable[[], None]]:
    """Start a broker; return its address and a function that removes it.

    Raises:
        Unavailable: Docker does not answer, or the container does not start.
    """
    try:
        import docker
        from testcontainers.community.kafka import KafkaContainer
    except ImportError as error:
        raise Unavailable(f"no {error.name} package") from error
    try:
        docker.from_env(timeout=5).ping()
    except Exception as error:
        raise Unavailable("Docker does not answer") from error
    container = KafkaContainer().with_kraft()
    for name, value in ENVIRONMENT.items():
        container.with_env(name, value)
    try:
        container.start(timeout=START_SECONDS)
    except Exception as error:
        container.stop()
        raise Unavailable(f"the container did not start: {error}") from error
    return container.get_bootstrap_server(), container.stop
