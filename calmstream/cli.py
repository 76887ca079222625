"""The command line: the parser, and the change of errors into one line and an exit code.

Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted; 3 from ``produce``: nothing failed,
but the plan ended before every device was asked. A traceback is shown only with
``CALMSTREAM_DEBUG=1``.
"""

from __future__ import annotations

import argparse
import io
import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from importlib import import_module
from itertools import takewhile
from types import ModuleType
from typing import Any, NoReturn

from calmstream import defaults
from calmstream.common.errors import CalmstreamError, InvalidInput
from calmstream.output import say

GROUPS: Mapping[str, Mapping[str, str]] = {
    "try it": {
        "demo": "watch real marginals appear, in about a minute",
        "evaluate": "measure methods against the truth on a local table",
        "produce": "simulate devices that report the records of a table",
    },
    "design and sign": {
        "look": "show what a table says, and write its data dictionary",
        "plan": "design a collection and write its plan",
        "keys": "make root and signing keys, and certify signing keys",
        "sign": "sign a plan for devices",
        "verify": "check a signed plan as a device does",
        "device": "show what left a device, and what would leave next",
    },
    "run": {
        "topics": "create the plan's topics, or verify them",
        "acl": "print or apply the permissions of each role",
        "gateway": "take reports over HTTP",
        "consume": "count reports and publish snapshots",
        "serve": "show results on a page and over HTTP",
        "sink": "keep published tables in PostgreSQL or Parquet files",
    },
    "read results": {
        "watch": "show snapshots live, as tables with error bars",
        "query": "answer a question about any attributes and windows",
        "changes": "test which tables changed between windows or plans",
        "analyse": "association of attributes from the newest snapshot",
        "export": "write snapshots as CSV, JSON lines, Parquet or Arrow",
        "synthesize": "write made-up records that have the published tables",
    },
    "operate": {
        "status": "show one line for each plan",
        "inspect": "show lag, windows, offsets, rejects and group shares",
        "health": "ask the service on this machine whether it lives",
        "dead-letters": "list refused records with their reasons",
        "retire": "end a plan: last finals, then delete its reports",
    },
    "other": {
        "central": "raw records to a trusted aggregator (not local privacy)",
        "completion": "print what lets a shell complete commands and options",
    },
}
"""All commands with one line for each, in the groups of ``--help``."""

COMMANDS: Mapping[str, str] = {
    name: text for group in GROUPS.values() for name, text in group.items()
}


class Parser(argparse.ArgumentParser):
    """A parser that reports errors in one line, without the usage."""

    def error(self, message: str) -> NoReturn:
        message = message.removeprefix("argument ")
        if wrong := _UNKNOWN.match(message):
            kind, word = wrong[1].lower(), wrong[2]
            words = [name for action in self._actions for name in action.choices or ()]
            message = f"unknown {kind} {word!r}{_meant(word, words)}"
        self.exit(2, f"calmstream: {message} (see {self.prog} --help)\n")

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[Any, list[str]]:
        """Parse; before anything else, an option that does not exist is reported."""
        if self._subparsers is None:
            options = self._option_string_actions
            for word in takewhile(lambda word: word != "--", args or ()):
                name = word.partition("=")[0]
                if name.startswith("--") and not any(o.startswith(name) for o in options):
                    self.error(f"unknown option {name}{_meant(name, options)}")
        return super().parse_known_args(args, namespace)

    def print_help(self, file: Any = None) -> None:
        """Print the help; unlike the base class, do not hide that it could not be written."""
        print(self.format_help(), end="", file=file or sys.stdout, flush=True)


_UNKNOWN = re.compile(r"([A-Z]+): invalid choice: '([^']*)'")  # the base class's error


def _meant(word: str, words: Iterable[str]) -> str:
    """Return a question about the word that is most like a wrong one, if one is."""
    found = get_close_matches(word, list(words), 1)
    return f"; did you mean {found[0]}?" if found else ""


class _Version(argparse.Action):
    """Prints the version; it is looked up only then, because that takes a tenth of the start."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        from calmstream.common.version import version

        say(f"calmstream {version()}")
        parser.exit()


def parser(chosen: str | None = None) -> Parser:
    """Return the parser with the options of one command; of the others it has the names."""
    top = Parser(
        prog="calmstream",
        usage="calmstream COMMAND [OPTION ...]",
        description="Marginal statistics from perturbed reports, over Kafka.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=_groups(),
    )
    top.add_argument("--version", action=_Version, nargs=0, help="show the version and exit")
    commands = top.add_subparsers(
        prog="calmstream", metavar="COMMAND", required=True, help=argparse.SUPPRESS
    )
    for name, text in COMMANDS.items():
        one = commands.add_parser(name, help=text)
        if name == chosen:
            module = _module(name)
            one.description = module.__doc__
            module.add(one)
            if hasattr(module, "run"):
                one.set_defaults(run=module.run)
    return top


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """Return the arguments of a command line, with its function ``run``."""
    found: argparse.Namespace = parser(argv[0] if argv else None).parse_args(argv)
    return found


def _groups() -> str:
    lines = []
    for title, group in GROUPS.items():
        lines += [f"{title}:", *(f"  {name:<13}{text}" for name, text in group.items()), ""]
    return "\n".join([*lines, "calmstream COMMAND --help shows the options of a command.", ""])


def _module(command: str) -> ModuleType:
    try:
        return import_module(f"calmstream.commands.{command.replace('-', '_')}")
    except ModuleNotFoundError as error:
        raise _missing(error, f"calmstream {command}") from None


def _missing(error: ModuleNotFoundError, what: str) -> Exception:
    if error.name is None or error.name.partition(".")[0] == "calmstream":
        return error
    return InvalidInput(
        f"{what} needs the package {error.name}, which is not installed: "
        "pip install 'calmstream[service]'"
    )


ONE_THREAD: Mapping[str, str] = dict.fromkeys(
    ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1"
)
"""Environment that numpy reads when it is loaded: its matrix products use one thread. Several would
add in another order, and the last bits of tables would depend on the number of processors."""


INTERRUPTED = 130  # exit code after Ctrl-C, as of any program that the signal SIGINT ends


def main(argv: Sequence[str] | None = None) -> int:
    argv = sys.argv[1:] if argv is None else argv
    os.environ.update(ONE_THREAD)
    if sys.stdout is None:  # the caller closed it: what is written there is an error
        sys.stdout = open(os.devnull, encoding="utf-8")  # noqa: SIM115, PTH123
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    try:
        if "_ARGCOMPLETE" in os.environ:
            _complete()
        arguments = parse(argv)
        defaults.check_variables(os.environ)
        code = int(arguments.run(arguments))
        sys.stdout.flush()
    except KeyboardInterrupt:
        say("calmstream: interrupted", error=True)
        return INTERRUPTED
    except Exception as error:
        if os.environ.get("CALMSTREAM_DEBUG"):
            raise
        if isinstance(error, ModuleNotFoundError):
            return _fail(_missing(error, "calmstream"))
        return _fail(error)
    return code


def _complete() -> None:
    import argcomplete

    words = os.environ.get("COMP_LINE", "").split()
    argcomplete.autocomplete(parser(words[1] if len(words) > 1 else None))


def _fail(error: Exception) -> int:
    if not isinstance(error, BrokenPipeError):
        # A closed output (``| head``) needs no message.
        text = str(error) if isinstance(error, CalmstreamError) else _unforeseen(error)
        say(f"calmstream: {text}", error=True)
    try:
        sys.stdout.flush()
    except OSError:
        # Otherwise Python reports an error when it flushes stdout at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 2 if isinstance(error, InvalidInput) else 1


def _unforeseen(error: Exception) -> str:
    if isinstance(error, io.UnsupportedOperation):
        return "cannot write: the output is closed"
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    first = next(iter(str(error).splitlines()), "")
    if isinstance(error, MemoryError):
        return f"out of memory: {first}" if first else "out of memory"
    name = type(error).__name__
    return f"internal error, {name}: {first} (CALMSTREAM_DEBUG=1 shows where; please report it)"


if __name__ == "__main__":
    sys.exit(main())
