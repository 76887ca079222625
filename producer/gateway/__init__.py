"""On a gateway: reports are merged into batches, and every batch is counted at most once.

A report goes from ``http.app`` to ``http.committer``, which writes it into ``durable``; it waits in
``open_batches`` and leaves, sealed, through a queue to ``http.delivery`` and ``sender``.
"""
