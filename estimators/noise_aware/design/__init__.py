"""Before collection: which views are collected, and from how many users."""
