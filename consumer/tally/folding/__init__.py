"""From the log of one input partition to counts.

Pure functions of the plan and of the records: no clock, no broker, no randomness. The order is
fixed: every record first advances the log's clock with its append time, then closes the windows
that the clock has passed, and is then admitted or rejected. Counting a log again therefore gives
the same counts, the same rejections and the same closed windows.
"""
