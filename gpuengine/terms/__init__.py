"""Terms: values as 32-bit ids, and the functors, comparisons and aggregates over them."""
