"""Formats of records on Kafka: report batches, state records, snapshots and dead letters.

docs/wire-formats.md describes them for other languages, docs/concepts.md explains the terms.

Compatibility promise. Every body carries ``"v": "MAJOR.MINOR"``. Within a major, fields are only
added, and only optional ones; readers ignore what they do not know; the meaning of a field never
changes. A reports-topic body of another major is a rejection; state of a newer version stops the
reader with a message.
"""
