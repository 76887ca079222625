"""The service: tally workers that count reports, and the publisher that turns counts into tables."""
