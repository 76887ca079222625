"""The options of commands that read tables, and a table as they say."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from calmstream import arguments
from calmstream.common.errors import InvalidInput
from calmstream.tables import answers
from calmstream.tables.files import read_file
from calmstream.tables.table import USUAL, FileTable, MissingRule, listed


@dataclass(frozen=True, slots=True, eq=False)
class ReadingOptions:
    """How a table is read. ``choices``: separators by column; empty: none, None: to be found."""

    delimiter: str | None = None
    encoding: str | None = None
    header_rows: int | None = None
    missing: MissingRule = USUAL
    choices: Mapping[str, str | None] = field(default_factory=dict)
    columns: Sequence[str] | None = None


def add_options(parser: argparse.ArgumentParser, *, columns: bool = True) -> None:
    group = parser.add_argument_group("a table, where finding it out is not enough")
    parser.set_defaults(columns=None)
    if columns:
        group.add_argument(
            "--columns",
            type=arguments.names,
            metavar="A,B",
            help="use only these columns, in this order; also those that are left out otherwise",
        )
    group.add_argument("--delimiter", metavar="C", help="separator of cells; also tab or space")
    group.add_argument("--encoding", metavar="E", help="of the text, such as cp1250 or utf-16")
    group.add_argument(
        "--header-rows", type=int, choices=range(4), metavar="N", help="number of header rows, 0-3"
    )
    group.add_argument(
        "--missing",
        type=_missing,
        default=USUAL,
        metavar="HOW[:TEXT,..]",
        help="cells that say nothing (empty, NA, N/A, NaN, null, and these texts): label gives "
        "them the label missing (default), drop leaves such records out, keep takes texts such "
        "as NA as they are",
    )
    group.add_argument(
        "--choices",
        action="append",
        default=[],
        metavar="A[=C]",
        help="column A has several answers in a cell, with C between them (default: found); 'A=' "
        "says that it has one; repeatable",
    )


def reading(args: argparse.Namespace) -> ReadingOptions:
    choices = {}
    for text in args.choices:
        name, equals, separator = text.rpartition("=") if "=" in text else (text, "", "")
        choices[name] = separator.replace("\\n", "\n") if equals else None
    return ReadingOptions(
        args.delimiter, args.encoding, args.header_rows, args.missing, choices, args.columns
    )


def refuse_options(args: argparse.Namespace) -> None:
    for name in ("delimiter", "encoding", "header_rows", "choices", "number"):
        if getattr(args, name, None) not in (None, []):
            option = name.replace("_", "-")
            raise InvalidInput(f"--{option}: {args.data} is a data dictionary, not a table")


def _missing(text: str) -> MissingRule:
    how, _, texts = text.partition(":")
    if how not in ("label", "drop", "keep"):
        raise argparse.ArgumentTypeError(f"expected label, drop or keep, got {how!r}")
    return MissingRule(how, frozenset(part.strip() for part in texts.split(",") if part.strip()))


def load(path: str | Path, how: ReadingOptions) -> FileTable:
    """Return the table in a file; cells with several answers, as stated or found, are lists."""
    try:
        table = read_file(
            path, delimiter=how.delimiter, encoding=how.encoding, header_rows=how.header_rows
        )
        return _with_lists(table, how)
    except InvalidInput as error:
        raise InvalidInput(f"{path}: {error}") from None


def _with_lists(table: FileTable, how: ReadingOptions) -> FileTable:
    names = [column.name for column in table.columns]
    for name in (*how.choices, *(how.columns or ())):
        if name not in names:
            raise InvalidInput(f"there is no column {name!r}; there are {listed(names, 12)}")
    columns, said = [], list(table.said)
    for each in table.columns:
        column = replace(each, rule=how.missing)
        separator = how.choices.get(column.name)
        if separator is None:
            separator = answers.separator_of(column)
            if separator is None and column.name in how.choices:
                raise InvalidInput(
                    f"--choices {column.name}: no separator found; state it, as in "
                    f"--choices '{column.name}=/'"
                )
            if separator is not None:
                said.append(
                    f"choices: cells of {column.name!r} have several answers, with {separator!r} "
                    f"between them; --choices '{column.name}=' takes them whole"
                )
        columns.append(answers.split(column, separator) if separator else column)
    return replace(table, columns=tuple(columns), said=tuple(said))
