"""The service: tally workers count reports, the publisher turns counts into tables."""
