"""The tally worker: it reads reports, counts them for each window, and stores the counts.

``worker`` holds the loop; ``folding`` decides what is counted. A *fold* is the state of counting
one partition.
"""
