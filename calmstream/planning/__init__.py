"""The parts of ``calmstream plan``: its options, its checks, and the errors that it predicts.

docs/concepts.md explains the terms, `methods_page` lists the methods.
"""
