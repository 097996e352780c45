"""The checked build: every index is compared with its length, and no wrong one gets anywhere.

The switch is read when kernels are imported, so that everything here runs in processes of its own.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gpuengine.kernels.addresses import CHECKED_VARIABLE
from gpuengine.kernels.cpu.checked import name_in

ROOT = Path(__file__).parents[2]
SAMPLE = (
    "tests/kernels/test_rounds.py",
    "tests/kernels/test_erase.py",
    "tests/kernels/test_exact_sums.py",
    "tests/differential/test_engine_is_oracle.py",
    "tests/maintenance/test_updates_are_recomputations.py",
)
LEFT_OUT = "not cuda and not many_small_updates and not over_all_types"
"""Emulated devices, and what takes longest."""
BROKEN_FLOW = """
import gpuengine
from gpuengine.evaluation.rules.variants import VariantRunner

VariantRunner._admit = lambda self, variant: None
kb = gpuengine.Engine('''
.decl e(x: number, y: number)
.decl q(x: number, y: number) eqrel
.decl d(x: number, y: number)
q(t, z) :- e(t, v), q(z, v).
d(v, v) :- q(_, v).
''')
kb.load("e", [(3, 0), (3, 3)])
kb.materialise()
with kb.update() as update:
    update.insert("q", [(0, 0)])
"""
KERNELS = """
import numpy as np

from gpuengine.kernels.cpu import columns, keyset, rowindex
from gpuengine.kernels.cpu.atomics import as_u4, atomic_add
from gpuengine.kernels.cpu.jit import device, kernel
from gpuengine.kernels.cpu.rows import Rows

def attempt(call):
    try:
        call()
    except IndexError as error:
        print(error)
    else:
        print("nothing was noticed")

@device
def second(ids, at):
    return ids[at]

@kernel("i8(u4*, i8)")
def read(ids, at):
    return np.int64(second(ids, at))

@kernel("i8(u4*, i8)")
def write(ids, at):
    ids[at] = np.uint32(1)
    return 0

@kernel("i8(i8*, i8)")
def add(words, at):
    return atomic_add(words, at, np.int64(1))

@kernel("i8(i8*, i8)")
def through(header, at):
    return np.int64(as_u4(header[4])[at])

ids, rows = np.arange(10, dtype=np.uint32), Rows(1, 16)
rows.append([ids], 10)
assert read(ids, 9) == 9 and through(rows.address, 3) == 3 and write(ids, 0) == 0
attempt(lambda: read(ids, 10))
attempt(lambda: read(ids[2:5], 3))
attempt(lambda: write(ids, -1))
attempt(lambda: add(np.zeros(3, np.int64), 3))
attempt(lambda: through(rows.address, 16))
attempt(lambda: through(np.zeros(5, np.int64), 0))
rows.reserve(1000)
assert through(rows.address, 16) >= 0 and read(ids, 9) == 9
"""


def run(*arguments: str, checked: bool = True) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, CHECKED_VARIABLE: "1" if checked else "0", "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, cwd=ROOT, env=environment, check=False
    )


@pytest.mark.slow
def test_a_sample_of_the_suite_passes() -> None:
    done = run("-m", "pytest", *SAMPLE, "-k", LEFT_OUT, "-x", "-p", "no:cacheprovider", "-p", "no:xdist")
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert "100%" in done.stdout


def test_a_wrong_index_names_kernel_function_index_and_length(tmp_path: Path) -> None:
    script = tmp_path / "kernels_here.py"
    script.write_text(KERNELS)
    done = run(str(script))
    assert done.returncode == 0, done.stderr
    assert [line.removeprefix("kernel ") for line in done.stdout.splitlines()] == [
        "__main__.read, in __main__.second: index 10 is outside an array of 10 elements of 4 bytes",
        "__main__.read, in __main__.second: index 3 is outside an array of 3 elements of 4 bytes",
        "__main__.write, in __main__.write: index -1 is outside an array of 10 elements of 4 bytes",
        "__main__.add, in __main__.add: index 3 is outside an array of 3 elements of 8 bytes",
        "__main__.through, in __main__.through: index 16 is outside an array of 16 elements of 4 bytes",
        "__main__.through, in __main__.through: index 0 is outside an array of 0 elements of 4 bytes",
    ]


def test_without_the_flow_of_bounds_the_kernel_is_named() -> None:
    done = run("-c", BROKEN_FLOW)
    assert done.returncode == 1, done.stderr
    assert "IndexError: kernel pipeline.run, in keyset.refuse: index -1 is outside" in done.stderr


def test_without_checks_nothing_is_written_outside_either() -> None:
    done = run("-c", BROKEN_FLOW, checked=False)
    assert done.returncode == 1, done.stderr
    assert "AssertionError: ids outside the bounds" in done.stderr


def test_names_of_functions_are_read_from_those_of_their_code() -> None:
    symbol = "_ZN9gpuengine7kernels3cpu6keyset10insert_bitB2v1B38c8tJTIeFIjxB2IKS"
    assert name_in(symbol) == "keyset.insert_bit"
    assert name_in("plain") == "plain"
