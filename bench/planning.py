"""``planning``: seconds to check, plan and evaluate ever more rules, and rules with ever more atoms."""

from __future__ import annotations

import time

from rich.console import Console

_SIZES = {"atoms of a body": (1_250, 2_500, 5_000), "rules of a chain": (12_500, 25_000, 50_000)}


def _body(atoms: int) -> str:
    body = ", ".join(f"e(x{i}, x{i + 1})" for i in range(atoms))
    types = ".decl e(x: number, y: number)\n.decl p(x: number, y: number)\n"
    return f"{types}e(1, 2).\np(x0, x{atoms}) :- {body}.\n"


def _chain(rules: int) -> str:
    types = "".join(f".decl r{i}(x: number)\n" for i in range(rules + 1))
    return types + "r0(1).\n" + "".join(f"r{i + 1}(x) :- r{i}(x), x > 0.\n" for i in range(rules))


def run_command(console: Console) -> int:
    """Print the seconds of each size: twice the size should take about twice as long."""
    import gpuengine

    gpuengine.Engine(_body(100)).materialise()  # loads the kernels
    for what, make in (("atoms of a body", _body), ("rules of a chain", _chain)):
        for size in _SIZES[what]:
            started = time.perf_counter()
            engine = gpuengine.Engine(make(size))
            checked = time.perf_counter()
            engine.materialise()
            done = time.perf_counter()
            console.print(
                f"{size:7,} {what}: checked and planned in {checked - started:.2f} s, "
                f"evaluated in {done - checked:.2f} s"
            )
    return 0
