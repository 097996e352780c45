"""Aggregates in recursion, beside the graph algorithms of SciPy."""
