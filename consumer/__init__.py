"""The service: it counts reports, publishes statistics, and reads them back.

Tally workers (``tally``) read the reports topics and keep counts in the state topic. The publisher
(``publish``) merges the counts of all partitions into tables and writes them to the snapshots
topic; ``subscribe`` reads them. ``operations`` contains the tasks that an operator starts by hand,
``runtime`` and ``metrics`` the parts that all roles share, and ``central`` the aggregator of the
central model, which sees raw records.

Terms that all packages use (see also ``docs/concepts.md``): time is divided into *windows*; the
number of a window is also called its *period*. A window of a partition is *closed* when later
reports for it are rejected. A *set* consists of all snapshot records of one window and kind. The
kind is *early* (some partition has not closed the window), *final* (all have) or *total* (the sum
of all windows up to this one). The *revision* of a set states, for each partition of the reports
topics, the offset below which all reports are counted. A *tick* is a record without reports that
advances the time of an idle partition.
"""
