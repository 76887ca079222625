"""The records that a tally worker writes: checkpoints, closed windows, dead letters and ticks."""
