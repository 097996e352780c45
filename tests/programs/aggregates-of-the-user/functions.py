import numpy as np

import gpuengine as ge


@ge.functor
def longer(a: str, b: str) -> str:
    return max(a, b, key=len)


@ge.functor
def join(so_far: str, x: str) -> str:
    return f"{so_far},{x}" if so_far else x


@ge.functor(columns=True)
def weigh(so_far, n):
    return so_far + np.sqrt(n)


@ge.functor(compiled=True)
def poly(so_far: int, x: int) -> int:
    return 10 * so_far + x


@ge.functor
def odd(so_far: int, x: int) -> int | None:
    return None if x == 4 else so_far * x
