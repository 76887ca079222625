"""Transport of bytes over a log broker.

`broker.transport` defines the protocols that all other packages use. ``in_process`` implements
them in memory, ``kafka`` with Apache Kafka, and ``record_batches`` decodes Kafka's record format.
``names`` and ``permissions`` state which topics a plan has and which role may use them. The terms
plan, group and window are explained in ``docs/concepts.md``.
"""
