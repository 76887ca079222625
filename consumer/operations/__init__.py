"""What an operator runs by hand.

``inspect`` shows what is counted and what waits, ``replay`` counts a log again into another
namespace, ``retire`` ends a plan, and ``pilot_counts`` reads what a pilot plan has counted. Each
reads topics once and ends.
"""
