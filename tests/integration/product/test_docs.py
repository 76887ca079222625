"""Run the commands of the documentation unchanged on a real broker."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from tests.support.docs import ROOT, blocks, run_script
from tests.support.ports import free_port

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(600)]

SECONDS = 570.0

AWAIT_TABLES = """\
python - <<'END'
from pathlib import Path
from calmstream import read_plan, subscribe

plan = read_plan(Path("plan.json").read_bytes())
next(one for one in subscribe(plan, "localhost:9092", kinds=["total"]) if one.marginals)
END
"""
"""After the devices of a page have reported: a reader has seen the tables by then."""

PAGES = ["getting-started", "operating"]


def ran(parts: list[str], bootstrap: str, folder: Path, **settings: str) -> str:
    words = [part.replace("localhost:9092", bootstrap) for part in parts]
    done = run_script(words, folder, SECONDS, **settings)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    return done.stdout


def with_waits(parts: list[str]) -> list[str]:
    return [
        text
        for part in parts
        for text in ([part, AWAIT_TABLES] if "calmstream produce" in part else [part])
    ]


@pytest.mark.slow
@pytest.mark.parametrize("name", PAGES)
def test_the_commands_of_a_page_work(name: str, kafka_bootstrap: str, tmp_path: Path) -> None:
    parts = blocks(ROOT / "docs" / f"{name}.md", "test", "kafka")
    assert parts
    settings = {"CALMSTREAM_HTTP_PORT": str(free_port())}
    said = ran(with_waits(parts), kafka_bootstrap, tmp_path, **settings)
    if name == "getting-started":
        for text in ("32,561 reports of 32,561 devices acknowledged", "sex ", "where sex=Female"):
            assert text in said
        with (tmp_path / "tables.csv").open() as file:
            lines = list(csv.DictReader(file))
        assert {line["kind"] for line in lines} == {"total"}
    assert "partition" in said


COUNTED = """\
until calmstream status --json --plan plans/trial.json --bootstrap localhost:9092 \\
    | python -c 'import json, sys; sys.exit(json.load(sys.stdin)["reports"] != 1)'
do sleep 1; done
"""


@pytest.mark.slow
def test_a_device_reports_to_a_gateway_on_one_machine(kafka_bootstrap: str, tmp_path: Path) -> None:
    (page,) = blocks(ROOT / "docs" / "getting-started.md", "test", "device")
    words = page + COUNTED
    for name in ("8080", "9464", "9465"):
        words = words.replace(name, str(free_port()))
    said = ran([words], kafka_bootstrap, tmp_path)
    assert "already reported Delivered(taken=1" in said
    assert "Reports of this device: 1" in said


@pytest.mark.slow
def test_the_commands_about_numbers_work(kafka_bootstrap: str, tmp_path: Path) -> None:
    page = ROOT / "docs" / "numbers.md"
    (tmp_path / "dictionary.json").write_text(blocks(page, "test", "dictionary")[0])
    parts = blocks(page, "test", "plan") + blocks(page, "test", "kafka")
    settings = {"CALMSTREAM_HTTP_PORT": str(free_port())}
    said = ran(with_waits(parts), kafka_bootstrap, tmp_path, **settings)
    with (tmp_path / "means.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {row["statistic"] for row in rows} == {"mean", "median", "rank", "share:yes"}
    with (tmp_path / "people.csv").open() as file:
        ages = [min(max(float(row["age"]), 18.0), 90.0) for row in csv.DictReader(file)]
    mean = next(r for r in rows if (r["attributes"], r["statistic"]) == ("age", "mean"))
    away = abs(float(mean["value"]) - sum(ages) / len(ages))
    assert 0.0 < float(mean["stderr"]) < 20.0
    assert away < 6.0 * float(mean["stderr"])
    # The commands query and evaluate print tables.
    for words_of_a_table in ("rank", "share:100..10000", "noise-aware", "calm"):
        assert words_of_a_table in said
