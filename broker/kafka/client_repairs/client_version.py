"""The version of the Kafka client whose private names the repairs use."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

from calmstream.common.errors import FatalError

CLIENT_VERSION = "3.0.12"
"""Version of kafka-python that the repairs are written for; ``pyproject.toml`` pins the same."""


def check_client_version() -> None:
    """Refuse another version of the client, which may lack a private name."""
    try:
        found = version("kafka-python")
    except PackageNotFoundError:
        found = "of an unknown version"
    if found != CLIENT_VERSION:
        raise FatalError(
            f"the installed Kafka client is kafka-python {found}, expected version "
            f"{CLIENT_VERSION}: pip install 'kafka-python=={CLIENT_VERSION}'"
        )
