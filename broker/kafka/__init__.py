"""The protocols of `broker.transport`, implemented for Apache Kafka with kafka-python."""

from calmstream.broker.kafka.broker import KafkaBroker, connect
from calmstream.broker.kafka.limits import KafkaLimits

__all__ = ["KafkaBroker", "KafkaLimits", "connect"]
