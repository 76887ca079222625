"""Decoder of Kafka's record batches, format v2 (KIP-98), from the bytes of a fetch response.

Any sender with access to the topic can write these bytes, and the broker checks little of them: it
accepts compressed batches with any content. Therefore the decoder bounds its memory and raises no
error other than :class:`CorruptBatch`. A batch that cannot be decoded gives one record with
:class:`Damage`, not an error. The result depends on the bytes alone, so that every machine gets
the same one, whatever libraries it has.
"""

from calmstream.broker.record_batches.batch_header import CorruptBatch
from calmstream.broker.record_batches.decode import decode_batches

__all__ = ["CorruptBatch", "decode_batches"]
