"""A broker inside this process: the embedded default, and the bench for faults.

It keeps Kafka's rules that calmstream depends on (append times, compaction by key, trims, size
limits, consumer groups with generations, topic ids) in memory, so nothing outlives the process.
"""

from broker.in_process.broker import InProcessBroker
from broker.in_process.faults import Faults, SendFault

__all__ = ["Faults", "InProcessBroker", "SendFault"]
