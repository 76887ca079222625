"""Decoder of Kafka's record batches, format v2 (KIP-98), from the bytes of a fetch response.

Any sender can write these bytes. Therefore memory is bounded, a batch that cannot be decoded is one
record with damage, and the result depends on the bytes alone: every machine gets the same one.
"""

from calmstream.broker.record_batches.batch_header import CorruptBatch
from calmstream.broker.record_batches.decode import decode_batches

__all__ = ["CorruptBatch", "decode_batches"]
