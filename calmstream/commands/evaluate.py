"""``calmstream evaluate``: measures the errors of methods on a local table and prints them."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, astuple, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import orjson
from rich.progress import Progress
from rich.table import Table as Grid

from calmstream import arguments
from calmstream.common.errors import InvalidInput
from calmstream.estimators import methods
from calmstream.estimators.domain import Domain
from calmstream.estimators.plan.request import Request
from calmstream.estimators.randomness import SeededRandomness
from calmstream.evaluation.evaluate import Result, evaluate
from calmstream.evaluation.population import LINEAGE, local_plan
from calmstream.evaluation.streams import evaluate_stream, times_of
from calmstream.evaluation.synthetic import evaluate_synthetic
from calmstream.evaluation.words import evaluate_words
from calmstream.planning.methods_page import note_of
from calmstream.tables.dictionaries import load_domain
from calmstream.tables.reading import add_options, reading
from calmstream.tables.records import RecordTable, read_table
from calmstream.tables.table import FileColumn
from calmstream.terminal import Console, grid

T = TypeVar("T")

UNCORRECTED = (
    "published without the correction that other methods make: cells can be negative, the sum of "
    "the cells can differ from 1, and TV can exceed 1"
)
"""Note on methods that publish raw tables, whose errors are not comparable with those of others."""


def add(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Draw devices from a table, collect their reports as a plan would, and compare "
        "estimated random marginals with the true ones of the drawn devices."
    )
    parser.add_argument("data", metavar="DATA", help="a table: CSV, Parquet, JSON lines, Excel")
    parser.add_argument(
        "--method",
        required=True,
        type=arguments.names,
        metavar="M[,M]",
        help="methods to compare",
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
    parser.add_argument("--json", action="store_true", help="print one JSON object per line")
    _add_questions(parser)
    _add_collection(parser)
    _add_stream(parser)
    add_options(parser)


def _add_questions(parser: argparse.ArgumentParser) -> None:
    """Add which attributes there are, and which tables are measured."""
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
        "--targets",
        type=arguments.positive,
        default=50,
        help="number of marginals (default: %(default)s)",
    )
    parser.add_argument(
        "--raw", action="store_true", help="measure tables before negative cells are corrected"
    )

    parser.add_argument(
        "--synthetic",
        action="store_true",
        help="measure marginals of 1 to 4 attributes of made-up records, beside the answers",
    )


def _add_collection(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--repeats", type=arguments.positive, default=5, help="repetitions (default: %(default)s)"
    )
    parser.add_argument(
        "--seed", type=int, default=0, help="seed of all random draws (default: %(default)s)"
    )
    parser.add_argument(
        "--tallies",
        choices=("devices", "law"),
        default="devices",
        help="devices: perturb every record (default); law: draw the counts from their exact "
        "distribution, which is faster",
    )
    parser.add_argument(
        "--pilot",
        type=arguments.share,
        metavar="SHARE",
        help="share of the devices that report first, for a method that learns from a pilot "
        "(default: 0.1 for rr-clusters, no pilot for noise-aware)",
    )


def _add_stream(parser: argparse.ArgumentParser) -> None:
    """Add how a table with times is collected, window after window."""
    stream = parser.add_argument_group("a table whose records have a time")
    stream.add_argument(
        "--stream",
        action="store_true",
        help="collect --users devices in each window, and compare finals, totals and current sets",
    )
    stream.add_argument(
        "--time", metavar="COLUMN", help="column with times (default: the first one)"
    )
    stream.add_argument(
        "--window",
        type=arguments.positive_duration,
        default="1d",
        metavar="DUR",
        help="length of a window, such as 6h (default: %(default)s)",
    )


def run(args: argparse.Namespace) -> int:
    table = _table(args)
    for line in (*table.said, *table.warnings):
        Console(stderr=True).print(line, soft_wrap=True)
    finished = list[Result]()
    console = Console(stderr=True)
    if table.domain.hashed:
        if args.stream or args.synthetic:
            what = "stream" if args.stream else "synthetic"
            raise InvalidInput(f"--{what}: not with hashed attributes")
        _columns(table, "hashed attributes")
    if args.stream:
        return _stream(args, table, console)
    if args.synthetic:
        return _synthetic(args, table, console)
    # Without a terminal, an idle bar would leave an empty line before an error message.
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        runs = len(args.method) * len(args.epsilon) * len(args.users) * args.repeats
        task = progress.add_task("collecting and estimating", total=runs)
        for users in args.users:
            results = _evaluated(args, table, users, lambda: progress.advance(task))
            if args.json:
                _write(results)
            else:
                finished += results
    if finished:
        console = Console()
        # A terminal that is too narrow wraps rows, because cut-off numbers would be useless.
        console.width = max(console.width, 80)
        _show(console, finished, raw=args.raw)
    if table.domain.hashed:
        _words(args, table)
    return 0


def _evaluated(
    args: argparse.Namespace, table: RecordTable, users: int, progress: Callable[[], object]
) -> Iterator[Result]:
    return evaluate(
        table,
        dataset=Path(args.data).name.split(".")[0],
        methods=args.method,
        epsilons=args.epsilon,
        k=args.k,
        users=users,
        targets=args.targets,
        repeats=args.repeats,
        seed=args.seed,
        tallies=args.tallies,
        raw=args.raw,
        pilot=args.pilot or 0.0,  # 0.0 means the default of each method
        ranges=args.ranges or 0,
        progress=progress,
        on_worse_than_uniform=_warn,
    )


def _words(args: argparse.Namespace, table: RecordTable) -> None:
    """Measure the shares of words, which depend on no method, and print them."""
    columns = {column.name: column for column in _columns(table, "hashed attributes")}
    method = methods.get(args.method[0])
    plans = [
        local_plan(method, Request(table.domain, epsilon, users, args.k))
        for users in args.users
        for epsilon in args.epsilon
    ]
    found = [one for plan in plans for one in evaluate_words(plan, table.codes, columns, args.seed)]
    if args.json:
        _write_all(found)
        return
    shown = grid("words of", right=("devices", "epsilon", "seen", "false", "± points", "coverage"))
    for one in found:
        numbers = (f"{one.users:,}", f"{one.epsilon:g}", f"{one.seen:,} of {one.words:,}")
        more = (f"{one.false:,}", f"{one.points:.2g}", f"{100 * one.coverage:.1f} %")
        shown.add_row(one.attribute, *numbers, *more)
    Console().print(shown)


def _show(console: Console, finished: list[Result], *, raw: bool) -> None:
    console.print(_about(finished[0], raw=raw))
    if any(note_of(result.method).raw for result in finished):
        console.print(f"(raw): {UNCORRECTED}")
    console.print(_grid(finished))
    if finished[0].ranges is not None:
        console.print(_range_grid(finished))


def _stream(args: argparse.Namespace, table: RecordTable, console: Console) -> int:
    """Measure windows one after another, and print one line for each method and epsilon."""
    column, times = times_of(_columns(table, "--stream"), args.time)
    console.print(f"times: {column}", soft_wrap=True)
    measure = partial(evaluate_stream, table, times, window=args.window)
    found = _measured(args, console, "collecting windows", measure)
    if args.json:
        _write_all(found)
        return 0
    out = Console()
    first = found[0]
    out.print(
        f"{first.windows} windows, {first.measured} of them compared "
        f"with their true tables of {args.k}.\nSquared error of the final, of the total, and of "
        "what is known now (current); now/final is their ratio; coverage: share of the true cells "
        "inside the 95 % intervals of now",
        soft_wrap=True,
    )
    grid = Grid(box=None, pad_edge=False, header_style="bold cyan")
    grid.add_column("method", no_wrap=True)
    for name in ("devices", "epsilon", "final", "total", "now", "now/final", "coverage"):
        grid.add_column(name, justify="right", no_wrap=True)
    for r in found:
        errors = (f"{error:.4g}" for error in (r.final, r.total, r.current))
        ratio, held = f"{r.current / r.final:.3f}", f"{100 * r.coverage:.1f} %"
        grid.add_row(r.method, f"{r.users:,}", f"{r.epsilon:g}", *errors, ratio, held)
    out.print(grid)
    return 0


def _synthetic(args: argparse.Namespace, table: RecordTable, console: Console) -> int:
    """Measure made-up records, and print one line for each method, epsilon and source."""
    measure = partial(evaluate_synthetic, table, repeats=args.repeats)
    found = _measured(args, console, "collecting and drawing", measure)
    if args.json:
        _write_all(found)
        return 0
    orders = tuple(found[0].errors)
    shown = grid("method", "from", right=("epsilon", "users", *(f"SSE of {o}" for o in orders)))
    for r in found:
        errors = ("-" if error is None else f"{error:.3g}" for error in r.errors.values())
        shown.add_row(r.method, r.source, f"{r.epsilon:g}", f"{r.n:,}", *errors)
    out = Console()
    out.print(
        "SSE: squared error summed over the cells of a marginal of 1 to 4 attributes. answers: the "
        "published tables; tree, model: made-up records, as many as devices (synthesize)",
        soft_wrap=True,
    )
    out.print(shown)
    return 0


def _measured(
    args: argparse.Namespace, console: Console, doing: str, measure: Callable[..., Iterable[T]]
) -> list[T]:
    """Return what is measured with each number of users and the options of all measurements."""
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(doing, total=None)
        return [
            result
            for users in args.users
            for result in measure(
                methods=args.method,
                epsilons=args.epsilon,
                k=args.k,
                users=users,
                targets=args.targets,
                seed=args.seed,
                progress=lambda: progress.advance(task),
            )
        ]


def _columns(table: RecordTable, what: str) -> tuple[FileColumn, ...]:
    """Return the columns of the file, whose rows are the records."""
    if any(len(column.places) != len(table.codes) for column in table.file):
        raise InvalidInput(f"{what}: not with --missing drop, which leaves records out")
    return table.file


def _table(args: argparse.Namespace) -> RecordTable:
    """Read the table; a data dictionary says what its attributes are."""
    how = reading(args)
    if args.domain is None:
        table = read_table(args.data, how)
        return table if args.attributes is None else _first(table, args.attributes)
    if args.columns or args.attributes:
        raise InvalidInput("--domain: the data dictionary names the columns; leave others out")
    domain = load_domain(args.domain).keyed(LINEAGE)
    return read_table(args.data, how, domain, SeededRandomness(args.seed))


def _first(table: RecordTable, attributes: int) -> RecordTable:
    """Return the table with its first attributes only."""
    if attributes > len(table.domain):
        raise InvalidInput(f"--attributes {attributes}: there are {len(table.domain)}")
    domain = Domain(table.domain.attributes[:attributes])
    return replace(table, domain=domain, codes=table.codes[:, :attributes], columns=())


def _write_all(found: Iterable[object]) -> None:
    for one in found:
        sys.stdout.buffer.write(orjson.dumps(one, option=orjson.OPT_NON_STR_KEYS) + b"\n")


def _write(results: Iterable[Result]) -> None:
    """Print one JSON object per line.

    Methods that publish uncorrected tables are noted on standard error, once per method.
    """
    noted_methods: set[str] = set()
    for result in results:
        if note_of(result.method).raw and result.method not in noted_methods:
            noted_methods.add(result.method)
            message = f"{result.method}: its tables are {UNCORRECTED}"
            Console(stderr=True).print(message, soft_wrap=True)
        sys.stdout.buffer.write(orjson.dumps(_flat(result)) + b"\n")
        sys.stdout.flush()


def _flat(result: Result) -> dict[str, Any]:
    """Return a result as one JSON object; errors of ranges only where they were asked for."""
    found = asdict(result)
    return found | (found.pop("ranges") or {})


def _warn(result: Result, uniform: float) -> None:
    """Warn on standard error about a method that is worse than the uniform table."""
    Console(stderr=True).print(
        f"{result.method}, epsilon {result.epsilon:g}: its SSE, {result.sse_mean:.3g}, is above "
        f"that of the uniform table, {uniform:.3g}: the uniform table is better",
        soft_wrap=True,
    )


def _about(result: Result, *, raw: bool) -> str:
    """Return a description of the evaluation and of the columns."""
    tables = "tables before negative cells are corrected" if raw else "published tables"
    return (
        f"{result.dataset}: {result.d} attributes, {result.targets} marginals of {result.k}, "
        f"{result.repeats} repeats, {tables}\n"
        "SSE: squared error summed over the cells of a marginal; points: ± in which 95 % of shares "
        "lie; TV: total variation distance; coverage: share of the true cells inside their 95 % "
        "intervals; time: to fit and to answer"
    )


def _grid(results: list[Result]) -> Grid:
    """Return the results as a table for people, one row per result."""
    shown = grid("method", right=("epsilon", "users", "SSE", "points", "TV", "coverage", "time"))
    for r in results:
        shown.add_row(
            f"{r.method} (raw)" if note_of(r.method).raw else r.method,
            f"{r.epsilon:g}",
            f"{r.n:,}",
            f"{r.sse_mean:.3g}",
            f"± {r.points:.2g}",
            f"{r.tv_mean:.4f}",
            f"{100 * r.coverage:.1f} %",
            f"{r.estimate_seconds:.2f} s",
        )
    return shown


def _range_grid(results: list[Result]) -> Grid:
    """Return the errors of ranges as a second table, one row per result."""
    names = ("epsilon", "users", "range MSE", "Wasserstein", "mean", "median")
    shown = grid("method", right=names)
    for r in results:
        errors = () if r.ranges is None else astuple(r.ranges)
        cells = (f"{error:.4g}" for error in errors)
        shown.add_row(r.method, f"{r.epsilon:g}", f"{r.n:,}", *cells)
    return shown
