"""Rows in the text format of PostgreSQL's COPY.

One line for each row, with tabs between the columns. Python makes about a million such lines a
second, because everything but the two numbers of a cell is made once for each table.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from itertools import product

from calmstream.consumer.subscribe.statistic_rows import statistic_rows
from calmstream.estimators.wire.snapshot import MarginalRecord

_IN_COPY = str.maketrans({"\\": r"\\", "\t": r"\t", "\n": r"\n", "\r": r"\r"})
_IN_ARRAY = str.maketrans({"\\": r"\\", '"': r"\""})


def array(texts: Iterable[str]) -> str:
    """Return a column of type ``text[]``."""
    literal = ",".join(f'"{text.translate(_IN_ARRAY)}"' for text in texts)
    return f"{{{literal}}}".translate(_IN_COPY)


def table_line(table_id: int, set_id: int, table: MarginalRecord) -> str:
    """Return the row of a table: id, set, attributes, reports, flags."""
    attributes, flags = array(table.attributes), array(table.flags)
    return f"{table_id}\t{set_id}\t{attributes}\t{table.reports}\t{flags}\n"


def cell_lines(table_id: int, table: MarginalRecord) -> str:
    """Return the rows of a table's cells: table, number, labels, value, standard error."""
    small = len(table.table) <= _CACHED_CELLS
    heads = _cached_heads(table.labels) if small else _heads(table.labels)
    return "".join(
        [
            f"{table_id}\t{head}\t{value!r}\t{error!r}\n"
            for head, value, error in zip(heads, table.table, table.stderr, strict=True)
        ]
    )


def statistic_lines(table_id: int, table: MarginalRecord) -> str:
    r"""Return the rows of a table's statistics; unknown numbers are ``\N``."""
    lines = []
    for place, row in enumerate(statistic_rows([table])):
        texts = [array(row.attributes), array(row.given), array(row.labels), _text(row.statistic)]
        numbers = (row.value, row.stderr, row.low, row.high)
        texts += [r"\N" if number is None else repr(number) for number in numbers]
        texts += [_text(row.unit), array(row.flags)]
        lines.append("\t".join([str(table_id), str(place), *texts]) + "\n")
    return "".join(lines)


def _text(value: str) -> str:
    return value.translate(_IN_COPY)


def _heads(labels: tuple[tuple[str, ...], ...]) -> tuple[str, ...]:
    """Return number and labels of every cell, row-major."""
    return tuple(f"{cell}\t{array(names)}" for cell, names in enumerate(product(*labels)))


_CACHED_CELLS = 1024
_cached_heads = lru_cache(maxsize=1024)(_heads)
