"""The kernel: everything that is a function of plans, reports and counts alone.

It uses numpy and has no Kafka, clock, logging, files or network.
"""
