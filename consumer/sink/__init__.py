"""Copies the published tables of a plan to a database or to files, for readers without Kafka.

``worker`` reads the snapshots topic and hands complete sets to a *target*, ``postgres`` or
``parquet_files``. ``stored`` has the rule by which every target decides
whether a set replaces what is stored. Drivers are imported when a target needs them.
"""
