"""Options of commands that read results: which tables, in which format, and where they go."""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Literal

import orjson

from calmstream.arguments import spaces
from calmstream.common.errors import InvalidInput
from calmstream.estimators.domain import Domain
from calmstream.estimators.plan import Plan
from calmstream.estimators.wire.snapshot import Kind

if TYPE_CHECKING:
    from calmstream.consumer.read.history import History
    from calmstream.consumer.subscribe.assembler import Snapshot
    from calmstream.terminal import Console


def attributes(domain: Domain, texts: Sequence[str]) -> tuple[str, ...]:
    """Return the attributes that texts name: each an attribute, a JSON list, or ``A,B``."""
    found: list[str] = []
    for text in texts:
        if text in domain.names:
            found.append(text)
        elif text.lstrip().startswith("["):
            try:
                found += map(str, orjson.loads(text))
            except orjson.JSONDecodeError as error:
                raise InvalidInput(f"{text}: not JSON: {error}") from None
        else:
            found += [part.strip() for part in text.split(",")]
    return tuple(found)


@contextmanager
def history(args: argparse.Namespace, plan: Plan) -> Iterator[History]:
    from calmstream.connect import opened
    from calmstream.consumer.read.history import History

    with opened(args) as broker, History(plan, broker, **spaces(args)) as found:
        yield found


@contextmanager
def snapshots(
    args: argparse.Namespace, plan: Plan, *, follow: bool
) -> Iterator[Iterator[Snapshot]]:
    """Read the snapshots that the options of :func:`add_snapshots` choose."""
    from calmstream.connect import opened
    from calmstream.consumer.subscribe.subscribe import subscribe

    kinds = tuple(Kind) if args.kind is None else (Kind(args.kind),)
    choice = {"kinds": kinds, "from_window": args.from_window, "follow": follow}
    with opened(args) as broker:
        yield subscribe(plan, broker, **choice, **spaces(args))


def add_snapshots(
    parser: argparse.ArgumentParser, kind: Kind | None, from_window: str | None
) -> None:
    """Add which snapshots are read, with the defaults; None means all."""
    parser.add_argument(
        "--kind",
        choices=[each.value for each in Kind],
        default=kind,
        help=f"kind of snapshot (default: {kind or 'all'})",
    )
    parser.add_argument(
        "--from-window",
        type=_from_window,
        default=from_window,
        metavar="W",
        help=f"this window and all later ones; 0: all; latest: only the newest, and all later ones "
        f"(default: {from_window or 'all'})",
    )


def _from_window(text: str) -> int | Literal["latest"]:
    if text == "latest":
        return "latest"
    if not text.isascii() or not text.isdigit():
        raise argparse.ArgumentTypeError(f"expected a window's number or latest, got {text!r}")
    return int(text)


def published(plan: Plan, args: argparse.Namespace) -> tuple[str, ...] | None:
    """Return the table of ``--marginal``; None without the option."""
    if args.marginal is None:
        return None
    names = attributes(plan.domain, args.marginal)
    if plan.domain.index(names) not in plan.marginals:
        raise InvalidInput(
            f"--marginal: {','.join(names)} is not published by this plan; calmstream query asks "
            "for any table"
        )
    return names


def add_output(parser: argparse.ArgumentParser, formats: Sequence[str]) -> None:
    """Add ``--format``, the first by default, and ``--out``, whose name says it too."""
    parser.add_argument(
        "--format",
        choices=(*formats, "jsonl"),
        help=f"default: by the name of --out, else {formats[0]}; jsonl is another name of json",
    )
    parser.add_argument("--out", metavar="FILE", help="write to this file")
    parser.set_defaults(formats=tuple(formats))


def choose_format(args: argparse.Namespace) -> None:
    """Decide the format: the option, or the end of the name of the file, or the default."""
    suffix = "" if args.out is None else Path(args.out).suffix.removeprefix(".")
    named = (args.format or suffix).replace("jsonl", "json")
    args.format = named if named in args.formats else args.formats[0]
    if args.format in ("arrow", "parquet") and args.out is None and sys.stdout.isatty():
        raise InvalidInput(f"--format {args.format} is not text: state a file with --out FILE")


@contextmanager
def output(args: argparse.Namespace) -> Iterator[tuple[BinaryIO, Console]]:
    """Open the output of :func:`add_output`: for bytes, and for text for people."""
    from calmstream.terminal import Console

    if args.out is None:
        yield sys.stdout.buffer, Console()
        return
    try:
        with Path(args.out).open("wb") as file:
            text = io.TextIOWrapper(file, "utf-8", write_through=True)
            yield file, Console(file=text)
            text.detach()
    except OSError as error:
        raise InvalidInput(f"--out {args.out}: {error.strerror}") from None
