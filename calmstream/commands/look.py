"""``calmstream look``: what a table or a data dictionary says, and the dictionary for a plan."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import orjson

from calmstream.common.errors import InvalidInput
from calmstream.estimators.domain import Domain
from calmstream.pages import understood
from calmstream.tables import declared
from calmstream.tables.dictionaries import Dictionary, read_dictionary
from calmstream.tables.reading import add_options, reading, refuse_options
from calmstream.tables.records import RecordTable, read_table
from calmstream.terminal import Console


def add(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Show what a table says: its columns, their labels, what is left out and why. Write the "
        "data dictionary that calmstream plan takes."
    )
    parser.add_argument(
        "data",
        metavar="TABLE",
        help="a table (CSV, .gz, .zst, Parquet, JSON lines, Excel), or a dictionary: Glean's "
        "metrics.yaml, Go's chart configuration, a JSON Schema",
    )
    parser.add_argument("--out", metavar="FILE", help="write the data dictionary to this file")
    parser.add_argument("--json", action="store_true", help="print the data dictionary as JSON")
    declared.add_options(parser)
    add_options(parser)


def run(args: argparse.Namespace) -> int:
    """Show the table, and write its dictionary."""
    dictionary = read_dictionary(args.data)
    table = None
    if dictionary is None:
        table = read_table(args.data, reading(args), declared=declared.declared(args))
    else:
        refuse_options(args)
    domain = dictionary.domain if dictionary else table.domain if table else Domain(())
    if args.out:
        _write(args.out, domain)
    if args.json:
        sys.stdout.buffer.write(orjson.dumps(domain.to_json()) + b"\n")
        return 0
    console = Console()
    if dictionary:
        _show(console, args.data, dictionary)
    elif table:
        understood.show(console, Path(args.data).name, table)
        _warn(console, table)
    then = f"calmstream plan {args.out}" if args.out else "--out FILE writes the data dictionary"
    console.print(f"\nnext: {then}", soft_wrap=True)
    return 0


def _warn(console: Console, table: RecordTable) -> None:
    for column in table.columns:
        for line in column.warnings:
            console.print(line, style="yellow")


def _show(console: Console, name: str, dictionary: Dictionary) -> None:
    """Print what another dictionary says, and what was not taken over."""
    entries = dictionary.domain.to_json()
    console.print(f"{Path(name).name}: {dictionary.source}, {len(entries)} fields")
    for entry in entries:
        labels = next(entry[x] for x in ("labels", "options", "edges") if x in entry)
        kind = entry.get("kind", "labels")
        text = f"  {entry['name']}: {kind}, {', '.join(labels[:6])}{' ..' * (len(labels) > 6)}"
        console.print(text)
    for field, why in dictionary.left.items():
        console.print(f"  not taken over: {field}, {why}", style="yellow")


def _write(path: str, domain: Domain) -> None:
    lines = ",\n".join(f"  {orjson.dumps(entry).decode()}" for entry in domain.to_json())
    try:
        Path(path).write_text(f"[\n{lines}\n]\n", "utf-8")
    except OSError as error:
        raise InvalidInput(f"{path}: {error.strerror}") from None
