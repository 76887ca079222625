"""Decoder of Kafka's record batches, format v2 (KIP-98), from the bytes of a fetch response.

Any sender with access to the topic can write these bytes, and the broker checks little of them: it
accepts compressed batches with any content. Therefore the decoder bounds its memory and raises no
error other than :class:`CorruptBatch`. A batch that cannot be decoded gives a result of the type
:class:`Damaged`, not an error. The result depends on the bytes alone, so that every machine gets
the same one, whatever libraries it has.
"""

from calmstream.broker.record_batches.as_chunk import as_chunk
from calmstream.broker.record_batches.batch_header import CorruptBatch
from calmstream.broker.record_batches.decode import Damaged, RecordColumns, decode_batches

__all__ = ["CorruptBatch", "Damaged", "RecordColumns", "as_chunk", "decode_batches"]
