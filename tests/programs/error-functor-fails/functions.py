import gpuengine as ge


@ge.functor
def half(x: int) -> int:
    if x % 2:
        raise ValueError("it is odd")
    return x // 2
