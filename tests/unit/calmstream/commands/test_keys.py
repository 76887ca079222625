from __future__ import annotations

import json
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from calmstream import MemoryStore, Policy, Reporter, Status
from calmstream.producer.signed.envelope import signed_lineage
from calmstream.producer.signed.keys import read_public_keys
from tests.support.plans import CRASHES
from tests.unit.calmstream.conftest import Command, Done, Refused

START = 1_800_000_000
FROM, UNTIL = "2027-01-01", "2027-12-31"  # START is 2027-01-15
GOOD = {
    "root": "root", "key": "key.pub", "from": FROM, "until": UNTIL, "owner": "Example",
    "out": "cert",
}  # fmt: skip
PLAN = (
    "plan", "domain.json", "--epsilon", "1", "--users", "1000", "--k", "2", "--method", "calm",
    "--start", str(START), "--window", "1d", "--lifetime", "30d", "--out", "plan.json",
)  # fmt: skip

Say = Callable[..., Done]


@pytest.fixture
def say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Command) -> Say:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "domain.json").write_text(json.dumps(CRASHES))

    def run(*words: str, fails: bool = False) -> Done:
        if words[0] == "plan" and "--out" in words:
            (tmp_path / words[words.index("--out") + 1]).unlink(missing_ok=True)
        done = command(*words)
        assert (done.code != 0) == fails, done.err
        return done

    return run


def operator(say: Say) -> None:
    for name in ("root", "key"):
        say("keys", "new", "--out", name)
    certify(say)


def certify(say: Say, **changes: str) -> None:
    say("keys", "certify", *options(GOOD | changes))


def plan(say: Say, *more: str) -> dict[str, Any]:
    done = say(*PLAN, "--json", "--lineage", "crashes@root.pub", *more)
    made: dict[str, Any] = json.loads(done.out)["plan"]
    return made


def options(given: dict[str, str]) -> list[str]:
    return [word for name, text in given.items() for word in (f"--{name}", text)]


def signing(**changes: str) -> list[str]:
    given = {"key": "key", "certificate": "cert", "out": "signed.json"} | changes
    return ["sign", "plan.json", *options(given)]


@pytest.fixture
def at_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("calmstream.commands.verify.time.time", lambda: START + 5.0)


@pytest.mark.usefixtures("at_start")
def test_from_the_first_key_to_a_report(say: Say, tmp_path: Path) -> None:
    operator(say)
    made = plan(say, "--lineage", ",".join(("crashes@root.pub", "a" * 32, "b" * 32)))
    root = (tmp_path / "root.pub").read_text().strip()
    assert made["lineage"] == signed_lineage(root, "crashes")
    assert (made["lineage_name"], made["continues"]) == ("crashes", ["a" * 32, "b" * 32])
    assert say(*signing()).err == ""
    out = say("verify", "signed.json", "--roots", "root.pub").out
    assert out.startswith("accepted: plan telemetry-")
    for part in ("signed by Example", root, "from 2027-01-01T00:00:00Z to 2027-12-31T23:59:59Z",
                 "'crashes'", "1 per report", "continues " + "b" * 32):  # fmt: skip
        assert part in out
    assert "not compared" not in out
    assert "not compared" in say("verify", "signed.json").out
    device = Reporter(
        (tmp_path / "signed.json").read_bytes(), MemoryStore(), clock=lambda: START * 1000,
        policy=Policy(roots=read_public_keys(root)),
    )  # fmt: skip
    assert device.status() is Status.READY
    assert device.report({"region": "EU"}) is not None


@pytest.mark.usefixtures("at_start")
def test_verify_prints_its_findings_as_json(say: Say, tmp_path: Path) -> None:
    operator(say)
    made = plan(say)
    say(*signing())
    found = json.loads(say("verify", "signed.json", "--json", "--roots", "root.pub").out)
    assert found["accepted"] is True
    assert found["root_trusted"] is True
    assert (found["owner"], found["lineage"]) == ("Example", made["lineage"])
    assert json.loads(say("verify", "signed.json", "--json").out)["root_trusted"] is None
    (tmp_path / "roots").write_text("# trusted\n" + "0" * 64 + "  # nobody's\n\n")
    code, out, err = say("verify", "signed.json", "--json", "--roots", "roots", fails=True)
    assert (code, err) == (1, "")
    assert json.loads(out)["reason"] == "unknown_root"
    code, out, err = say("verify", "signed.json", "--roots", "roots", fails=True)
    assert (code, out) == (1, "")
    assert err.startswith("calmstream: plan refused (unknown_root): ")
    code, out, _ = say("verify", "plan.json", "--json", fails=True)
    assert (code, json.loads(out)["reason"]) == (1, "unsigned")


def test_a_private_key_is_private_and_never_replaced(say: Say, tmp_path: Path) -> None:
    out = say("keys", "new", "--out", "root").out
    assert stat.S_IMODE((tmp_path / "root").stat().st_mode) == 0o600
    assert out == (tmp_path / "root.pub").read_text()
    private = (tmp_path / "root").read_bytes()
    assert private.startswith(b"-----BEGIN PRIVATE KEY-----\n")
    assert "root: File exists" in say("keys", "new", "--out", "root", fails=True).err
    assert (tmp_path / "root").read_bytes() == private
    say("keys", "new", "--out", "other")
    assert (tmp_path / "other.pub").read_text() != out


def test_what_cannot_be_certified(say: Say, refused: Refused, tmp_path: Path) -> None:
    for name in ("root", "key"):
        say("keys", "new", "--out", name)
    (tmp_path / "two").write_text(((tmp_path / "key.pub").read_text()) * 2)
    (tmp_path / "text").write_text("-----BEGIN")
    for wrong, message in (
        ({"root": "root.pub"}, "expected a private Ed25519 key"),
        ({"root": "absent"}, "absent: No such file"),
        ({"key": "key"}, "expected public keys"),
        ({"key": "two"}, "expected one public key"),
        ({"key": "text"}, "expected public keys"),
        ({"from": "2027-02-30"}, "expected a date such as"),
        ({"from": "1960-01-01"}, "expected a date such as"),
        ({"from": UNTIL, "until": FROM}, "not_before <= not_after"),
        ({"owner": ""}, "owner: expected 1 to 128"),
        ({"owner": "a\nb"}, "owner: character 2 is U+000A"),
        ({"out": "absent/cert"}, "No such file"),
    ):
        assert message in refused("keys", "certify", *options(GOOD | wrong))


def test_what_cannot_be_signed(say: Say, refused: Refused, tmp_path: Path) -> None:
    operator(say)
    plan(say)
    say("keys", "new", "--out", "other")
    certify(say, **{"from": "2028-01-01", "until": "2028-12-31", "out": "later"})
    certify(say, root="other", out="foreign")
    for wrong, message in (
        ({"key": "other"}, "certifies another key"),
        ({"key": "key.pub"}, "expected a private Ed25519 key"),
        ({"certificate": "later"}, "the plan starts at"),
        ({"certificate": "foreign"}, "wrong_lineage"),
        ({"certificate": "plan.json"}, "not a certificate"),
        ({"certificate": "key"}, "not a certificate"),
    ):
        assert message in refused(*signing(**wrong))
        assert not (tmp_path / "signed.json").exists()
    say(*PLAN)
    assert "states lineage_name" in refused(*signing())
