"""A broker inside this process, for embedded use and for tests of faults.

It follows those rules of Kafka that calmstream depends on: append times, compaction by key, trims,
size limits, consumer groups with generations, topic ids. Everything is in memory.
"""

from broker.in_process.broker import InProcessBroker
from broker.in_process.faults import Faults, SendFault

__all__ = ["Faults", "InProcessBroker", "SendFault"]
