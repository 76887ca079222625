"""The protocols of `broker.transport`, implemented for Apache Kafka with kafka-python."""

from calmstream.broker.kafka.broker import KafkaBroker, connect

__all__ = ["KafkaBroker", "connect"]
