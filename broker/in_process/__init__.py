"""A broker in the memory of this process, for the demo and for tests of faults.

It follows those rules of Kafka that calmstream depends on: append times, trims, size limits,
consumer groups, and topic ids. It deletes nothing by itself. ``broker`` is the entry point;
``cluster`` holds the shared topics and groups, and ``log`` the records of one partition.
"""

from calmstream.broker.in_process.broker import InProcessBroker

__all__ = ["InProcessBroker"]
