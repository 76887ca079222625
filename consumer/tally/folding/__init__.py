"""Counts the log of one input partition; the result depends only on the plan and the records.

The *log's clock* is the largest append time so far. Each record first advances it, then closes the
windows that it has passed, and is then admitted or rejected.
"""
