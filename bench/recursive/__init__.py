"""Least and greatest values in recursion, beside the graph algorithms of SciPy."""
