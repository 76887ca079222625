"""The aggregator of the central model, which sees raw records and releases noisy tables.

Raw records are held in memory until their window closes. A window is released at most once: a claim
in the log decides which aggregator may release it, and the budget account pays before any noise is
drawn. This room shares nothing with the tally workers but the runtime: in the local model, the
default, no raw record leaves a device.
"""
