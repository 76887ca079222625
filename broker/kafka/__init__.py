"""The protocols of :mod:`broker.transport`, implemented for Apache Kafka with kafka-python."""

from broker.kafka.broker import KafkaBroker, connect
from broker.kafka.limits import Limits

__all__ = ["KafkaBroker", "Limits", "connect"]
