"""Fixtures for all tests: a real Kafka broker, found or started once, and the shared data."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog
from hypothesis import HealthCheck, settings

from tests.brokers.provide import GIVEN, REQUIRED, required
from tests.brokers.session import AnswerT, SessionBroker, answer_in
from tests.support.sink.postgres import PostgresServer, provided

ROOT = Path(__file__).resolve().parents[1]
# The time that an example takes never decides: the machine may be busy.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")
BROKER = pytest.StashKey[SessionBroker]()
PATH = "calmstream_broker"
# A container may take two minutes to start; a native broker is started twice at most.
ANSWER_SECONDS = 600.0


def pytest_configure(config: pytest.Config) -> None:
    """Let one process own the broker: the controller of pytest-xdist, or the only process."""
    if not hasattr(config, "workerinput"):
        config.stash[BROKER] = SessionBroker()


def pytest_sessionstart(session: pytest.Session) -> None:
    """Start the broker while the worker processes of pytest-xdist collect the tests."""
    config = session.config
    if BROKER in config.stash and config.getoption("numprocesses", None):
        config.stash[BROKER].begin()


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Give a worker process of pytest-xdist the path of the broker's address."""
    node.workerinput[PATH] = str(node.config.stash[BROKER].path)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Close the broker, after the last worker process has ended."""
    if BROKER in config.stash:
        config.stash[BROKER].close()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the files that wait for a broker, each among files that compute.

    Worker processes take files in this order. One that waits leaves its core to the others, and no
    long wait is left for the end, when the other workers have nothing to do. So the files that are
    allowed the longest time come first.
    """
    files: dict[Path, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(item.path, []).append(item)
    waiting, computing = [], []
    for file in files.values():
        waits = any(item.get_closest_marker("kafka") for item in file)
        (waiting if waits else computing).append(file)
    for kind in (waiting, computing):
        kind.sort(key=_allowed_seconds, reverse=True)
    # Whole files, because a file's fixtures are built once.
    ordered = []
    for file in waiting:
        ordered += [file, *computing[:3]]
        del computing[:3]
    items[:] = [item for file in [*ordered, *computing] for item in file]


def _allowed_seconds(file: list[pytest.Item]) -> float:
    limits = (item.get_closest_marker("timeout") for item in file)
    return max((limit.args[0] for limit in limits if limit), default=0.0)


@pytest.fixture(autouse=True)
def _default_logging() -> Iterator[None]:
    """Reset logging: a command run inside a test logs to a stream that the next test lacks."""
    yield
    structlog.reset_defaults()


@pytest.fixture(scope="session")
def _broker(request: pytest.FixtureRequest) -> AnswerT:
    """Return the address and kind of a real broker, or the reason why there is none."""
    config = request.config
    if BROKER in config.stash:
        return config.stash[BROKER].ask()
    return answer_in(Path(config.workerinput[PATH]), ANSWER_SECONDS)  # type: ignore[attr-defined]


@pytest.fixture(scope="session")
def kafka_bootstrap(_broker: AnswerT) -> str:
    """Return the address of a real Kafka broker; skip (or, if required, fail) without one."""
    if not isinstance(_broker, str):
        return _broker[0]
    if required():
        pytest.fail(f"{REQUIRED} is set, but there is no real broker: {_broker}")
    pytest.skip(f"no real broker: {_broker}")


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """Return a real PostgreSQL server; skip (or, if required, fail) without its programs."""
    yield from provided()


@pytest.fixture(scope="session")
def shared() -> Path:
    """Return the directory of shared data beside the repository; skip the test without it."""
    path = ROOT.parent / "shared"
    if not path.is_dir():
        pytest.skip(f"the shared data is not there: {path}")
    return path


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Print which broker the tests used, or that they used none."""
    answer = config.stash[BROKER].answer
    if answer is None:
        return
    if not isinstance(answer, str):
        terminalreporter.write_line(f"real Kafka broker: {answer[0]} ({answer[1]})")
        return
    terminalreporter.section("REAL KAFKA WAS NOT TESTED", sep="!", red=True, bold=True)
    terminalreporter.write_line(f"Tried: {answer}")
    terminalreporter.write_line(f"Set {GIVEN}, start Docker, or install Java and Maven.")
