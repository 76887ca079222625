"""The service: it counts reports, publishes statistics, and reads them back.

Tally workers (``tally``) read the reports topics and keep counts in the state topic. The publisher
(``publish``) merges the counts of all partitions into tables and writes them to the snapshots
topic; ``subscribe`` reads them. ``operations`` contains the tasks that an operator starts by hand,
``runtime`` and ``metrics`` the parts that all roles share, and ``central`` the aggregator of the
central model, which sees raw records.

Terms: ``docs/concepts.md``.
"""
