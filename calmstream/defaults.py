"""Defaults of options, from the environment and ``calmstream.toml``; a check of variables."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from calmstream.common.errors import InvalidInput
from calmstream.common.settings import PREFIX, refuse_unknown, variable, variables

FILE = Path("calmstream.toml")  # in the current directory; options and variables come before it

FROM_FILE = ("bootstrap", "plan", "namespace", "output-namespace")
FROM_ENVIRONMENT = ("bootstrap", "plan")
OTHERS = {"CALMSTREAM_DEBUG", *map(variable, FROM_ENVIRONMENT)}
"""Variables that are no settings of a service."""


def default(option: str) -> str | None:
    """Return the default of an option that the environment states, or else the file."""
    if option not in FROM_FILE:
        return None
    try:
        of_file = _parsed(FILE.read_bytes()) if FILE.is_file() else {}
    except OSError as error:
        raise InvalidInput(f"{FILE}: {error}") from None
    stated = os.environ.get(variable(option)) if option in FROM_ENVIRONMENT else None
    return stated or of_file.get(option)


@cache
def _parsed(raw: bytes) -> dict[str, str]:
    try:
        found = tomllib.loads(raw.decode())
    except ValueError as error:
        raise InvalidInput(f"{FILE}: {error}") from None
    for name, value in found.items():
        if name not in FROM_FILE:
            raise InvalidInput(f"{FILE}: no default {name!r}; there are {', '.join(FROM_FILE)}")
        if not isinstance(value, str):
            raise InvalidInput(f"{FILE}: {name} must be a text")
    return found


def check_variables(environ: Iterable[str]) -> None:
    """Refuse a ``CALMSTREAM_*`` variable that no part of calmstream reads: it may be mistyped."""
    if all(name.upper() in OTHERS for name in environ if name.upper().startswith(PREFIX)):
        return  # without the imports of all settings, which take time at every command
    try:
        known = _settings()
    except ModuleNotFoundError:  # an installation of a device, which has no settings
        return
    refuse_unknown(dict.fromkeys(environ, ""), known | OTHERS)


def _settings() -> set[str]:
    from calmstream.broker.security import SecurityConfig
    from calmstream.consumer.central.config import AggregatorConfig
    from calmstream.consumer.publish.config import PublisherConfig
    from calmstream.consumer.runtime.config import HttpConfig, TallyConfig
    from calmstream.consumer.serve.settings import ServeSettings
    from calmstream.producer.gateway.settings import GatewaySettings

    return variables(
        TallyConfig, PublisherConfig, HttpConfig, SecurityConfig,
        GatewaySettings, ServeSettings, AggregatorConfig,
    )  # fmt: skip
