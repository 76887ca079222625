"""Every command with an output that is ASCII, Latin-1, closed or full, and after Ctrl-C."""

from __future__ import annotations

import io
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from calmstream.cli import COMMANDS, main
from tests.integration.methods.test_methods_in_process import collected, plan_of, population
from tests.support.plans import mixed_domain
from tests.support.signed import Operator

ROOT = Path(__file__).parents[3]

LOCAL = (
    "plan {csv} --epsilon 1 --k 2 --users 1000",
    "plan {csv} --epsilon 1 --k 2 --users 1000 --json",
    "evaluate {csv} --method uniform --epsilon 1 --k 2 --users 100 --repeats 1",
    "evaluate {csv} --method uniform --epsilon 1 --k 2 --users 100 --json",
    "verify {signed}",
    "verify {signed} --json",
    "acl --plan {plan} --role tally --principal User:a --namespace test",
)
OVER_KAFKA = (
    *("watch --once", "analyse", "analyse --tree", "analyse --json", "inspect", "inspect --json"),
    *("export", "synthesize --records 9"),
)
WHERE = "--plan {plan} --bootstrap x:1 --namespace test"
HELP = [f"{name} --help" for name in COMMANDS]
EVERY = [*LOCAL, *(f"{words} {WHERE}" for words in OVER_KAFKA), *HELP]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    folder = tmp_path_factory.mktemp("streams")
    (folder / "t.csv").write_text("a,ß\n" + "1,ä\n2,→\n" * 20, encoding="utf-8")
    plan = plan_of("inp-ht", mixed_domain(2, 3, 2), analysis=True)
    (folder / "plan.json").write_bytes(plan.to_bytes())
    operator = Operator(owner="Jemand Å GmbH →", not_after=1 << 40)
    (folder / "signed.json").write_bytes(operator.sign(operator.plan()))
    stage, _ = collected(plan, population(plan.domain))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(stage.broker, "close", lambda: None)
        patched.setattr("calmstream.connect.kafka", lambda _: stage.broker)
        yield {
            "csv": str(folder / "t.csv"),
            "plan": str(folder / "plan.json"),
            "signed": str(folder / "signed.json"),
        }


def run(
    words: str, files: dict[str, str], out: io.TextIOWrapper | None, monkeypatch: pytest.MonkeyPatch
) -> tuple[int, str]:
    errors = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    with monkeypatch.context() as patched:
        patched.setattr(sys, "stdout", out)
        patched.setattr(sys, "stderr", errors)
        try:
            code = main(words.format_map(files).split())
        except SystemExit as end:
            code = int(end.code or 0)
    errors.flush()
    return code, errors.buffer.getvalue().decode()  # type: ignore[attr-defined]


@pytest.mark.parametrize("words", EVERY)
@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_an_output_of_few_characters_takes_every_text(
    words: str, encoding: str, files: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    code, errors = run(words, files, out, monkeypatch)
    assert code == 0, errors
    out.flush()
    assert out.buffer.getvalue()  # type: ignore[attr-defined]


@pytest.mark.parametrize("words", EVERY)
@pytest.mark.parametrize("closed", [True, False])
def test_an_output_that_takes_nothing_is_one_line_and_an_error(
    words: str, *, closed: bool, files: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = None if closed else open("/dev/full", "w", encoding="utf-8")  # noqa: SIM115, PTH123
    code, errors = run(words, files, out, monkeypatch)
    why = "cannot write: the output is closed" if closed else "No space left on device"
    assert code == 1, errors
    assert errors.splitlines()[-1] == f"calmstream: {why}"
    assert "internal error" not in errors


QUICK = ("watch", "consume")
WAITING = (
    *("topics", "inspect", "status", "analyse", "export", "query --attributes a0,a1", "changes"),
    "retire --yes",
)


@pytest.mark.parametrize(
    "words", [*QUICK, *(pytest.param(words, marks=pytest.mark.slow) for words in WAITING)]
)
def test_ctrl_c_ends_a_command_that_waits_for_a_broker(words: str, files: dict[str, str]) -> None:
    # A test run in the background of a shell ignores the signal, and so would the command.
    heed = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    program = f"{heed}import runpy; runpy.run_module('calmstream', run_name='__main__')"
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        listening.settimeout(120)
        command = [sys.executable, "-c", program, *words.split(), "--plan", files["plan"]]
        command += ["--bootstrap", f"127.0.0.1:{listening.getsockname()[1]}"]
        with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True) as process:
            try:
                connected, _ = listening.accept()
                with connected:
                    process.send_signal(signal.SIGINT)
                    _, errors = process.communicate(timeout=120)
            finally:
                process.kill()
    assert (process.returncode, errors) == (130, "calmstream: interrupted\n")
