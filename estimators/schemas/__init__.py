"""JSON Schemas (draft 2020-12) of the documents that other programs read and write.

They state the form of a document; code checks how its parts must fit each other (a view and the
domain, the records of one set). ``plan-1``: plan
documents. ``snapshot-1``: the value of a record of the snapshots topic, a
marginal or a manifest.
"""
