"""Answers questions from kept counts: any attributes, any windows, grouped labels."""
