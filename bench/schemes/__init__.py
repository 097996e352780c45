"""Storage schemes against tables: the benchmarks of the thesis and of the modular paper, side by side."""
