"""Local mechanisms (frequency oracles); the formulas are in docs/methods/mechanisms.md."""
