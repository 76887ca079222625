"""The parts of ``calmstream plan``: its options, its checks, and the errors that it predicts."""
