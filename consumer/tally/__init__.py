"""The tally worker: it reads reports, counts them for each window, and stores the counts.

A worker is a member of a Kafka consumer group, which divides the partitions of the reports topics
among its members. For each partition the worker restores the last checkpoint, folds the records
that follow (that is, applies each record to the counts), and writes a new checkpoint every few
seconds. A checkpoint is one record with counts and offset, so each report counts exactly once, also
if a worker fails. ``worker`` contains the loop, ``running`` puts its parts together, and
``folding`` decides what is counted.
"""
