"""Counts the log of one input partition, record by record; to *fold* a record is to apply it.

The result depends only on the plan and the records: there is no real clock, no broker and no
randomness. The *log's clock* is the largest append time of the records so far. Each record first
advances the log's clock, then closes the windows that the clock has passed, and is then admitted or
rejected. Therefore, to count a log again gives the same counts, the same rejections and the same
closed windows.
"""
