"""Show what a table says: its columns, their labels, what is left out and why.

Write the data dictionary that calmstream plan takes.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import orjson

from calmstream import arguments
from calmstream.output import say_json
from calmstream.pages import understood
from calmstream.tables import declared
from calmstream.tables.dictionaries import read_dictionary
from calmstream.tables.reading import add_options, reading, refuse_options
from calmstream.tables.records import read_table
from calmstream.terminal import Console


def add(parser: argparse.ArgumentParser) -> None:
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
    dictionary = read_dictionary(args.data)
    if dictionary is not None:
        refuse_options(args)
        domain = dictionary.domain
    else:
        table = read_table(args.data, reading(args), declared=declared.declared(args))
        domain = table.domain
    if args.out:
        lines = ",\n".join(f"  {orjson.dumps(entry).decode()}" for entry in domain.to_json())
        arguments.write_file(args.out, f"[\n{lines}\n]\n".encode())
    if args.json:
        say_json(domain.to_json())
        return 0
    console, name = Console(), Path(args.data).name
    if dictionary is not None:
        understood.show_dictionary(console, name, dictionary)
    else:
        understood.show(console, name, table)
        for line in (line for column in table.columns for line in column.warnings):
            console.print(line, style="yellow")
    then = f"calmstream plan {args.out}" if args.out else "--out FILE writes the data dictionary"
    console.print(f"\nnext: {then}", soft_wrap=True)
    return 0
