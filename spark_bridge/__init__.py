"""PySpark in and out; empty until the Spark bridge lands."""

if __name__ != "gpuengine.spark_bridge":
    raise ImportError("import this package as gpuengine.spark_bridge, not by its folder's name")
