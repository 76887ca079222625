"""Measure methods against the truth on a local table.

Draw devices from the table, collect their reports as a plan would, and compare estimated random
marginals with the true ones of the drawn devices.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import orjson
from rich.progress import Progress

from calmstream import arguments
from calmstream.common.errors import InvalidInput
from calmstream.estimators.domain import Domain
from calmstream.estimators.randomness import SeededRandomness
from calmstream.evaluation.evaluate import evaluate
from calmstream.evaluation.population import LINEAGE, Study
from calmstream.evaluation.ranges import RangeQuestions
from calmstream.evaluation.streams import evaluate_stream, times_of
from calmstream.evaluation.synthetic import ORDERS, evaluate_synthetic
from calmstream.evaluation.words import evaluate_words
from calmstream.output import say_json
from calmstream.planning.methods_page import is_raw
from calmstream.tables.dictionaries import read_dictionary
from calmstream.tables.reading import add_options, reading
from calmstream.tables.records import RecordTable, read_table
from calmstream.terminal import Console, grid

UNCORRECTED = (
    "(raw): published without the correction that other methods make: cells can be negative, the "
    "sum of the cells can differ from 1, and TV can exceed 1"
)
"""Note on methods that publish raw tables, whose errors are not comparable with those of others."""

_NO_EFFECT = {
    "with --stream": ("repeats", "ranges", "tallies", "pilot"),
    "with --synthetic": ("ranges", "tallies", "pilot", "time", "window"),
    "without --stream": ("time", "window"),
}
"""Options that a form of the measurement does not read."""

_SAME = ("method", "epsilon", "n")
_RESULT = (*_SAME, "sse_mean", "points", "tv_mean", "coverage")
_RANGES = (*_SAME, *RangeQuestions.names)
_STREAM = (*_SAME, "final", "total", "current", "coverage")
_SYNTHETIC = ("method", "source", "epsilon", "n", *(f"errors_{order}" for order in ORDERS))
_WORDS = ("attribute", "epsilon", "n", "words", "seen", "false", "points", "coverage")


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("data", metavar="DATA", help="a table: CSV, Parquet, JSON lines, Excel")
    parser.add_argument(
        "--method", required=True, type=arguments.names, metavar="M[,M]", help="methods to compare"
    )
    parser.add_argument(
        "--epsilon",
        required=True,
        type=arguments.names,
        metavar="E[,E]",
        help="privacy loss of a report",
    )
    parser.add_argument("--k", required=True, type=arguments.positive, help="size of the marginals")
    parser.add_argument(
        "--users",
        required=True,
        type=arguments.users,
        metavar="N[,N]",
        help=f"devices to draw, at most {arguments.MAX_DEVICES:,}",
    )
    arguments.add(parser, "--json")
    _add_questions(parser)
    _add_collection(parser)
    add_options(parser)


def _add_questions(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--attributes", type=arguments.positive, metavar="N", help="use only the first N columns"
    )
    parser.add_argument(
        "--domain",
        metavar="FILE",
        help="a data dictionary (.json): how columns of DATA become attributes (default: learn the "
        "labels from DATA)",
    )
    parser.add_argument(
        "--ranges",
        type=arguments.positive,
        metavar="Q",
        help="measure Q random ranges over the marginals too, and means and medians: labels count "
        "in their order",
    )
    parser.add_argument(
        "--targets", type=arguments.positive, default=50, help="number of marginals (default: 50)"
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument(
        "--synthetic",
        action="store_true",
        help="measure marginals of 1 to 4 attributes of made-up records, beside the answers",
    )
    form.add_argument(
        "--stream",
        action="store_true",
        help="collect --users devices in each window, and compare finals, totals and current sets",
    )


def _add_collection(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--repeats", type=arguments.positive, help="repetitions (default: 5)")
    parser.add_argument(
        "--seed", type=int, default=0, help="seed of all random draws (default: %(default)s)"
    )
    parser.add_argument(
        "--tallies",
        choices=("devices", "law"),
        help="devices: perturb every record (default); law: draw the counts from their exact "
        "distribution, which is faster",
    )
    parser.add_argument(
        "--pilot",
        type=arguments.below(1.0),
        metavar="SHARE",
        help="share of the devices that report first, for a method that learns from a pilot "
        "(default: 0.1 for rr-clusters, no pilot for noise-aware)",
    )
    stream = parser.add_argument_group("with --stream: a table whose records have a time")
    stream.add_argument(
        "--time", metavar="COLUMN", help="column with times (default: the first one)"
    )
    stream.add_argument(
        "--window",
        type=arguments.positive_duration,
        metavar="DUR",
        help="length of a window, such as 6h (default: 1d)",
    )


def run(args: argparse.Namespace) -> int:
    form = "with --synthetic" if args.synthetic else "without --stream"
    form = "with --stream" if args.stream else form
    for name in _NO_EFFECT[form]:
        if getattr(args, name) is not None:
            raise InvalidInput(f"--{name} has no effect {form}; leave it out")
    table = _table(args)
    console = Console(stderr=True)
    for line in (*table.said, *table.warnings):
        console.print(line, soft_wrap=True)
    if table.domain.hashed and (args.stream or args.synthetic):
        raise InvalidInput("hashed attributes: with neither --stream nor --synthetic")
    if args.stream:
        _stream(args, table, console)
    elif args.synthetic:
        about = (
            "errors: squared error summed over the cells of marginals of 1 to 4 attributes. "
            "answers: the published tables; tree, model: made-up records, as many as devices"
        )
        _print(args, _measured(args, table, console, evaluate_synthetic), _SYNTHETIC, about)
    else:
        _methods(args, table, console)
    if table.domain.hashed:
        _print(args, _measured(args, table, console, evaluate_words), _WORDS)
    return 0


def _methods(args: argparse.Namespace, table: RecordTable, console: Console) -> None:
    def measure(study: Study) -> Iterator[dict[str, Any]]:
        results = evaluate(
            study,
            dataset=Path(args.data).name.split(".")[0],
            tallies=args.tallies or "devices",
            pilot=args.pilot or 0.0,  # 0.0 means the default of each method
            ranges=args.ranges or 0,
        )
        for document in map(asdict, results):
            ranges = document.pop("ranges")
            yield document | (ranges or {})

    found = _measured(args, table, console, measure)
    first = found[0]
    about = (
        f"{first['dataset']}: {first['d']} attributes, {first['targets']} marginals of "
        f"{first['k']}, {first['repeats']} repeats, published tables\n"
        "sse_mean: squared error summed over the cells of a marginal; points: ± in which 95 % of "
        "shares lie; tv_mean: total variation distance; coverage: share of the true cells inside "
        "their 95 % intervals"
    )
    if any(is_raw(one["method"]) for one in found):
        about += f"\n{UNCORRECTED}"
    _print(args, found, _RESULT, about)
    if args.ranges:
        _print(args, found, _RANGES)
    for one in found:
        if one["sse_mean"] > one["sse_uniform"] * (1.0 + 1e-9):
            console.print(
                f"{one['method']}, epsilon {one['epsilon']:g}: its sse_mean, "
                f"{one['sse_mean']:.3g}, is above that of the uniform table, "
                f"{one['sse_uniform']:.3g}: the uniform table is better",
                soft_wrap=True,
            )


def _stream(args: argparse.Namespace, table: RecordTable, console: Console) -> None:
    column, times = times_of(table.file, args.time)
    console.print(f"times: {column}", soft_wrap=True)
    measure = partial(evaluate_stream, times=times, window=args.window or 86_400)
    found = _measured(args, table, console, measure)
    first = found[0]
    about = (
        f"{first['windows']} windows, {first['measured']} of them compared with their true tables "
        f"of {args.k}.\nSquared error of the final, of the total, and of what is known now "
        "(current); coverage: share of the true cells inside the 95 % intervals of current"
    )
    _print(args, found, _STREAM, about)


def _measured(
    args: argparse.Namespace,
    table: RecordTable,
    console: Console,
    measure: Callable[[Study], Iterable[dict[str, Any]]],
) -> list[dict[str, Any]]:
    """Return what is measured with each number of users; with --json print it at once."""
    found = []
    # Without a terminal, an idle bar would leave an empty line before an error message.
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("collecting and estimating", total=None)
        for users in args.users:
            study = Study(
                table,
                args.method,
                args.epsilon,
                args.k,
                users,
                args.targets,
                args.seed,
                args.repeats or 5,
                lambda: progress.advance(task),
            )
            for result in measure(study):
                found.append(result)
                if args.json:
                    say_json(result, option=orjson.OPT_NON_STR_KEYS)
    return found


def _print(
    args: argparse.Namespace,
    found: Sequence[Mapping[str, Any]],
    names: Sequence[str],
    about: str = "",
) -> None:
    """Print results for people: some of the fields of ``--json``, one row each."""
    if args.json:
        return
    out = Console()
    # A terminal that is too narrow wraps rows, because cut-off numbers would be useless.
    out.width = max(out.width, 80)
    shown = grid(names[0], right=names[1:])
    for one in found:
        document = dict(one) | {f"errors_{k}": x for k, x in one.get("errors", {}).items()}
        if "method" in document:
            document["method"] += " (raw)" * is_raw(document["method"])
        shown.add_row(*(_text(document.get(name)) for name in names))
    if about:
        out.print(about, soft_wrap=True)
    out.print(shown)


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.3g}"
    return "-" if value is None else f"{value:,}" if isinstance(value, int) else value


def _table(args: argparse.Namespace) -> RecordTable:
    how = reading(args)
    if args.domain is None:
        table = read_table(args.data, how)
        return table if args.attributes is None else _first(table, args.attributes)
    if args.columns or args.attributes:
        raise InvalidInput("--domain: the data dictionary names the columns; leave others out")
    given = read_dictionary(args.domain)
    if given is None:
        raise InvalidInput(
            f"{args.domain}: this is no data dictionary; calmstream look TABLE writes one"
        )
    return read_table(args.data, how, given.domain.keyed(LINEAGE), SeededRandomness(args.seed))


def _first(table: RecordTable, attributes: int) -> RecordTable:
    if attributes > len(table.domain):
        raise InvalidInput(f"--attributes {attributes}: there are {len(table.domain)}")
    domain = Domain(table.domain.attributes[:attributes])
    return replace(table, domain=domain, codes=table.codes[:, :attributes], columns=())
