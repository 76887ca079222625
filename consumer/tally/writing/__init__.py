"""The records that a tally worker writes: checkpoints, closed windows, dead letters and ticks.

Checkpoints, closed windows and dead letters go through one outbox, which keeps each record until
the broker has acknowledged it. A checkpoint is sent only after all earlier records were
acknowledged. So a crash cannot lose a closed window or a dead letter whose input the checkpoint
counts as read.
"""
