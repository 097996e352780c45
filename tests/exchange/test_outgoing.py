"""Facts as CuPy arrays, cuDF frames and DLPack: decoded where they are, and the caller's own."""

from __future__ import annotations

import gc
import inspect
import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import gpuengine as ge
from gpuengine.errors import BackendError, DataError, MemoryBudgetError
from gpuengine.kernels.cuda.backend import CudaBackend
from tests.exchange.stand_ins import (
    CudaArray,
    DataFrame,
    NoDevice,
    accelerator,
    cupy_stand_in,
    engine,
    install_cudf,
    install_cupy,
)

ALL = """
.decl given(n: number, u: unsigned, f: float)
.decl fact(n: number, u: unsigned, f: float)
fact(n, u, f) :- given(n, u, f).
"""
VALUES = [
    (0, 0, 0.0),
    (-1, 2**64 - 1, -0.0),
    (2**24 - 1, 2**24, 0.5),
    (2**24, 2**24 - 1, float("inf")),
    (-(2**63), 2**63, 1e-300),
    (2**63 - 1, 7, -1e300),
]


def derived(program: str, relation: str, rows: Any, backend: Any = None) -> ge.Engine:
    kb = engine(program, backend)
    kb.load(relation, rows)
    return kb.materialise()


def on_device(view: ge.RelationView) -> bool:
    return isinstance(view._scheme.backend, CudaBackend)


def test_numbers_are_decoded_on_the_device() -> None:
    kb = derived(ALL, "given", VALUES)
    view = kb["fact"]
    assert on_device(view)
    statistics = view._scheme.backend.device.statistics  # type: ignore[attr-defined]
    downloaded, syncs = statistics.downloaded, statistics.syncs
    arrays = view.to_cupy()
    assert (statistics.downloaded, statistics.syncs) == (downloaded, syncs + 1)
    assert {name: array.dtype for name, array in arrays.items()} == {"n": "i8", "u": "u8", "f": "f8"}
    assert all(view._scheme.backend.device.owns(array) for array in arrays.values())  # type: ignore[attr-defined]
    rows = list(zip(*(array.tolist() for array in arrays.values()), strict=True))
    assert sorted(rows) == sorted(VALUES)
    assert sorted(map(str, rows)) == sorted(map(str, view))


def test_nan_and_the_sign_of_zero() -> None:
    bits = np.uint64([0x7FF8000000000000, 0x8000000000000000, 0x0])
    kb = derived(".decl a(x: float)\n.decl b(x: float)\nb(x) :- a(x).", "a", bits.view(np.float64))
    array = kb["b"].to_cupy()["x"]
    assert sorted(np.from_dlpack(array).view(np.uint64).tolist()) == sorted(bits.tolist())


def test_no_facts() -> None:
    kb = derived(ALL, "given", [])
    assert [array.shape for array in kb["fact"].to_cupy().values()] == [(0,)] * 3
    assert np.from_dlpack(kb.query("fact(n, 5, 1.0)")).shape == (0,)


def test_arrays_are_the_callers() -> None:
    kb = derived(ALL, "given", VALUES)
    view = kb["fact"]
    array = view.to_cupy()["n"]
    np.from_dlpack(array)[:] = 5
    np.from_dlpack(kb.query("fact(n, u, f)").to_arrow().column(0).combine_chunks())
    assert sorted(row[0] for row in view) == sorted(value[0] for value in VALUES)
    expected = view.to_cupy()["u"]
    kept = expected.tolist()
    del kb, view
    gc.collect()
    assert expected.tolist() == kept


def test_a_view_keeps_its_size() -> None:
    kb = engine(".decl edge(x: number, y: number)")
    kb.load("edge", CudaArray(np.int64([[1, 2], [3, 4]])))
    view = kb["edge"]
    kb.load("edge", CudaArray(np.arange(100, 200).reshape(50, 2)))
    assert on_device(view)
    assert sorted(view.to_cupy()["x"].tolist()) == [1, 3]
    assert np.from_dlpack(view).shape == (2, 2)
    assert len(kb["edge"].to_cupy()["x"]) == 52


def test_from_one_engine_to_another() -> None:
    first = derived(ALL, "given", VALUES)
    second = engine(".decl fact(f: float, u: unsigned, n: number)")
    second.load("fact", first["fact"].to_cupy())
    third = engine(".decl fact(f: float, u: unsigned, n: number)")
    third.load("fact", first["fact"])
    rows = sorted((f, u, n) for n, u, f in VALUES)
    assert sorted(second["fact"]) == sorted(third["fact"]) == rows


def test_text_has_no_cupy_form() -> None:
    kb = engine(".decl edge(x: number, y: symbol)")
    kb.load("edge", [(1, "a")])
    with pytest.raises(DataError) as caught:
        kb["edge"].to_cupy()
    assert str(caught.value) == (
        "edge: column y holds symbol, and CuPy arrays hold numbers only\n"
        "  hint: to_cudf() and to_arrow() have columns of text as well"
    )


@pytest.mark.parametrize("backend", ["cpu", "cuda"])
def test_cudf(monkeypatch: pytest.MonkeyPatch, backend: str) -> None:
    install_cudf(monkeypatch)
    install_cupy(monkeypatch, cupy_stand_in())
    columns = "(x: number, y: symbol, z: float)"
    program = f".decl a{columns}\n.decl b{columns}\nb(x, y, z) :- a(x, y, z)."
    rows = [(1, "é", 0.5), (-2, "", 1.5)]
    kb = ge.Engine(program, backend="cpu") if backend == "cpu" else engine(program)
    kb.load("a", rows)
    frame = kb.materialise()["b"].to_cudf()
    assert isinstance(frame, DataFrame)
    assert frame.columns == ["x", "y", "z"]
    assert [frame.data[name].dtype for name in "xyz"] == ["i8", "O", "f8"]
    values = [series.to_arrow().to_pylist() for series in frame.data.values()]
    assert sorted(zip(*values, strict=True)) == sorted(rows)
    other = engine(".decl b(x: number, y: symbol, z: float)")
    assert other.load("b", frame) == 2
    assert sorted(other["b"]) == sorted(rows)


def test_cudf_of_no_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    install_cudf(monkeypatch)
    kb = ge.Engine(".decl yes()\n.decl no()\nyes().", backend="cpu")
    assert list(kb["yes"].to_cudf().index) == [0]
    assert list(kb["no"].to_cudf().index) == []


def test_without_cudf(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cudf", None)
    kb = ge.Engine(".decl edge(x: number)", backend="cpu")
    with pytest.raises(
        BackendError, match=r"^edge: to_cudf\(\) needs cuDF: .*\n  hint: pip install cudf-cu13"
    ):
        kb["edge"].to_cudf()


def test_facts_on_the_host_are_uploaded(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in = cupy_stand_in()
    install_cupy(monkeypatch, stand_in)
    kb = ge.Engine(ALL, backend="cpu")
    kb.load("given", VALUES)
    arrays = kb.materialise()["fact"].to_cupy()
    assert sorted(zip(*(array.tolist() for array in arrays.values()), strict=True)) == sorted(VALUES)
    assert stand_in.waits == [3] * 3, "each array is complete, and what it was copied from may go"


def test_without_a_driver_that_is_what_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    install_cupy(monkeypatch, cupy_stand_in(driver=0))
    kb = ge.Engine(ALL, backend="cpu")
    kb.load("given", VALUES)
    with pytest.raises(BackendError, match="no NVIDIA driver was found"):
        kb.materialise()["fact"].to_cupy()


@pytest.mark.parametrize("failure", [NoDevice("no device"), MemoryError("out of memory")])
def test_facts_that_can_not_be_uploaded(monkeypatch: pytest.MonkeyPatch, failure: Exception) -> None:
    install_cupy(monkeypatch, cupy_stand_in(failure))
    kb = ge.Engine(".decl edge(x: number)", backend="cpu")
    with pytest.raises(
        BackendError, match=f"^edge: the facts can't be copied to a device: {failure}\n  hint: "
    ):
        kb["edge"].to_cupy()


def test_types_made_of_numbers() -> None:
    kb = engine(".type Node <: unsigned\n.type Any = Node\n.decl edge(x: Node, y: Any)")
    kb.load("edge", CudaArray(np.int64([[1, 2]])))
    assert {name: array.tolist() for name, array in kb["edge"].to_cupy().items()} == {"x": [1], "y": [2]}
    assert np.from_dlpack(kb["edge"]).dtype == np.uint64


def test_the_stand_in_has_the_calls_that_there_are() -> None:
    """What is used of CuPy without a device of ours exists in `cupy_calls`, under these parameters."""
    from gpuengine.kernels.cuda.devices import cupy_calls

    stand_in = vars(cupy_stand_in())
    for name in stand_in.keys() - {"ERRORS", "OUT_OF_MEMORY", "waits"}:
        expected = list(inspect.signature(stand_in[name]).parameters)
        assert list(inspect.signature(getattr(cupy_calls, name)).parameters) == expected, name


def test_cupy_arrays_have_what_is_asked_of_them_directly() -> None:
    import cupy

    for name in (
        "__dlpack__",
        "__dlpack_device__",
        "__cuda_array_interface__",
        "nbytes",
        "itemsize",
        "shape",
    ):
        assert hasattr(cupy.ndarray, name), name


def test_without_a_gpu() -> None:
    script = """
import gpuengine as ge
kb = ge.Engine(".decl edge(x: number)", backend="cpu")
kb.load("edge", [1, 2])
try:
    kb["edge"].to_cupy()
except ge.GpuEngineError as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "CUDA_VISIBLE_DEVICES": "-1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith("edge: the facts can't be copied to a device: ")
    assert done.stdout.splitlines()[-1].startswith('  hint: pip install "gpuengine[gpu]"')


def test_too_little_room_on_the_device() -> None:
    backend = accelerator(200_000)
    kb = engine(".decl edge(x: number, y: number)", backend)
    kb.load("edge", CudaArray(np.arange(4_000).reshape(2_000, 2)))
    view = kb["edge"]
    assert on_device(view)
    backend.device.budget = backend.device.memory()[0] + 20_000  # type: ignore[attr-defined]
    with pytest.raises(MemoryBudgetError, match=r"^edge: out of device memory for the values of its facts: "):
        view.to_cupy()
    assert len(view.to_arrow()) == 2_000


@pytest.mark.parametrize("backend", ["cpu", "cuda"])
def test_dlpack(backend: str) -> None:
    program = ".decl edge(x: number, y: number)\n.decl copy(x: number, y: number)\ncopy(x, y) :- edge(x, y)."
    kb = ge.Engine(program, backend="cpu") if backend == "cpu" else engine(program)
    rows = [(1, -2), (2**30, 4), (5, 6)]
    kb.load("edge", rows)
    view = kb.materialise()["copy"]
    assert on_device(view) == (backend == "cuda")
    assert view.__dlpack_device__() == (1, 0)
    matrix = np.from_dlpack(view)
    assert (matrix.dtype, matrix.shape) == (np.int64, (3, 2))
    assert sorted(map(tuple, matrix.tolist())) == sorted(rows)
    vector = np.from_dlpack(kb.query("copy(x, 4)"))
    assert (vector.dtype, vector.tolist()) == (np.int64, [2**30])
    del kb, view
    gc.collect()
    assert sorted(map(tuple, matrix.tolist())) == sorted(rows)


@pytest.mark.parametrize("columns", ["x: number, y: float", "x: symbol", "x: number, y: symbol", ""])
def test_no_dlpack_form(columns: str) -> None:
    view = ge.Engine(f".decl edge({columns})", backend="cpu")["edge"]
    for ask in (view.__dlpack__, view.__dlpack_device__):
        with pytest.raises(BufferError) as caught:
            ask()
        assert str(caught.value).startswith(f"edge({columns}) has no DLPack form")
