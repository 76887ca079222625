"""The publisher: it merges counts, estimates tables and writes sets of snapshot records.

A *set* is all tables of one window and kind. The publisher stores nothing itself. It reads the
state topic and the snapshots topic, compares the two, and writes the sets that are missing: early
sets of open windows, a final of each closed window, and the running total up to each closed window.
One publisher of a plan is active at a time. If two are active for a moment, no harm is done: see
``publisher``.
"""
