"""The publisher: merges counts, estimates tables and writes snapshot sets."""
