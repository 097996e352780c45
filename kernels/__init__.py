"""Pure functions on arrays, one contract and one folder for each backend; nothing here knows of rules."""

if __name__ != "gpuengine.kernels":
    raise ImportError("import this package as gpuengine.kernels, not by its folder's name")
