"""On a gateway: reports are merged into batches, and every batch is counted at most once."""
