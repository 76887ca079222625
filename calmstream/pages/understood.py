"""What was understood of a table, for the person who decides; it fits 80 columns."""

from __future__ import annotations

from calmstream.tables.dictionaries import Dictionary
from calmstream.tables.records import RecordTable
from calmstream.tables.understand import Understood, percent
from calmstream.terminal import Console, grid


def show(console: Console, name: str, table: RecordTable) -> None:
    """Print the columns of a table: what each is, its labels, and how often it says nothing."""
    used = [column for column in table.columns if column.entry is not None]
    console.print(
        f"{name}: {len(table.codes):,} records; {len(used)} of {len(table.columns)} columns are "
        "used",
        style="bold",
    )
    for line in table.said:
        console.print(f"- {line}")
    some = any(column.missing for column in table.columns)
    shown = grid("column", "what it is", "labels", right=("missing",) * some)
    shown.columns[0].max_width = 24
    shown.columns[1].no_wrap = True
    for column in table.columns:
        missing = column.missing / len(column.column.places)
        style = "dim" if column.entry is None else None
        share = [percent(missing) if missing else ""] * some
        shown.add_row(column.column.name, _kind(column), column.why, *share, style=style)
    console.print(shown)


def _kind(column: Understood) -> str:
    entry = column.entry
    if entry is None:
        return "left out"
    if entry.get("kind") == "number":
        return "number"
    if entry.get("kind") == "choices":
        return f"list of {len(entry['options'])}"
    ordered = " in order" if entry.get("kind") == "ordered" else ""
    return f"{len(entry['labels'])} labels{ordered}"


def show_dictionary(console: Console, name: str, dictionary: Dictionary) -> None:
    entries = dictionary.domain.to_json()
    console.print(f"{name}: {dictionary.source}, {len(entries)} fields")
    for entry in entries:
        labels = next(entry[x] for x in ("labels", "options", "edges") if x in entry)
        kind = entry.get("kind", "labels")
        text = f"  {entry['name']}: {kind}, {', '.join(labels[:6])}{' ..' * (len(labels) > 6)}"
        console.print(text)
    for field, why in dictionary.left.items():
        console.print(f"  not taken over: {field}, {why}", style="yellow")
