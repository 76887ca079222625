"""A broker in memory, for the demo and for tests of faults, with Kafka's rules that matter."""

from calmstream.broker.in_process.broker import InProcessBroker

__all__ = ["InProcessBroker"]
