"""Reading snapshots: what a user of the statistics imports.

A set consists of a manifest and one record per table. ``assembler`` puts records together into
whole sets, ``delivery_order`` delivers them in the order of windows, and ``subscribe`` is the
iterator over both. No reader sees a part of a set, or an older set after a newer one.
"""
