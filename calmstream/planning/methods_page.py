"""``calmstream plan --method list``: the first line of what each method says about itself."""

from __future__ import annotations

import argparse
from typing import Any

import orjson

from calmstream.common.errors import PlanError
from calmstream.estimators import methods
from calmstream.output import say

LOCAL, EVALUATION, CENTRAL = "local", "evaluation only", "central"

SAYS_CENTRAL = "Raw records to a trusted aggregator; counts of tuples with noise (`central plan`)."


def says(name: str) -> str:
    """Return what a method says about itself, in a line."""
    method = type(methods.get(name))
    return (method.__doc__ or f"See {method.__module__}.").strip().partition("\n")[0]


def is_raw(name: str) -> bool:
    """Return whether a method publishes tables without correction, not as distributions."""
    return bool(getattr(methods.get(name), "raw", False))


def model_of(name: str) -> str:
    """Return ``local``, or ``evaluation only``: local, but no plan may name the method."""
    return EVALUATION if methods.get(name).baseline else LOCAL


class MethodOrList(argparse.Action):
    """An option that takes a method, or with ``list`` prints all and exits, as ``--help`` does."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        _: str | None = None,
    ) -> None:
        name, colon, parameters = values.partition(":")
        setattr(namespace, self.dest, name)
        if colon:
            namespace.parameters = _object(self, parameters)
        if values != "list":
            return
        for name in methods.names():
            try:
                say(f"{name} ({model_of(name)}): {says(name)}")
            except PlanError as error:
                say(f"{name}: {error}")
        say(f"{methods.CENTRAL} ({CENTRAL}): {SAYS_CENTRAL}")
        parser.exit()


def _object(option: argparse.Action, text: str) -> dict[str, Any]:
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise argparse.ArgumentError(option, f"not JSON: {error}") from None
    if not isinstance(value, dict):
        raise argparse.ArgumentError(option, f"expected a JSON object, got {text!r}")
    return value
