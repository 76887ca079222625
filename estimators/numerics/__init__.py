"""Numerical procedures that do not depend on plans; they take arrays and sets of attributes."""
