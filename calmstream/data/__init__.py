"""Data that ships with the product."""
