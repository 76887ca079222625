"""Defaults of options, from the environment and ``calmstream.toml``; a check of variables."""

from __future__ import annotations

import argparse
import os
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path

from calmstream.common.errors import InvalidInput
from calmstream.common.settings import PREFIX, refuse_unknown, variable, variables

FILE = Path("calmstream.toml")  # in the current directory; options and variables come before it

FROM_FILE = ("bootstrap", "plan", "namespace", "output-namespace")
FROM_ENVIRONMENT = ("bootstrap", "plan")
OTHERS = {"CALMSTREAM_DEBUG", *map(variable, FROM_ENVIRONMENT)}
"""Variables that are no settings of a service."""


def apply(parser: argparse.ArgumentParser) -> None:
    """Give a parser, and those of its steps, the defaults of the environment and the file."""
    if given := _given():
        _apply(parser, given)


def _apply(parser: argparse.ArgumentParser, given: Mapping[str, str]) -> None:
    for action in parser._actions:  # noqa: SLF001 - there is no public way to them
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            for step in action.choices.values():
                _apply(step, given)
        elif action.option_strings and action.dest in given:
            action.default, action.required = given[action.dest], False
    kept = parser._defaults  # noqa: SLF001 - of what no option states
    kept |= {name: value for name, value in given.items() if name in kept}
    for group in parser._mutually_exclusive_groups:  # noqa: SLF001
        if any(action.dest in given for action in group._group_actions):  # noqa: SLF001
            group.required = False


def _given() -> dict[str, str]:
    found = _of_file() if FILE.is_file() else {}
    found |= {n: os.environ[variable(n)] for n in FROM_ENVIRONMENT if os.environ.get(variable(n))}
    return {name.replace("-", "_"): value for name, value in found.items()}


def _of_file() -> dict[str, str]:
    try:
        found = tomllib.loads(FILE.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
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
    from calmstream.producer.gateway.http.settings import GatewaySettings

    return variables(
        TallyConfig, PublisherConfig, HttpConfig, SecurityConfig,
        GatewaySettings, ServeSettings, AggregatorConfig,
    )  # fmt: skip
