"""Run one method of every family, from records to snapshots, with all roles on one broker."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calmstream.cli import main
from calmstream.consumer.subscribe.assembler import Snapshot
from calmstream.estimators import methods
from calmstream.estimators.domain import Domain
from calmstream.estimators.plan import Plan
from calmstream.estimators.wire.snapshot import Kind
from calmstream.tables.records import read_table
from tests.support.plans import draft, mixed_domain
from tests.support.producer import count, records_of
from tests.support.tally import START
from tests.support.tally_bench import Stage

DEVICES = 3000
PARAMETERS = {"inp-em": {"stop": "likelihood"}, "rr-ind-joint": {"tables": [["a0", "a1"]]}}


def plan_of(method: str, domain: Domain, *, analysis: bool = False) -> Plan:
    times: dict[str, Any] = {"start": START, "window": 10, "grace": 3, "skew": 2}
    more: dict[str, Any] = {"name": "tally-test", "max_groups": 8, "partitions": 2}
    parameters = PARAMETERS.get(method)
    return draft(domain, "4", DEVICES, 2, method, parameters, analysis=analysis, **times, **more)[0]


def population(domain: Domain) -> np.ndarray:
    """Return records whose second attribute mostly equals the first one."""
    generator = np.random.default_rng(3)
    columns = [generator.integers(0, r, DEVICES) for r in domain.cardinalities]
    follows = generator.random(DEVICES) < 0.8
    columns[1] = np.where(follows, columns[0] % domain.cardinalities[1], columns[1])
    return np.stack(columns, axis=1).astype(np.uint16)


def collected(plan: Plan, codes: np.ndarray) -> tuple[Stage, list[Snapshot]]:
    stage = Stage(plan)
    stage.ask(codes, 5, batch_size=500)
    return stage, stage.finish()


@pytest.mark.parametrize(
    "method",
    [
        "fc", "inp-rr", "inp-ps", "inp-olh", "inp-htcms", "inp-em",
        "am", "marg-rr", "marg-ps", "marg-ht", "ft", "inp-ht", "characters", "rr-joint",
        "rr-independent", "rr-ind-joint", "rr-hybrid", "rr-truncated", "rr-clusters", "lopub",
    ],
)  # fmt: skip
def test_a_method_from_records_to_snapshots(method: str) -> None:
    """Check that the final snapshot is the method's answer to exactly the reports in the log."""
    domain = mixed_domain(2, 3, 2)
    plan = plan_of(method, domain)
    codes = population(domain)
    stage, snapshots = collected(plan, codes)
    [final] = [s for s in snapshots if s.kind is Kind.FINAL]
    assert final.manifest.reports == DEVICES
    assert final.manifest.rejected == {}
    assert final.manifest.method == method
    batches = [(g, r) for g, r in records_of(stage.broker, plan) if r.key is not None]
    counted = count(plan, batches)
    tallies = [counted[group, 0] for group in range(len(plan.groups))]
    model = methods.get(method).fit(plan, tallies)
    for attributes in plan.marginals:
        names = [domain.names[i] for i in attributes]
        expected = model.marginal(attributes)
        record = final.record(*names)
        assert list(record.table) == expected.table.tolist()
        assert list(record.stderr) == expected.stderr.tolist()
        truth = domain.histogram(codes, attributes) / DEVICES
        # A product ignores dependence: all of it, or the little that any 3,000 records have.
        ignored = 0.25 if method == "rr-independent" else 0.02 if "maxent" in record.flags else 0.0
        assert np.abs(expected.table - truth).max() < 6 * expected.stderr.max() + ignored + 1e-9


@pytest.mark.parametrize("method", ["calm", "inp-ht", "fc", "noise-aware", "rr-joint", "inp-em"])
def test_a_plan_that_asks_for_analysis_gets_it_in_every_snapshot(method: str) -> None:
    domain = mixed_domain(2, 3, 2)
    plan = plan_of(method, domain, analysis=True)
    assert plan.to_json()["analysis"] is True
    _, snapshots = collected(plan, population(domain))
    [total] = [s for s in snapshots if s.kind is Kind.TOTAL]
    document = total.manifest.analysis
    by_pair = {tuple(pair["attributes"]): pair for pair in document["pairs"]}
    assert by_pair["a0", "a1"]["chi_square"]["dependent"]
    assert document["tree"][0]["attributes"] == ["a0", "a1"]


Asked = Callable[[Plan], Callable[..., str]]


@pytest.fixture
def asked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Asked:
    """Return how to collect under a plan, and then how to run commands about it."""

    def collect(plan: Plan) -> Callable[..., str]:
        stage, _ = collected(plan, population(plan.domain))
        path = tmp_path / "plan.json"
        path.write_bytes(plan.to_bytes())
        monkeypatch.setattr("calmstream.connect.kafka", lambda _: stage.broker)
        monkeypatch.setattr(stage.broker, "close", lambda: None)

        def run(name: str, *words: str, code: int = 0) -> str:
            capsys.readouterr()
            where = ["--plan", str(path), "--bootstrap", "x:1", "--namespace", "test"]
            assert main([name, *where, *words]) == code
            shown = capsys.readouterr()
            return shown.err if code else shown.out

        return run

    return collect


def test_the_command_says_what_the_manifest_does(asked: Asked) -> None:
    plan = plan_of("inp-ht", mixed_domain(2, 3, 2), analysis=True)
    run = asked(plan)
    document = json.loads(run("analyse", "--json"))
    _, snapshots = collected(plan, population(plan.domain))
    [total] = [s for s in snapshots if s.kind is Kind.TOTAL]
    assert document["windows"][0]["total"]
    assert document["reports"] == DEVICES
    assert {tuple(p["attributes"]) for p in document["pairs"]} == {
        ("a0", "a1"), ("a0", "a2"), ("a1", "a2"),
    }  # fmt: skip
    assert [p.keys() for p in document["pairs"]] == [
        p.keys() for p in total.manifest.analysis["pairs"]
    ]
    text = run("analyse", "--windows", "0")
    assert "Chow-Liu tree" in text
    assert "dependent" in text
    joint = json.loads(run("analyse", "--tree", "--json"))["joint"]
    assert [branch["given"] for branch in joint].count(None) == 1
    assert all(len(b["stderr"]) == len(b["table"]) for b in joint)
    assert "(%, ± 95 %), given " in run("analyse", "--tree")
    assert "the newest final window is" in run("analyse", "--windows", "7", code=2)


@pytest.mark.slow
def test_records_of_the_model_have_the_shares_of_the_population(
    asked: Asked, tmp_path: Path
) -> None:
    plan = plan_of("noise-aware", mixed_domain(2, 3, 2))
    out = ["--records", "50000", "--method", "model", "--out", str(tmp_path / "made.csv")]
    asked(plan)("synthesize", *out)
    made = read_table(tmp_path / "made.csv")
    true = plan.domain.histogram(population(plan.domain), (0, 1)) / DEVICES
    found = made.domain.histogram(made.codes, (0, 1)) / len(made.codes)
    assert np.abs(found - true).max() < 0.04  # independent attributes would be 0.1 away
    apart = np.outer(*(true.reshape(2, 3).sum(axis=i) for i in (1, 0))).ravel()
    assert np.abs(true - apart).max() > 0.1


@pytest.mark.slow
def test_causes_come_from_the_counts_of_the_same_windows(asked: Asked) -> None:
    run = asked(plan_of("noise-aware", mixed_domain(2, 3, 2)))
    assert "Hidden causes" in run("analyse", "--causes")
    [cause] = json.loads(run("analyse", "--causes", "--windows", "0", "--json"))["causes"]
    assert {one["attribute"] for one in cause["labels"]} == {"a0", "a1"}


def test_methods_without_causes_say_so(asked: Asked) -> None:
    said = asked(plan_of("inp-ht", mixed_domain(2, 3, 2)))("analyse", "--causes", code=2)
    assert "method inp-ht knows no causes; noise-aware does" in said
