"""Check the settings of the producer: defaults, environment, refusals."""

from inspect import signature
from pathlib import Path

import pytest

from calmstream.common.errors import InvalidInput
from calmstream.common.settings import load
from calmstream.producer.gateway.batcher import Batcher
from calmstream.producer.gateway.config import ProducerSettings
from calmstream.producer.gateway.sender import Budget
from tests.support.producer import ScriptedSink, make_plan, names_of


def test_defaults_are_the_budgets() -> None:
    assert ProducerSettings().budget() == Budget()


def test_a_batcher_takes_the_settings() -> None:
    plan = make_plan()
    settings = ProducerSettings()
    one = Batcher(plan, names_of(plan), ScriptedSink(lambda i: i), **settings.batching())
    one.close()
    defaults = signature(Batcher).parameters
    for name, value in settings.batching().items():
        assert name == "budget" or defaults[name].default == value


def test_the_environment_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "BATCH_SIZE": "250",
        "LINGER": "0.5",
        "MIN_BATCH": "20",
        "SMALL": "drop",
        "MAX_IN_FLIGHT": "7",
        "DELIVERY_ATTEMPTS": "3",
        "DELIVERY_SECONDS": "9",
        "ATTEMPT_SECONDS": "2",
        "SPOOL": "/var/spool/x",
    }.items():
        monkeypatch.setenv(f"CALMSTREAM_{name}", value)
    settings = load(ProducerSettings)
    assert (settings.batch_size, settings.linger) == (250, 0.5)
    assert settings.batching() == {
        "size": 250,
        "linger": 0.5,
        "min_batch": 20,
        "small": "drop",
        "budget": settings.budget(),
    }
    assert settings.spool == Path("/var/spool/x")
    assert settings.budget() == Budget(in_flight=7, attempts=3, seconds=9, attempt_seconds=2)


@pytest.mark.parametrize("name", ["BATCH_SIZE", "MAX_IN_FLIGHT", "DELIVERY_ATTEMPTS"])
def test_nonsense_is_refused(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(f"CALMSTREAM_{name}", "0")
    with pytest.raises(InvalidInput, match=f"^CALMSTREAM_{name}: must be at least 1$"):
        load(ProducerSettings)
