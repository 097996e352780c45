"""Benchmarks: workloads, peers, a runner that times whole processes, and reports.

Not installed; run from the repository root as ``python -m bench``.  See ``bench/README.md``.
"""
