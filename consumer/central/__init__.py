"""The trusted aggregator of central plans: raw records in, noisy releases out."""
