"""What all tests share: the real broker, found or started once a session, and the shared data."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from tests.brokers.jars import Unavailable
from tests.brokers.provide import GIVEN, REQUIRED, Provided, provide, required

ROOT = Path(__file__).resolve().parents[1]
WHAT_BROKER = pytest.StashKey[str]()
WHY_NONE = pytest.StashKey[str]()


@pytest.fixture(autouse=True)
def _logging_of_its_own() -> Iterator[None]:
    """A command run inside a test sets up logging to a stream that is gone in the next one."""
    yield
    structlog.reset_defaults()


@pytest.fixture(scope="session")
def _provided_broker(request: pytest.FixtureRequest) -> Iterator[Provided | str]:
    """A broker, or why there is none: the search is made once, however many tests ask."""
    try:
        provided = provide()
    except Unavailable as error:
        request.config.stash[WHY_NONE] = str(error)
        yield str(error)
        return
    request.config.stash[WHAT_BROKER] = f"{provided.bootstrap} ({provided.kind})"
    yield provided
    provided.close()


@pytest.fixture(scope="session")
def kafka_bootstrap(_provided_broker: Provided | str) -> str:
    """The address of a real Kafka broker; skips the test, or fails it on demand, without one."""
    if isinstance(_provided_broker, Provided):
        return _provided_broker.bootstrap
    if required():
        pytest.fail(f"{REQUIRED} is set, but there is no real broker: {_provided_broker}")
    pytest.skip(f"no real broker: {_provided_broker}")


@pytest.fixture(scope="session")
def shared() -> Path:
    """The directory of shared data beside the repository; skips the test without it."""
    path = ROOT.parent / "shared"
    if not path.is_dir():
        pytest.skip(f"the shared data is not there: {path}")
    return path


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    why, what = config.stash.get(WHY_NONE, None), config.stash.get(WHAT_BROKER, None)
    if what is not None:
        terminalreporter.write_line(f"real Kafka broker: {what}")
    if why is not None:
        terminalreporter.section("REAL KAFKA WAS NOT TESTED", sep="!", red=True, bold=True)
        terminalreporter.write_line(f"Tried: {why}")
        terminalreporter.write_line(f"Set {GIVEN}, start Docker, or install Java and Maven.")
