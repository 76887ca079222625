"""The tally worker: reads reports, counts them per window, and keeps the counts."""
