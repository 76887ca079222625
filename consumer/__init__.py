"""The service: counts reports, publishes statistics, and reads them back.

Tally workers (``tally``) read the reports topics and keep counts in the state topic. The publisher
(``publish``) merges the counts of all partitions into tables and writes them to the snapshots
topic; ``subscribe`` reads them. ``operations`` holds what an operator runs by hand, ``runtime`` and
``metrics`` what all roles share, and ``central`` the aggregator of the central model, which sees
raw records.
"""
