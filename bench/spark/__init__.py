"""Benchmarks of the Spark bridge: the pipeline, distributed fixpoints, scaling, overhead and insertion."""
