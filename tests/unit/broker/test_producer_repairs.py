"""What the Kafka client's producer survives: each repair beside what it does without."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from kafka import errors as kafka_errors
from kafka.cluster import ClusterMetadata
from kafka.producer.transaction_manager import TransactionManager
from kafka.protocol.producer import InitProducerIdResponse

from broker.kafka.producer_repairs import (
    ask_again_for_ids,
    outlive_expiry,
    outlive_refusals,
    rest_while_connecting,
)

TIMED_OUT = kafka_errors.RequestTimedOutError("Request timed out after 20000 ms")


def new_manager() -> TransactionManager:
    return TransactionManager(api_version=(4, 1), metadata=ClusterMetadata())


def answer(manager: TransactionManager, told: object) -> None:
    """What the sender does with its next request, and with what came of it."""
    handler = manager.next_request_handler(False)
    assert handler is not None
    handler.on_complete(manager.next_in_flight_request_correlation_id(), told)


@pytest.fixture
def manager() -> TransactionManager:
    made = new_manager()
    ask_again_for_ids(SimpleNamespace(_transaction_manager=made))
    return made


def test_the_producer_alone_is_dead_after_one_request_that_timed_out() -> None:
    manager = new_manager()
    manager.init_producer_id()
    answer(manager, TIMED_OUT)
    assert manager.has_fatal_error(), "why we ask again"


def test_an_id_is_asked_for_until_it_comes(manager: TransactionManager) -> None:
    manager.init_producer_id()
    for trouble in (TIMED_OUT, TIMED_OUT, kafka_errors.NodeNotReadyError(2)):
        answer(manager, trouble)
        assert not manager.has_fatal_error()
        assert not manager.has_producer_id()
    answer(manager, given(producer_id=7))
    assert manager.has_producer_id(7)


def test_what_will_not_pass_still_ends_it(manager: TransactionManager) -> None:
    manager.init_producer_id()
    answer(manager, kafka_errors.UnsupportedVersionError())
    assert manager.has_fatal_error()


def test_a_new_epoch_is_asked_for_again_too(manager: TransactionManager) -> None:
    manager.init_producer_id()
    answer(manager, given(producer_id=7))
    manager.bump_producer_id_and_epoch()
    answer(manager, TIMED_OUT)
    assert manager.is_bumping_epoch()
    answer(manager, given(producer_id=7, epoch=1))
    assert not manager.is_bumping_epoch()
    assert not manager.has_fatal_error()


def given(producer_id: int, epoch: int = 0) -> InitProducerIdResponse:
    return InitProducerIdResponse(
        throttle_time_ms=0, error_code=0, producer_id=producer_id, producer_epoch=epoch
    )


def test_a_refused_record_costs_a_new_epoch_and_not_the_producer() -> None:
    manager = new_manager()
    error = kafka_errors.MessageSizeTooLargeError()
    batch = SimpleNamespace(producer_id=-1)
    before = manager.classify_batch_error(error, batch)
    outlive_refusals(SimpleNamespace(_transaction_manager=manager))
    after = manager.classify_batch_error(error, batch)
    assert (before, after) == (manager.ERROR_CLASS_FATAL, manager.ERROR_CLASS_NEEDS_EPOCH_BUMP)


def with_an_id(manager: TransactionManager) -> TransactionManager:
    manager.init_producer_id()
    answer(manager, given(producer_id=7))
    return manager


def test_the_producer_alone_never_asks_for_another_id() -> None:
    manager = with_an_id(new_manager())
    manager.reset_producer_id()
    manager.init_producer_id()
    assert not manager.has_producer_id()
    assert manager.next_request_handler(False) is None, "why its state is set back"


def test_after_a_batch_was_given_up_another_id_is_asked_for() -> None:
    manager = new_manager()
    outlive_expiry(SimpleNamespace(_transaction_manager=manager))
    with_an_id(manager)
    for number in (8, 9):
        manager.reset_producer_id()
        assert not manager.has_producer_id()
        manager.init_producer_id()
        manager.reset_producer_id()  # another one given up while the answer is on its way
        manager.init_producer_id()
        answer(manager, given(producer_id=number))
        assert manager.has_producer_id(number)
        assert manager.next_request_handler(False) is None, "asked once"


@pytest.mark.parametrize(("seconds", "milliseconds"), [(0.0, 20.0), (0.001, 20.0), (1.5, 1500.0)])
def test_a_node_without_connection_is_looked_at_after_a_rest(
    seconds: float, milliseconds: float
) -> None:
    client: Any = SimpleNamespace(
        _manager=SimpleNamespace(connection_delay=lambda _: seconds), connection_delay=None
    )
    rest_while_connecting(SimpleNamespace(_sender=SimpleNamespace(_client=client)))
    assert client.connection_delay(2) == milliseconds
