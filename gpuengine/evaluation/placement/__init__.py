"""Where a stratum runs, and what of memory, threads and devices it may take."""
