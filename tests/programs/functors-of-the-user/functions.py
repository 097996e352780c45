import numpy as np
import pyarrow.compute as pc

import gpuengine as ge


@ge.functor
def shout(s: str, n: int) -> str | None:
    return s.upper() + "!" * n if n else None


@ge.functor(columns=True)
def hypot(x, y):
    return np.sqrt(x * x + y * y)


@ge.functor(columns=True)
def initial(s):
    return pc.utf8_slice_codeunits(s, 0, 1)


@ge.functor(compiled=True)
def gcd(a: int, b: int) -> int:
    while b:
        a, b = b, a % b
    return a


@ge.functor
def zero() -> int:
    return 0
