from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from calmstream.cli import main
from calmstream.common.errors import PlanError
from calmstream.estimators.central.plan import read_central_plan
from tests.support.faulty_broker import FaultyBroker
from tests.support.tally import small_plan
from tests.unit.calmstream.conftest import Command, Over, Refused

CSV = "sex,job\nF,nurse\nM,baker\nF,\n"


def planned(folder: Path, out: str) -> list[str]:
    where = [str(folder / "people.csv"), "--out", str(folder / out)]
    return ["central", "plan", *where, "--epsilon", "4", "--k", "2"]


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "people.csv").write_text(CSV)
    (tmp_path / "local.json").write_bytes(small_plan().to_bytes())
    assert main([*planned(tmp_path, "central.json"), "--lifetime", "4h"]) == 0
    return tmp_path


def test_the_plan_names_columns_and_no_values(files: Path, command: Command) -> None:
    raw = (files / "central.json").read_bytes()
    plan = read_central_plan(raw)
    assert plan.columns == ("sex", "job")
    assert plan.releases == 4
    assert plan.levels == 2
    assert b"nurse" not in raw
    assert read_central_plan(plan.to_bytes()) == plan
    assert plan.method.spend.times(4).epsilon("1e-6") == pytest.approx(4, rel=1e-3)
    with pytest.raises(PlanError, match="bound: expected numerical"):
        read_central_plan(raw.replace(b"numerical", b"zcdp"))
    argv = ["central", "plan", "x.csv", "--columns", "a", "--epsilon", "4"]
    shown = command(*argv, "--k", "1").out
    assert "not local privacy" in shown
    assert "epsilon 4, delta 1e-6" in shown
    assert "by the bound of zCDP the same noise would mean epsilon 4.73" in shown


def test_local_commands_refuse_a_central_plan(files: Path, refused: Refused) -> None:
    where = ("--plan", files / "central.json", "--bootstrap", "127.0.0.1:1")
    assert "this is a central plan" in refused("produce", *where, "--records", "people.csv")
    assert "this is a central plan" in refused("consume", *where)


def test_central_commands_refuse_a_local_plan(files: Path, refused: Refused) -> None:
    where = ("--plan", files / "local.json")
    for argv in (["account"], ["aggregate", "--bootstrap", "127.0.0.1:1"]):
        error = refused("central", *argv, *where, "--account", files / "budget.json")
        assert "this plan is not central" in error
    assert not (files / "budget.json").exists()


def test_the_account_is_made_once_and_needed(
    files: Path, command: Command, refused: Refused
) -> None:
    account = files / "budget.json"
    of = ("--plan", files / "central.json", "--account", account)
    aggregate = ("central", "aggregate", *of, "--bootstrap", "127.0.0.1:1")
    assert "nothing is released without one" in refused(*aggregate, code=1)
    assert command("central", "account", *of).code == 0
    assert "already" in refused("central", "account", *of, code=1)
    account.write_bytes(b"{}")
    assert "nothing is released" in refused(*aggregate, code=1)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"epsilon": "x"}, "epsilon must"),
        ({"delta": "0.5"}, "delta must"),
        ({"levels": 3}, "levels: expected 1 to 2"),
        ({"columns": ["a", "a"]}, "none twice"),
        ({"columns": ["a", "b" * 257]}, "names of 1 to 256 characters"),
        ({"columns": ["a", 7]}, "columns: expected strings"),
        ({"other": 1}, "unknown field 'other'"),
        ({"quantile": "0.99999"}, "quantile: expected a decimal"),
        ({"spurious": "1"}, "spurious must lie"),
        ({"name": "A"}, "name: expected"),
        ({"releases": 0}, "releases: expected"),
        ({"version": 2}, "version: expected 1"),
        ({"model": "other"}, "not central"),
        ({"sample": "0.0"}, "sample must lie in"),
        ({"users": -1}, "users: expected 0 to"),
    ],
)
def test_a_malformed_plan_is_refused(files: Path, changes: dict[str, object], message: str) -> None:
    document = orjson.loads((files / "central.json").read_bytes()) | changes
    with pytest.raises(PlanError, match=message):
        read_central_plan(orjson.dumps(document))


def test_a_sample_and_its_users_are_stated_where_they_are_asked_for(
    files: Path, command: Command
) -> None:
    before = read_central_plan((files / "central.json").read_bytes())
    assert (before.sample, before.users) == ("1", 0)
    # A plan with the default values does not write the fields, so that older plans keep their
    # digests.
    assert {"sample", "users"}.isdisjoint(before.to_json())
    argv = planned(files, "sampled.json")
    output = command(*argv, "--users", "2000000", "--sample", "0.25").out
    assert "a share of 0.25 of the users of a window counts, of at most 2,000,000" in output
    # The sample has 500,000 users; seven standard deviations (612 each) make it 504,287. A user
    # takes 400 bytes and 1,025 bytes for each of the two values: 1.2 GB in all.
    assert "up to 1.2 GB of the aggregator's memory" in output
    plan = read_central_plan((files / "sampled.json").read_bytes())
    assert (plan.sample, plan.users) == ("0.25", 2_000_000)
    assert read_central_plan(plan.to_bytes()) == plan


def test_records_of_a_table_are_submitted_whatever_one_field_holds(
    files: Path, over: Over, command: Command
) -> None:
    where = over(read_central_plan((files / "central.json").read_bytes()), FaultyBroker())
    assert command("central", "topics", *where).code == 0
    rows = [b"u%d,F,nurse" % i for i in range(50)]
    rows += [b"u50,F," + b"x" * 300_000]  # a very long value
    rows += [b",M,baker"]  # no user id: left out
    rows += [b"m\xff,\xff\xfe,\0"]  # not UTF-8
    (files / "bad.csv").write_bytes(b"id,sex,job\n" + b"\n".join(rows))
    records = ("--records", files / "bad.csv", "--user-column", "id")
    for wanted in ("sex,jib", "sex,job,sex"):
        said = command("central", "watch", *where, "--once", "--marginal", wanted)
        assert (said.code, "--marginal: expected up to 2 of sex, job" in said.err) == (2, True)
    said = command("central", "submit", *where, *records)
    assert said == (0, "52 raw records submitted; 1 without a user's id left out\n", "")
