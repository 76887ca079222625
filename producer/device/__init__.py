"""On the device: the reporter, its ledger of spent epsilon, its store, and plan checks."""
