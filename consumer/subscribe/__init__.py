"""Reading of snapshots, for the users of the statistics.

A set consists of all tables of one window and kind: one record for each table and a manifest, which
lists them. ``assembler`` puts records together into complete sets, ``subscribe`` sorts the
sets by window and yields them. No reader sees an incomplete set, or
an older set after a newer one.
"""
