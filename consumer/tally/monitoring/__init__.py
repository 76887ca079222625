"""What a tally worker observes about its partitions and its input.

Where the logs end, whether every partition advances, and how many records come from foreign
senders. The results are metrics, health and, at the last, the exit of a worker that makes no
progress. What is counted never depends on anything here.
"""
