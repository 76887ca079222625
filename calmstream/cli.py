"""The command line: one parser, one place where errors become a line and an exit code.

Exit codes: 0 done, 1 failed, 2 wrong usage; 3 from ``produce``: nothing failed, but the plan ended
before every device was asked. A traceback is never shown; ``CALMSTREAM_DEBUG=1`` shows it to
developers.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import NoReturn

from calmstream.version import version
from estimators.errors import CalmstreamError, InvalidInput

COMMANDS = (
    "plan",
    "topics",
    "produce",
    "consume",
    "watch",
    "analyse",
    "export",
    "inspect",
    "replay",
    "retire",
    "acl",
    "demo",
    "evaluate",
    "central",
    "health",
)


class Parser(argparse.ArgumentParser):
    """Says what is wrong in one line, instead of a screen of usage before it."""

    def error(self, message: str) -> NoReturn:
        """Exit with 2."""
        self.exit(2, f"calmstream: {message.removeprefix('argument ')} (see {self.prog} --help)\n")


def parser(chosen: str | None = None) -> argparse.ArgumentParser:
    """The command line; every command registers itself.

    Args:
        chosen: load this command alone, as nobody needs the imports of the others then.
    """
    top = Parser(
        prog="calmstream",
        description="Marginal statistics from perturbed reports, over Kafka. Nobody sees a record.",
    )
    top.add_argument("--version", action="version", version=f"calmstream {version()}")
    commands = top.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name in (chosen,) if chosen in COMMANDS else COMMANDS:
        import_module(f"calmstream.commands.{name}").add(commands)
    return top


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the process's exit code."""
    argv = sys.argv[1:] if argv is None else argv
    try:
        arguments = parser(argv[0] if argv else None).parse_args(argv)
        code = int(arguments.run(arguments))
        sys.stdout.flush()
    except KeyboardInterrupt:
        _say("interrupted")
        return 1
    except Exception as error:
        if os.environ.get("CALMSTREAM_DEBUG"):
            raise
        return _fail(error)
    return code


def _fail(error: Exception) -> int:
    """Say it in one line; the exit code."""
    if not isinstance(error, BrokenPipeError):
        # The reader of our output going away (``| head``) is not a failure worth a message.
        _say(error if isinstance(error, CalmstreamError) else _unforeseen(error))
    try:
        sys.stdout.flush()
    except OSError:
        # What cannot be written now would make the interpreter complain at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 2 if isinstance(error, InvalidInput) else 1


def _unforeseen(error: Exception) -> str:
    """What no part of the product turned into a message of its own."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    first = next(iter(str(error).splitlines()), "")
    if isinstance(error, MemoryError):
        return f"out of memory: {first}" if first else "out of memory"
    name = type(error).__name__
    return f"internal error, {name}: {first} (CALMSTREAM_DEBUG=1 shows where; please report it)"


def _say(message: object) -> None:
    print(f"calmstream: {message}", file=sys.stderr)  # noqa: T201 - this is the interface


if __name__ == "__main__":
    sys.exit(main())
