"""Copies the published tables of a plan to a database or to files, for readers without Kafka.

``follower`` reads the snapshots topic and hands complete sets to a *target*: ``postgres``,
``duckdb_file`` or ``parquet_files``. ``stored`` has the rule by which every target decides whether
a set replaces what is stored. The drivers are optional packages, which are imported when a target
of that kind is named.
"""
