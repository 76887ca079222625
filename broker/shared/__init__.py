"""Shares the clients of one connection among many plans.

Each plan uses *shares*, which keep the promises of ``transport`` for the plan's own topics. An
error of one plan's topics reaches the share of this plan only.
"""
