"""Check the repairs of the Kafka client's producer.

Beside each repair a test shows the fault of the client without it.
"""

from __future__ import annotations

import inspect
from types import SimpleNamespace
from typing import Any

import pytest
from kafka import errors as kafka_errors
from kafka.cluster import ClusterMetadata
from kafka.net.compat import KafkaNetClient
from kafka.producer.sender import Sender
from kafka.producer.transaction_manager import TransactionManager
from kafka.protocol.producer import InitProducerIdResponse

from calmstream.broker.kafka.client_repairs.producers import (
    RepairedProducer,
    pause_while_connecting,
    request_new_id_after_expiry,
    retry_id_requests,
    survive_refused_records,
)

TIMED_OUT = kafka_errors.RequestTimedOutError("Request timed out after 20000 ms")


def new_manager() -> TransactionManager:
    return TransactionManager(api_version=(4, 1), metadata=ClusterMetadata())


def answer(manager: TransactionManager, response: object) -> None:
    """Take the next request as the sender does, and hand over its response."""
    handler = manager.next_request_handler(False)
    assert handler is not None
    handler.on_complete(manager.next_in_flight_request_correlation_id(), response)


def test_without_the_repair_the_producer_is_dead_after_one_request_that_timed_out() -> None:
    manager = new_manager()
    manager.init_producer_id()
    answer(manager, TIMED_OUT)
    assert manager.has_fatal_error(), "the fault is gone: delete retry_id_requests"


def test_an_id_is_asked_for_until_it_comes() -> None:
    manager = new_manager()
    retry_id_requests(manager)
    manager.init_producer_id()
    for trouble in (TIMED_OUT, TIMED_OUT, kafka_errors.NodeNotReadyError(2)):
        answer(manager, trouble)
        assert not manager.has_fatal_error()
        assert not manager.has_producer_id()
    answer(manager, given(producer_id=7))
    assert manager.has_producer_id(7)


def given(producer_id: int) -> InitProducerIdResponse:
    return InitProducerIdResponse(
        throttle_time_ms=0, error_code=0, producer_id=producer_id, producer_epoch=0
    )


REFUSED = kafka_errors.MessageSizeTooLargeError()
BATCH = SimpleNamespace(producer_id=-1)


def test_without_the_repair_the_producer_is_dead_after_one_refused_record() -> None:
    manager = new_manager()
    decision = manager.classify_batch_error(REFUSED, BATCH)
    assert decision == manager.ERROR_CLASS_FATAL, "the fault is gone: delete its repair"


def test_a_refused_record_costs_a_new_epoch_and_not_the_producer() -> None:
    manager = new_manager()
    survive_refused_records(manager)
    decision = manager.classify_batch_error(REFUSED, BATCH)
    assert decision == manager.ERROR_CLASS_NEEDS_EPOCH_BUMP
    # An error that concerns the whole producer stays fatal.
    fenced = kafka_errors.ProducerFencedError()
    assert manager.classify_batch_error(fenced, BATCH) == manager.ERROR_CLASS_FATAL


def test_a_producer_has_all_repairs_before_its_first_request() -> None:
    """The constructor of the client sets these parts before it starts the thread."""
    manager, client = new_manager(), SimpleNamespace(_manager=Nodes())
    producer = Unstarted.__new__(Unstarted)
    producer._transaction_manager = manager
    producer._sender = SimpleNamespace(_client=client)
    manager.init_producer_id()
    answer(manager, TIMED_OUT)
    answer(manager, given(producer_id=7))
    assert manager.has_producer_id(7)
    manager.reset_producer_id()
    manager.init_producer_id()
    answer(manager, given(producer_id=8))
    assert manager.has_producer_id(8)
    assert manager.classify_batch_error(REFUSED, BATCH) == manager.ERROR_CLASS_NEEDS_EPOCH_BUMP
    assert client.connection_delay(2) == 20.0
    assert client._manager.least_loaded_node() is None


class Unstarted(RepairedProducer):
    """A producer whose constructor was not called."""

    def __del__(self) -> None:
        """There is nothing to close."""


class Nodes:
    """A connection manager that has no broker to choose."""

    def __init__(self) -> None:
        self.cluster = SimpleNamespace(brokers=list, refresh_metadata=None)

    def connection_delay(self, _node: object) -> float:
        return 0.0

    def get_connection(self, node: object) -> object:
        raise NotImplementedError


def with_an_id(manager: TransactionManager) -> TransactionManager:
    manager.init_producer_id()
    answer(manager, given(producer_id=7))
    return manager


def test_without_the_repair_the_producer_never_asks_for_another_id() -> None:
    manager = with_an_id(new_manager())
    manager.reset_producer_id()
    manager.init_producer_id()
    assert not manager.has_producer_id()
    assert manager.next_request_handler(False) is None, (
        "the fault is gone: delete request_new_id_after_expiry"
    )


def test_after_a_batch_was_given_up_another_id_is_asked_for() -> None:
    manager = new_manager()
    request_new_id_after_expiry(manager)
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


def test_without_the_repair_the_client_takes_seconds_for_milliseconds() -> None:
    manager = SimpleNamespace(connection_delay=lambda _: 1.5)
    delay = KafkaNetClient.connection_delay(SimpleNamespace(_manager=manager), 2)
    used = "node_delay_ms = self._client.connection_delay(node)" in inspect.getsource(Sender)
    assert (delay, used) == (1.5, True), "the fault is gone: see pause_while_connecting"


@pytest.mark.parametrize(("seconds", "milliseconds"), [(0.0, 20.0), (0.001, 20.0), (1.5, 1500.0)])
def test_the_pause_is_in_milliseconds_and_never_zero(seconds: float, milliseconds: float) -> None:
    client: Any = SimpleNamespace(
        _manager=SimpleNamespace(connection_delay=lambda _: seconds), connection_delay=None
    )
    pause_while_connecting(client)
    assert client.connection_delay(2) == milliseconds
