"""The publisher: merges counts, estimates tables and writes sets of snapshot records.

It keeps no state of its own. It reads the state topic and the snapshots topic, compares the two,
and writes the sets that are missing: early revisions of open windows, a final of each closed
window, and the running total through it. One publisher of a plan is active; a second one does no
harm.
"""
