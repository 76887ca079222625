"""Tasks that an operator starts by hand; each reads topics once and ends.

``inspect`` reports what is counted and what waits, ``status`` the state of many plans. ``retire``
ends a plan.
"""
