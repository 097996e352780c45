"""Programs that compute, of many shapes, beside DuckDB."""
