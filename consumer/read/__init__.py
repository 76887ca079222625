"""Answers questions from kept counts: any attributes, any windows, grouped labels.

``kept`` reads the counts topic, ``ranges`` reads the names of windows, and ``history`` sums, fits
and answers. It joins no consumer group and writes nothing.
"""
