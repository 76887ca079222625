"""Shares the clients of one connection among many plans.

A service of many plans has one membership of a consumer group, one reader, one sink and one
administrator. Each plan uses *shares* of them, which keep the promises of ``transport`` for
the plan's own topics. An error of one plan's topics reaches the share of this plan only.
"""
