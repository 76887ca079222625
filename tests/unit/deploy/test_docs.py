"""Check the documentation: its commands parse, its links exist, its examples are true."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
import shlex
import struct
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from calmstream.broker import topic_facts as topics
from calmstream.broker.names import TopicNames
from calmstream.broker.topic_facts import RETENTION_MARGIN_MS
from calmstream.cli import parse
from calmstream.commands.device import decoded
from calmstream.common.errors import Reason
from calmstream.estimators.mechanisms import registry
from calmstream.estimators.mechanisms.grr import GRR
from calmstream.estimators.plan.document import read_plan
from calmstream.estimators.recorded import MAX_DAYS
from calmstream.estimators.wire.batch import decode_batch
from calmstream.estimators.wire.report import decode_report
from calmstream.producer.device.events import MAX_BYTES
from calmstream.producer.device.history import MAX_HISTORY_BYTES, MAX_SENT
from tests.support.docs import ROOT, blocks, commands, run_script
from tests.support.examples import wire

DOCS = ROOT / "docs"
PAGES = [
    *sorted(ROOT.glob("*.md")),
    *sorted(DOCS.rglob("*.md")),
    *sorted((ROOT / "benchmarks").glob("*.md")),
    *sorted((ROOT / "deploy").rglob("*.md")),
    *sorted((ROOT / "tests").glob("*.md")),
    *sorted((ROOT / "edge").glob("*/*.md")),
]
CURRENT = [p for p in PAGES if p.name != "decisions.md"]  # the others are about the past

PACKAGES = ("estimators", "broker", "producer", "consumer", "calmstream")
EXAMPLES: dict[str, Any] = json.loads((DOCS / "wire-examples.json").read_text())
PLAN: dict[str, Any] = json.loads((ROOT / EXAMPLES["plan"]["file"]).read_text())
each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


def links(page: Path) -> list[tuple[Path, str]]:
    targets = re.findall(r"\]\(([^)\s]+)\)", page.read_text())
    inside = [target.partition("#") for target in targets if "://" not in target]
    return [
        ((page.parent / path if path else page).resolve(), anchor) for path, _, anchor in inside
    ]


def anchors(page: Path) -> set[str]:
    heads = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).strip().replace(" ", "-") for head in heads}


def test_times_and_sizes_of_what_is_kept_are_those_of_the_code() -> None:
    page = (DOCS / "data-protection.md").read_text()
    kept = dict(re.findall(r"^\| ([^|]+) \|(.*)\|$", page, re.MULTILINE))
    names = TopicNames("a", "b", "0" * 64, 1, 1)
    specs = {spec.name: spec.settings for spec in names.specs(0)}
    letters = specs[names.dead_letters]
    assert f"{int(letters['retention.ms']) // 86_400_000} days" in kept["dead-letter topic"]
    assert f"{int(letters['retention.bytes']) >> 30} GiB" in kept["dead-letter topic"]
    assert f"{topics.WEEK_MS // 86_400_000} days" in kept["reports topics"]
    assert f"{RETENTION_MARGIN_MS // 60_000} minutes" in kept["reports topics"]
    for name, topic in {"state": names.state, "counts": names.counts}.items():
        assert specs[topic]["cleanup.policy"] == "compact", name
    assert f"last {MAX_SENT} reports" in kept["history"]
    assert f"{MAX_HISTORY_BYTES >> 10} KiB" in kept["history"]
    assert f"{MAX_BYTES >> 10} KiB" in kept["recorder"]
    assert f"{MAX_DAYS} days" in kept["recorder"]


@each_page
def test_every_command_parses(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if "export CALMSTREAM_BOOTSTRAP" in page.read_text():
        monkeypatch.setenv("CALMSTREAM_BOOTSTRAP", "HOST:1")
    for line in commands(page):
        words = shlex.split(line.removesuffix("&"), comments=True)[1:]
        assert callable(parse(words).run), line


def test_every_command_in_a_sentence_of_the_runbook_parses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CALMSTREAM_BOOTSTRAP", "HOST:1")
    monkeypatch.setenv("CALMSTREAM_PLAN", "plan.json")
    text = (ROOT / "deploy" / "RUNBOOK.md").read_text()
    named = re.findall(r"`calmstream ([a-z-]+ [^`]*)`", text)
    assert len(named) > 5
    for line in named:
        assert callable(parse(shlex.split(line)).run), line


@each_page
def test_every_link_leads_to_a_file_and_a_heading(page: Path) -> None:
    for target, anchor in links(page):
        assert target.exists(), target
        assert not anchor or anchor in anchors(target), f"{target}#{anchor}"


def test_every_page_can_be_reached_from_the_readme() -> None:
    reached: set[Path] = set()
    waiting = [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        if page not in reached and page.suffix == ".md" and page.exists():
            reached.add(page)
            waiting += [target for target, _ in links(page)]
    assert not set(PAGES) - reached


@pytest.mark.parametrize("page", CURRENT, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_file_named_in_code_exists(page: Path) -> None:
    folders = "|".join(("deploy", "examples", "benchmarks", "docs", "tests", *PACKAGES))
    for path in re.findall(rf"`((?:{folders})/[A-Za-z0-9_./-]+)`", page.read_text()):
        assert (ROOT / path.rstrip("/")).exists(), path


@pytest.mark.slow
def test_the_plans_can_be_made_by_the_commands_of_their_readme(tmp_path: Path) -> None:
    parts = blocks(ROOT / "deploy" / "plans" / "README.md", "test", "plans")
    done = run_script(parts, tmp_path, 240)
    assert done.returncode == 0, done.stderr
    for name in ("browser", "devices", "mobile"):
        made = read_plan((tmp_path / f"{name}.plan.json").read_bytes())
        kept = read_plan((ROOT / "deploy" / "plans" / f"{name}.plan.json").read_bytes())
        for field in ("name", "domain", "epsilon", "guarantee", "start", "expires", "users"):
            assert getattr(made, field) == getattr(kept, field)


def test_the_snapshot_examples_fit_the_schema() -> None:
    schema = json.loads((ROOT / "estimators/schemas/snapshot-1.schema.json").read_text())
    for name in ("marginal", "manifest"):
        (text,) = blocks(DOCS / "reading-a-snapshot.md", "golden", name)
        jsonschema.validate(json.loads(text), schema)


# The wire examples, which the edge in TypeScript answers alike with code of its own


def test_the_product_makes_the_same_examples() -> None:
    assert wire.document() == EXAMPLES


def test_every_mechanism_has_examples() -> None:
    counted = Counter(case["mechanism"] for case in EXAMPLES["reports"]["cases"])
    assert set(counted) == set(registry.names())
    assert min(counted.values()) >= 4


def test_the_digest() -> None:
    canonical = json.dumps(PLAN, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    assert hashlib.sha256(canonical.encode()).hexdigest() == EXAMPLES["plan"]["digest"]


@pytest.mark.parametrize("number", range(len(EXAMPLES["accepted"])))
def test_an_example_report_is_accepted_and_decodes_as_stated(number: int) -> None:
    case = EXAMPLES["accepted"][number]
    (text,) = blocks(DOCS / "wire-formats.md", "golden", f"accepted {number}")
    assert json.loads(text) == case["body"]
    plan = read_plan((ROOT / EXAMPLES["plan"]["file"]).read_bytes())
    decode_report(plan, text.encode())
    columns = case["body"]["columns"]
    if "v" in columns:
        assert columns["v"] == case["means"]
        return
    row = base64.b64decode(columns["b"])
    assert [b for b in range(case["cells"]) if row[b // 8] >> b % 8 & 1] == case["means"]


def test_the_answer_of_data_protection_is_as_the_page_says() -> None:
    page = (DOCS / "data-protection.md").read_text()
    report, plan = EXAMPLES["accepted"][0]["body"], read_plan(json.dumps(PLAN).encode())
    assert json.dumps(report["columns"]) in page
    group, grr = plan.groups[report["group"]], plan.mechanisms[report["group"]]
    asked = [plan.domain.attributes[j] for j in group.views[0].attributes]
    for each in asked:
        assert f"`{each.name}` ({', '.join(each.labels)})" in page.replace("\n", " ")
    assert isinstance(grr, GRR)
    p, q = float(grr.p), float(grr.q)
    assert f"the true cell with {p:.1%}, each".replace("%", " %") in page
    assert f"five others with {q:.1%}: say 5".replace("%", " %") in page
    assert f"= {(1100 / 6000 - q) / (p - q):.0%} |".replace("%", " %") in page
    assert f"e^{plan.epsilon} = {math.exp(float(plan.epsilon)):.2f} times" in page
    assert f"| {decoded(plan, json.dumps(report).encode())} |" in page


BATCHES = EXAMPLES["batches"]


def columns_of(group: dict[str, Any], holds: dict[str, Any]) -> bytes:
    """Encode the columns of a batch, from what the plan says about the group alone."""
    mechanism, columns = group["mechanism"], holds["columns"]
    integers = {
        "grr": [("v", mechanism["cells"])],
        "olh": [("s", 1 << mechanism.get("seed_bits", 0)), ("y", mechanism.get("buckets"))],
        "hadamard-coefficient": [("s", 2)],
    }.get(mechanism["name"], [])
    parts = [(holds["view"], len(group["views"]))] if "view" in holds else []
    parts += [(columns[name], bound) for name, bound in integers]
    raw = b""
    for values, bound in parts:
        width = next(w for w in (1, 2, 4, 8) if bound <= 256**w)
        raw += b"".join(value.to_bytes(width, "little") for value in values)
    return raw + b"".join(map(bytes, columns.get("b", ())))


@pytest.mark.parametrize("case", BATCHES["cases"], ids=lambda case: str(case["plan"]))
def test_an_example_batch_holds_what_is_stated(case: dict[str, Any]) -> None:
    text, holds, key = BATCHES["plans"][case["plan"]], case["holds"], bytes.fromhex(case["key"])
    digest = hashlib.sha256(text.encode()).digest()[:16]
    head = struct.pack("<BB16sHIH", 1, 1, digest, holds["group"], holds["period"], holds["n"])
    raw = head + columns_of(json.loads(text)["groups"][holds["group"]], holds)
    assert raw.hex() == case["value"]
    if case["plan"] == 1:
        (shown,) = blocks(DOCS / "wire-formats.md", "golden", "batches 1")
        assert bytes.fromhex(shown) == raw
    plan = read_plan(text.encode())
    assert plan.to_bytes().decode() == text
    read = decode_batch(plan, holds["group"], key, raw)
    assert (read.period, read.n) == (holds["period"], holds["n"])
    assert (None if read.view is None else read.view.tolist()) == holds.get("view")
    assert {name: values.tolist() for name, values in read.columns.items()} == holds["columns"]


def test_every_reason_is_explained() -> None:
    page = (DOCS / "wire-formats.md").read_text().split("## Rejections and their reasons", 1)[1]
    explained = re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)
    assert explained == [reason.value for reason in Reason]


@pytest.mark.slow
def test_the_plan_and_the_report_of_numbers_are_as_the_page_says(tmp_path: Path) -> None:
    page = DOCS / "numbers.md"
    done = run_script(blocks(page, "test", "plan"), tmp_path, 120)
    assert done.returncode == 0, done.stderr
    plan = read_plan((tmp_path / "plan.json").read_bytes())
    assert plan.summaries == ("mean", "median", "rank")
    assert {type(a.kind).__name__ for a in plan.domain.attributes} == {
        "Number", "Ordered", "Choice", "NoneType",
    }  # fmt: skip
    (example,) = blocks(page, "test", "reporter")
    names: dict[str, Any] = {"plan": replace(plan, start=0, expires=10 * 2**31)}
    exec(example, names)
    assert names["report"] is not None
