"""Results at home in a notebook: rows, Arrow, pandas, Polars and HTML, from the same columns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from html import escape
from importlib import import_module
from typing import Any, NamedTuple

from calmstream.estimators.marginal import Z95

SHOWN_ROWS = 30  # number of rows that HTML shows
_STYLE = """<style>
.calmstream {border-collapse: collapse; font-size: 0.9em; color: inherit}
.calmstream caption {caption-side: top; text-align: left; color: inherit; padding: 0.3em 0;
  white-space: nowrap}
.calmstream th, .calmstream td {padding: 0.2em 1.2em 0.2em 0; text-align: left; border: 0;
  border-bottom: 1px solid color-mix(in srgb, currentColor 15%, transparent);
  background: transparent; font-weight: normal}
.calmstream th {border-bottom-color: color-mix(in srgb, currentColor 50%, transparent);
  font-weight: 600}
.calmstream .n {text-align: right; font-variant-numeric: tabular-nums}
.calmstream .e, .calmstream caption span {opacity: 0.7}
</style>"""
# The colours are the notebook's own, so that the table fits light and dark themes alike.


class FrameColumns(NamedTuple):
    """Columns of equal length, those shown as rows' heads, and what HTML says above them."""

    data: Mapping[str, Sequence[Any]]
    shown: Sequence[str]
    about: Sequence[str]
    points: bool = False  # whether values are differences of shares


class Frame(ABC):
    """A result as rows, as a table of Arrow, pandas or Polars, and as HTML in a notebook."""

    __slots__ = ()

    @abstractmethod
    def columns(self) -> FrameColumns:
        """Return the columns."""

    def rows(self) -> list[dict[str, Any]]:
        """Return one dict for each row, with the names of the columns as keys."""
        data = self.columns().data
        return [dict(zip(data, row, strict=True)) for row in zip(*data.values(), strict=True)]

    def to_arrow(self) -> Any:
        """Return a `pyarrow.Table`; texts are dictionary-encoded.

        Raises:
            ModuleNotFoundError: pyarrow is not installed.
        """
        pa = _package("pyarrow", "to_arrow")
        types = _types(pa)
        arrays = {}
        for name, values in self.columns().data.items():
            text = name not in types or (len(values) > 0 and isinstance(values[0], str))
            arrays[name] = pa.array(values, pa.string() if text else types[name])
            if text:
                arrays[name] = arrays[name].dictionary_encode()
        return pa.table(arrays)

    def to_pandas(self) -> Any:
        """Return a `pandas.DataFrame`; texts are categories in the order of the plan.

        Raises:
            ModuleNotFoundError: pandas or pyarrow is not installed.
        """
        _package("pandas", "to_pandas")
        return self.to_arrow().to_pandas()

    def to_polars(self) -> Any:
        """Return a `polars.DataFrame`; texts are categories.

        Raises:
            ModuleNotFoundError: polars or pyarrow is not installed.
        """
        return _package("polars", "to_polars").from_arrow(self.to_arrow())

    def _repr_html_(self) -> str:
        """Return the first rows: shares in %, with half the width of their 95 % intervals."""
        data, shown, about, points = self.columns()
        count = len(data["value"])
        head = [_cell("th", name) for name in shown]
        head += [_cell("th", unit, "n") for unit in ("points" if points else "%", "± 95 %")]
        lines = ["".join(head)]
        for i in range(min(count, SHOWN_ROWS)):
            line = [_cell("td", _text(data[name][i])) for name in shown]
            line += [
                _cell("td", _percent(data["value"][i], 100, "+" if points else ""), "n"),
                _cell("td", _percent(data["stderr"][i], 100 * Z95, ""), "n e"),
            ]
            lines.append("".join(line))
        said = [*about, *([f"{SHOWN_ROWS} of {count:,} rows"] if count > SHOWN_ROWS else [])]
        caption = f"<caption><span>{escape(' · '.join(filter(None, said)))}</span></caption>"
        body = "".join(f"<tr>{line}</tr>" for line in lines)
        return f'{_STYLE}<table class="calmstream">{caption}{body}</table>'


def free_names(names: Sequence[str], taken: Sequence[str]) -> list[str]:
    """Return names of columns for attributes: one that is taken gets ``_`` behind it."""
    found: list[str] = []
    for name in names:
        free = name
        while free in taken or free in found or (free != name and free in names):
            free += "_"
        found.append(free)
    return found


def _types(pa: Any) -> dict[str, Any]:
    texts, time = pa.list_(pa.string()), pa.timestamp("us", tz="UTC")
    return {
        **dict.fromkeys(("value", "stderr", "p", "p_adjusted"), pa.float64()),
        **dict.fromkeys(("window_number", "revision", "cell", "reports"), pa.int64()),
        **dict.fromkeys(("window_start", "window_end"), time),
        **dict.fromkeys(("attributes", "labels", "flags"), texts),
    }


def _package(name: str, method: str) -> Any:
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        message = f"{method}() needs the package {name}: pip install {name}"
        raise ModuleNotFoundError(message, name=name) from None


def _cell(tag: str, text: str, kind: str = "") -> str:
    return (
        f'<{tag} class="{kind}">{escape(text)}</{tag}>'
        if kind
        else f"<{tag}>{escape(text)}</{tag}>"
    )


def _text(value: object) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(value)
    return f"{value:.2g}" if isinstance(value, float) else "–" if value is None else str(value)


def _percent(value: float | None, factor: float, sign: str) -> str:
    return "–" if value is None else f"{factor * value:{sign}.2f}"
