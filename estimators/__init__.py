"""The kernel: everything that is a function of plans, reports and counts alone.

It uses numpy and has no Kafka, clock, logging, files or network. `plan` is the document that all
parties read, `mechanisms` perturb and count reports, `methods` design plans and estimate tables,
`wire` encodes what travels, `analysis` uses published tables, and `central` is the central model.
"""
