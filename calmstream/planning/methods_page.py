"""``calmstream plan --method list``: what a device reports, and how tables are estimated."""

from __future__ import annotations

import argparse
from typing import Any

import orjson

from calmstream.common.errors import PlanError
from calmstream.estimators import methods
from calmstream.estimators.methods.base import Note
from calmstream.output import say

LOCAL, EVALUATION, CENTRAL = "local", "evaluation only", "central"

CENTRAL_NOTE = Note(
    "the raw record, by a trusted aggregator",
    "counts of tuples with noise, those above a threshold",
    "the operator may see records; errors are far smaller (`central plan`)",
    "Gopi, Mahabadi, Yekhanin, Differentially Private Marginals",
)


def note_of(name: str) -> Note:
    """Return what a method says about itself: its note, or the first line of its docstring."""
    method = type(methods.get(name))
    says = (method.__doc__ or "see its package").strip().partition("\n")[0]
    unnoted = Note(says, "", "", f"package {method.__module__}")
    note: Note = getattr(method, "note", unnoted)
    return note


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
                say(_line(name, model_of(name), note_of(name)))
            except PlanError as error:
                say(f"{name}: {error}")
        say(_line(methods.CENTRAL, CENTRAL, CENTRAL_NOTE))
        parser.exit()


def _object(option: argparse.Action, text: str) -> dict[str, Any]:
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise argparse.ArgumentError(option, f"not JSON: {error}") from None
    if not isinstance(value, dict):
        raise argparse.ArgumentError(option, f"expected a JSON object, got {text!r}")
    return value


def _line(name: str, model: str, n: Note) -> str:
    recovers = n.recovers + "; raw" * n.raw
    return f"{name} ({model}): {n.asks}; {recovers}; {n.take or n.source}"
