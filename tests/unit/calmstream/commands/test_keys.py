"""Check keys, certificates and signed plans on the command line, from the first key to a report."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from calmstream import MemoryStore, Policy, Reporter, Status
from calmstream.cli import main
from calmstream.producer.signed.envelope import signed_lineage
from calmstream.producer.signed.keys import read_public_keys

DOMAIN = [
    {"name": "region", "labels": ["EU", "US", "other"], "other": "other"},
    {"name": "theme", "labels": ["dark", "light"]},
]
START = 1_800_000_000
FROM, UNTIL = "2027-01-01", "2027-12-31"  # START is 2027-01-15

Say = Callable[..., tuple[int, str, str]]


@pytest.fixture
def say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Say:
    """Return a function that runs a command in an empty directory."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "domain.json").write_text(json.dumps(DOMAIN))

    def run(*words: str, fails: bool = False) -> tuple[int, str, str]:
        if words[0] == "plan" and "--out" in words:
            (tmp_path / words[words.index("--out") + 1]).unlink(missing_ok=True)
        try:
            code = main(words)
        except SystemExit as stop:  # from argparse
            code = int(str(stop.code))
        out, err = capsys.readouterr()
        assert (code != 0) == fails, err
        return code, out, err

    return run


def operator(say: Say) -> None:
    """Make root, key and certificate in the current directory."""
    for name in ("root", "key"):
        say("keys", "new", "--out", name)
    certify(say)


def certify(say: Say, **options: str) -> None:
    given = {"root": "root", "key": "key.pub", "from": FROM, "until": UNTIL, "owner": "Example",
             "out": "cert"} | options  # fmt: skip
    say("keys", "certify", *(word for name, text in given.items() for word in (f"--{name}", text)))


def plan(say: Say, *more: str) -> dict[str, Any]:
    _, out, _ = say(
        "plan", "domain.json", "--epsilon", "1", "--users", "1000", "--k", "2", "--method", "calm",
        "--start", str(START), "--window", "1d", "--lifetime", "30d", "--out", "plan.json",
        "--json", "--lineage", "crashes@root.pub", *more,
    )  # fmt: skip
    made: dict[str, Any] = json.loads(out)["plan"]
    return made


def sign(say: Say, **options: Any) -> tuple[int, str, str]:
    fails = options.pop("fails", False)
    given = {"key": "key", "certificate": "cert", "out": "signed.json"} | options
    words = (word for name, text in given.items() for word in (f"--{name}", text))
    return say("sign", "plan.json", *words, fails=fails)


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
    assert sign(say)[2] == ""
    _, out, _ = say("verify", "signed.json", "--roots", "root.pub")
    assert out.startswith("accepted: plan telemetry-")
    for part in ("signed by Example", root, "from 2027-01-01T00:00:00Z to 2027-12-31T23:59:59Z",
                 "'crashes'", "1 per report", "continues " + "b" * 32):  # fmt: skip
        assert part in out
    assert "not compared" not in out
    assert "not compared" in say("verify", "signed.json")[1]
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
    sign(say)
    found = json.loads(say("verify", "signed.json", "--json", "--roots", "root.pub")[1])
    assert found["accepted"] is True
    assert found["root_trusted"] is True
    assert (found["owner"], found["lineage"]) == ("Example", made["lineage"])
    assert json.loads(say("verify", "signed.json", "--json")[1])["root_trusted"] is None
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
    _, out, _ = say("keys", "new", "--out", "root")
    assert stat.S_IMODE((tmp_path / "root").stat().st_mode) == 0o600
    assert out == (tmp_path / "root.pub").read_text()
    private = (tmp_path / "root").read_bytes()
    assert private.startswith(b"-----BEGIN PRIVATE KEY-----\n")
    assert "root: File exists" in say("keys", "new", "--out", "root", fails=True)[2]
    assert (tmp_path / "root").read_bytes() == private
    say("keys", "new", "--out", "other")
    assert (tmp_path / "other.pub").read_text() != out


def test_what_cannot_be_certified(say: Say, tmp_path: Path) -> None:
    for name in ("root", "key"):
        say("keys", "new", "--out", name)
    (tmp_path / "two").write_text(((tmp_path / "key.pub").read_text()) * 2)
    (tmp_path / "text").write_text("-----BEGIN")
    good = {"root": "root", "key": "key.pub", "from": FROM, "until": UNTIL, "owner": "x",
            "out": "cert"}  # fmt: skip
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
        given = good | wrong
        words = (word for name, text in given.items() for word in (f"--{name}", text))
        code, _, err = say("keys", "certify", *words, fails=True)
        assert code == 2
        assert message in err
        assert err.count("\n") == 1


def test_what_cannot_be_signed(say: Say, tmp_path: Path) -> None:
    operator(say)
    plan(say)
    say("keys", "new", "--out", "other")
    certify(say, **{"from": "2028-01-01", "until": "2028-12-31", "out": "later"})
    certify(say, root="other", out="foreign")
    for options, message in (
        ({"key": "other"}, "certifies another key"),
        ({"key": "key.pub"}, "expected a private Ed25519 key"),
        ({"certificate": "later"}, "the plan starts at"),
        ({"certificate": "foreign"}, "wrong_lineage"),
        ({"certificate": "plan.json"}, "not a certificate"),
        ({"certificate": "key"}, "not a certificate"),
    ):
        code, _, err = sign(say, fails=True, **options)
        assert code == 2
        assert message in err
        assert not (tmp_path / "signed.json").exists()
    say(
        "plan", "domain.json", "--epsilon", "1", "--users", "1000", "--k", "2", "--method", "calm",
        "--start", str(START), "--window", "1d", "--lifetime", "30d", "--out", "plan.json",
    )  # fmt: skip
    assert "states lineage_name" in sign(say, fails=True)[2]
