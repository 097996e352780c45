import gpuengine as ge

EMPTY = (0, -1)


@ge.functor
def hull(a: tuple, b: tuple) -> tuple:
    return min(a[0], b[0]), max(a[1], b[1])


@ge.functor
def common(a: tuple, b: tuple) -> tuple:
    low, high = max(a[0], b[0]), min(a[1], b[1])
    return (low, high) if low <= high else EMPTY


@ge.functor
def shifted(a: tuple, by: int) -> tuple:
    return a[0] + by, min(a[1] + by, 100)


@ge.functor
def sign_of_both(a: tuple, b: tuple) -> tuple:
    return a if a == b or b == ("None_",) else b if a == ("None_",) else ("Any",)
