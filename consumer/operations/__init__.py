"""Tasks that an operator starts by hand; each reads topics once and ends.

``inspect`` reports what is counted and what waits. ``replay`` counts a log again and publishes the
result in another namespace (the first part of the topic names). ``retire`` ends a plan.
"""
