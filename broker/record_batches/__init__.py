"""Kafka's record batches, format v2 (KIP-98), decoded from the bytes of a fetch.

The bytes come from any sender with access, and the broker checks little of them: compressed
batches pass with any content. So this package is bounded in memory and raises nothing but
:class:`CorruptBatch`. A batch that cannot be decoded is a result, :class:`Damaged`, and not an
error. The result depends on the bytes alone, never on the libraries of a machine.
"""

from broker.record_batches.as_records import as_records
from broker.record_batches.batch_header import CorruptBatch
from broker.record_batches.decode import Columns, Damaged, decode_batches

__all__ = ["Columns", "CorruptBatch", "Damaged", "as_records", "decode_batches"]
