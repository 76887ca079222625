"""Reading of snapshots, for the users of the statistics.

A set consists of all tables of one window and kind: one record for each table and a manifest, which
lists them. ``assembler`` puts records together into complete sets, ``delivery_order`` sorts the
sets by window, and ``subscribe`` provides both as an iterator. No reader sees an incomplete set, or
an older set after a newer one.
"""
