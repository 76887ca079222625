"""JSON Schemas (draft 2020-12) of the documents that other programs read and write.

They state what a document looks like; what its parts must say about each other (a view that fits
the domain, a set whose records agree) is checked by the code. ``plan-1`` and ``plan-2``: plan
documents of the two versions. ``snapshot-1``: the value of a record of the snapshots topic, a
marginal or a manifest.
"""
