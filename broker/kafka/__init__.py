"""Apache Kafka as a transport, by kafka-python."""

from broker.kafka.broker import KafkaBroker, connect
from broker.kafka.limits import Limits

__all__ = ["KafkaBroker", "Limits", "connect"]
