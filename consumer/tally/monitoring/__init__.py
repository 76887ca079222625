"""Observations of a tally worker about its partitions and its input.

It observes the ends of the logs, whether every partition advances, and how many records come from
foreign senders. The results are metrics, health and, if a worker makes no progress, its exit. These
observations never influence what is counted.
"""
