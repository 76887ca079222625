"""On a device: the reporter, the ledger of its privacy loss, its store, and plan checks."""
