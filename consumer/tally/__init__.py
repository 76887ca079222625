"""The tally worker: reads reports, counts them per window, and keeps the counts.

A worker is one member of a Kafka consumer group; the group divides the input partitions among its
members. Of each partition the worker restores the last checkpoint, folds the records that follow,
and writes a new checkpoint every few seconds. Offsets and counts are one record, so each report
counts exactly once, whichever worker fails. ``worker`` is the loop, ``running`` puts its parts
together, ``folding`` decides what is counted.
"""
