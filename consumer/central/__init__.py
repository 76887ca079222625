"""The aggregator of the central model, which reads raw records and releases noisy tables.

The central model trusts the aggregator. (In the local model, the default, no raw record leaves a
device, and this package is not used.) The aggregator keeps raw records in memory until their window
closes. It publishes a *release* of each window, which is its noisy tables, at most once. A *claim*,
a record in the log, decides which aggregator may release a window. The *budget account*, a file,
records the privacy loss of the release before any noise is drawn.
"""
