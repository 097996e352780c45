"""How the facts of one predicate are stored, updated and read, in every domain."""

if __name__ != "gpuengine.schemes":
    raise ImportError("import this package as gpuengine.schemes, not by its folder's name")
