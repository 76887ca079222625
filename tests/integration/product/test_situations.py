"""Some situations of ``python -m benchmarks.service.situations``, which makes them all."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from benchmarks.service.situations import fleet, seconds_of
from tests.support.deploy import tool
from tests.support.service.fleet import Fleet

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(900)]

SOME = (
    "the only worker dies",
    "the only publisher dies",
    "partitions are added to a topic",
    "a plan is retired",
    "the certificate of a signing key ends",
)
"""Quick ones that differ in who says what."""


@pytest.fixture(scope="module")
def service() -> Iterator[Fleet]:
    tool("prometheus")
    with fleet(results=False, session=10) as one:
        yield one


@pytest.mark.parametrize("name", SOME)
def test_every_observer_says_so_and_all_is_well_again(service: Fleet, name: str) -> None:
    assert seconds_of(service, name)
