"""What a tally worker writes: checkpoints, closed windows, dead letters and ticks.

State records and dead letters go through one outbox, which keeps each of them until the broker has
acknowledged it. A checkpoint waits until all that precedes it is acknowledged; so no crash can lose
a closed window or a dead letter that a checkpoint covers.
"""
