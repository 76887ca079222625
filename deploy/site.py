# ruff: noqa: INP001 - a hook of mkdocs, no package
"""What the site has beside the pages of docs/: pages at other places, and pages made from code.

mkdocs calls the functions `on_*`. Every page keeps its place in the repository, so that its links
work in both.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert
from mkdocs.structure.files import File, Files

from calmstream import __all__ as public
from calmstream import cli
from calmstream.common.metrics import MetricDefinition, MetricGroup
from calmstream.consumer.central.metrics import CENTRAL_METRICS
from calmstream.consumer.metrics.plan import FOLDER_METRICS, PLAN_METRICS, ROLE_METRICS
from calmstream.consumer.metrics.publisher import PUBLISHER_METRICS
from calmstream.consumer.metrics.tally import TALLY_METRICS
from calmstream.consumer.serve.metrics import SERVE_METRICS
from calmstream.consumer.sink.metrics import SINK_METRICS
from calmstream.estimators import methods as registry
from calmstream.planning.methods_page import CENTRAL, SAYS_CENTRAL, is_raw, model_of, says
from calmstream.producer.gateway.http.metrics import GATEWAY_METRICS
from calmstream.producer.gateway.metrics import PRODUCER_METRICS

ROOT = Path(__file__).resolve().parents[1]
LINK = re.compile(r"\[([^\]]*)\]\(([^)#\s]+)")
CONTRACTS = {
    "estimators.mechanisms.base": ("Mechanism", "Column"),
    "estimators.methods.base": (
        "Method",
        "Request",
        "Design",
        "Model",
        "LinearAnswers",
        "RawTables",
    ),
}
"""What a package with a mechanism or a method of its own implements."""


def commands() -> str:
    """Return the page of all commands: what `--help` prints."""
    os.environ["COLUMNS"] = "100"
    parts = ["# Command line", "```text", cli.parser().format_help(), "```"]
    for name in cli.COMMANDS:
        parts += helps(name, below(cli.parser(name))[name])
    return "\n".join(parts)


def helps(name: str, one: ArgumentParser) -> list[str]:
    """Return the help of a command, and of the commands below it, each under a heading."""
    parts = [f"## {name}", "```text", one.format_help(), "```"]
    for action, parser in below(one).items():
        parts += helps(f"{name} {action}", parser)
    return parts


def below(parser: ArgumentParser) -> dict[str, ArgumentParser]:
    """Return the parsers of the commands below one; argparse has no other way."""
    found: Any = parser._subparsers  # noqa: SLF001
    return {} if found is None else found._group_actions[0].choices  # noqa: SLF001


def python() -> str:
    """Return the page of the Python interface, which mkdocstrings fills from docstrings."""
    parts = ["# Python", "`from calmstream import ...`"]
    parts += [f"::: calmstream.{name}" for name in public]
    parts += ["## Mechanisms and methods of your own", "`examples/one_way` implements both."]
    parts += [f"::: calmstream.{m}.{name}" for m, names in CONTRACTS.items() for name in names]
    return "\n\n".join(parts)


SECTIONS: tuple[tuple[str, str, MetricGroup], ...] = (
    ("Every role", "Exported by every service.", ROLE_METRICS),
    ("The plan", "Exported by `calmstream consume`.", PLAN_METRICS),
    ("Tally workers", "`calmstream consume --role tally`, and `all`.", TALLY_METRICS),
    (
        "The publisher",
        "`calmstream consume --role publish`, and `all`. Gauges of sets: 0 on those that wait.",
        PUBLISHER_METRICS,
    ),
    (
        "Many plans",
        "`calmstream consume --plans DIR`, and every other process that serves a folder.",
        FOLDER_METRICS,
    ),
    ("Sinks", "`calmstream sink`.", SINK_METRICS),
    ("Producers", "`calmstream produce --http-port PORT`, and gateways.", PRODUCER_METRICS),
    ("The gateway", "`calmstream gateway`, beside those of producers.", GATEWAY_METRICS),
    ("The HTTP interface of results", "`calmstream serve`.", SERVE_METRICS),
    (
        "The central aggregator",
        "`calmstream central aggregate`. None depends on records, not even on how many there are.",
        CENTRAL_METRICS,
    ),
)

_METRICS = """\
# Metrics

Every process serves `/metrics` (by default on port 9464 of the loopback address; the image on all
addresses). All known series exist from the start, at zero. Labels: `plan` is the plan's name and
the first 32 digits of its digest, `group` a group's number, `reason` a rejection reason, why
reports were given up, or the reason of a problem document, `topic` and `partition` an input
partition. No metric carries anything of a record or of a device.
"""


def metrics() -> str:
    """Return the page of all metrics, from their definitions."""
    parts = [_METRICS]
    for title, where, definitions in SECTIONS:
        parts += [f"## {title}\n\n{where}\n", *map(_entry, definitions)]
    return "\n".join(parts)


def _entry(definition: MetricDefinition) -> str:
    labels = ", ".join(f"`{label}`" for label in definition.labels)
    by = f" by {labels}" if labels else ""
    return (
        f"### `{definition.name}`\n\n"
        f"{definition.kind.capitalize()}{by}. {definition.help}\n\n"
        f"*What to do:* {definition.action}\n"
    )


_METHODS = """\
# Methods

[Concepts](../concepts.md) says when to use which; `calmstream evaluate` measures them on your data.

| name | model | what it is |
|---|---|---|
"""

_METHODS_END = """
*Evaluation only*: local, but no plan may name it. *Raw*: cells of published tables may be negative
and need not add up to 1; all other local methods publish distributions. Frequency oracles: GRR is
generalised randomised response; OUE and SUE are unary encodings, optimised and symmetric; OLH is
local hashing.
"""


def methods() -> str:
    """Return the page of the methods of this package, from their docstrings."""
    found = ((name, type(registry.get(name)).__module__) for name in registry.names())
    ours = [name for name, module in found if module.startswith("calmstream.")]
    lines = [(name, model_of(name), says(name) + " Raw." * is_raw(name)) for name in ours]
    lines.append((registry.CENTRAL, CENTRAL, SAYS_CENTRAL))
    rows = "".join(f"| `{name}` | {model} | {text} |\n" for name, model, text in lines)
    return _METHODS + rows + _METHODS_END


MADE = {
    "docs/reference/python.md": python,
    "docs/reference/commands.md": commands,
    "docs/reference/metrics.md": metrics,
    "docs/reference/methods.md": methods,
}


def pages() -> list[str]:
    """Return every page of the repository."""
    listed = subprocess.run(
        ["git", "ls-files", "*.md"],  # noqa: S607 - whichever git there is
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    return listed.stdout.split()


def on_config(config: Any) -> None:
    """Take the order of pages from docs/README.md: a heading is a section, a link a page."""
    nav: list[Any] = [{"calmstream": "README.md"}]
    for part in (ROOT / "docs" / "README.md").read_text().split("\n## ")[1:]:
        title, _, body = part.partition("\n")
        found = [(text, to) for text, to in LINK.findall(body) if to.endswith(".md")]
        links = [{text: os.path.normpath(f"docs/{to}")} for text, to in found]
        nav.append({title: links})
        if any("docs/reference.md" in link.values() for link in links):
            links += [{Path(path).stem.capitalize(): path} for path in MADE]
    config.nav = nav


def on_files(files: Files, config: Any) -> Files:
    """Replace what docs/ holds by all pages of the repository and the files that they link to."""
    theme = [file for file in files if ROOT / "docs" not in Path(file.abs_src_path).parents]
    places = set(pages())
    for page in sorted(places):
        text = (ROOT / page).read_text()
        for _, to in LINK.findall(text):
            path = os.path.normpath(Path(page).parent / to)
            if "://" not in to and (ROOT / path).is_file():
                places.add(path)
    places |= {str(p.relative_to(ROOT)) for p in (ROOT / "docs" / "pictures").glob("*.png")}
    own = [File.generated(config, p, abs_src_path=str(ROOT / p)) for p in sorted(places)]
    made = [File.generated(config, path, content=text()) for path, text in MADE.items()]
    return Files([*theme, *own, *made])


def on_page_content(html: str, **_: Any) -> str:
    """Turn formulas into MathML, which browsers show without a program."""

    def formula(found: re.Match[str]) -> str:
        text = found[2].replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
        return convert(text, display="block" if found[1] == "[" else "inline")

    return re.sub(r"\\([\[(])(.*?)\\[\])]", formula, html, flags=re.DOTALL)


if __name__ == "__main__":
    sys.stdout.write(metrics())
