"""Facts from the memory of a device: the same as from NumPy, and left where they are if they can be."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import gpuengine as ge
from gpuengine.errors import BackendError, DataError
from gpuengine.evaluation.placement.accelerator import Accelerator
from gpuengine.kernels.cuda.backend import CudaBackend
from gpuengine.kernels.cuda.devices.emulated import EmulatedDevice
from tests.exchange.stand_ins import (
    CudaArray,
    DataFrame,
    DlpackArray,
    NoDevice,
    Series,
    accelerator,
    cupy_stand_in,
    device_of,
    engine,
    install_cupy,
)

EDGE = ".decl edge(x: number, y: number)"
PATH = (
    EDGE
    + """
.decl path(x: number, y: number)
path(x, y) :- edge(x, y).
path(x, z) :- path(x, y), edge(y, z).
"""
)
PAIRS = np.array([[7, 2], [2, 3], [3, 1 << 20], [7, 2], [5, 0]])
ROWS = sorted({(int(x), int(y)) for x, y in PAIRS})


@pytest.mark.parametrize("kind", [CudaArray, DlpackArray, lambda array: DlpackArray(array, 13)])
@pytest.mark.parametrize("dtype", ["i4", "u4", "i8", "u8"])
@pytest.mark.parametrize(
    "form",
    [
        lambda kind, pairs: kind(np.ascontiguousarray(pairs)),
        lambda kind, pairs: kind(np.asfortranarray(pairs)),
        lambda kind, pairs: kind(np.repeat(pairs, 2, axis=0)[::2]),
        lambda kind, pairs: kind(pairs[::-1]),
        lambda kind, pairs: kind(np.repeat(pairs, 3, axis=1)[:, 1::3]),
        lambda kind, pairs: [kind(pairs[:, 0]), kind(pairs[:, 1].copy())],
        lambda kind, pairs: (kind(pairs[:, 0]), kind(pairs[:, 1])),
        lambda kind, pairs: {"x": kind(pairs[:, 0]), "y": kind(pairs[:, 1])},
        lambda kind, pairs: {"y": kind(pairs[:, 1]), "more": kind(pairs[:, 1]), "x": kind(pairs[:, 0])},
        lambda kind, pairs: {"x": kind(pairs[:, 0]), "y": kind(pairs[:, 1])},
    ],
)
def test_columns_stay_on_the_device(kind: Callable[..., Any], dtype: str, form: Callable[..., Any]) -> None:
    kb = engine(EDGE)
    assert kb.load("edge", form(kind, PAIRS.astype(dtype))) == len(PAIRS)
    assert kb.loaded["edge"].backend is kb.options.accelerator.backend
    statistics = device_of(kb).statistics
    # Only the two flags of the check were read.
    assert (statistics.uploaded, statistics.downloaded) == (0, 8)
    assert sorted(kb["edge"]) == ROWS


@pytest.mark.parametrize("dtype", ["i4", "u4"])
def test_ids_are_read_in_place(dtype: str) -> None:
    kb = engine(EDGE)
    columns = [np.ascontiguousarray(column, dtype) for column in PAIRS.T]
    kb.load("edge", [CudaArray(column) for column in columns])
    assert device_of(kb).statistics.items["check_ids"] == PAIRS.size
    assert not {"ids_of_words", "ids_of_half_words"} & device_of(kb).statistics.items.keys()
    for column in columns:
        column[:] = 9
    assert sorted(kb["edge"]) == ROWS


@pytest.mark.parametrize("dtype", ["i8", "u8"])
def test_wide_integers_are_cast_once(dtype: str) -> None:
    kb = engine(EDGE)
    kb.load("edge", CudaArray(PAIRS.astype(dtype)))
    assert device_of(kb).statistics.items["ids_of_words"] == PAIRS.size


@pytest.mark.parametrize("count", [0, 1])
@pytest.mark.parametrize("kind", [CudaArray, DlpackArray])
def test_few_rows(kind: Callable[..., Any], count: int) -> None:
    kb = engine(EDGE)
    assert kb.load("edge", kind(PAIRS[:count])) == count
    assert kb.load("edge", {"x": kind(PAIRS[:count, 0]), "y": kind(PAIRS[:count, 1])}) == count
    assert list(kb["edge"]) == [(7, 2)][:count]


def test_one_column() -> None:
    kb = engine(".decl node(x: unsigned)\n.decl weight(x: float)")
    assert kb.load("node", CudaArray(np.uint64([3, 1, 3]))) == 3
    assert kb.load("node", [CudaArray(np.uint32([4]))]) == 1
    assert kb.load("weight", DlpackArray(np.array([[0.5], [np.inf]]))) == 2
    assert sorted(kb["node"]) == [(1,), (3,), (4,)]
    assert sorted(kb["weight"]) == [(0.5,), (np.inf,)]


@pytest.mark.parametrize(
    "values",
    [
        np.int64([1, -1, 2**24, 2**62]),
        np.int32([1, -1, 2**24, -(2**31)]),
        np.uint32([1, 2**24 - 1, 2**24, 2**32 - 1]),
        np.int8([1, -1, 2, 3]),
        np.uint16([1, 2, 3, 65535]),
        np.array([True, False, True, True]),
        np.float32([1, 2, -3, 2**30]),
        np.float64([1, 2, -3, 2**40]),
    ],
    ids=lambda values: values.dtype.name,
)
def test_other_numbers_go_through_the_host(values: np.ndarray) -> None:
    kb, expected = engine(EDGE), ge.Engine(EDGE, backend="cpu")
    pairs = np.stack([values, values[::-1]], axis=1)
    kb.load("edge", CudaArray(pairs))
    expected.load("edge", pairs)
    assert sorted(kb["edge"]) == sorted(expected["edge"])


def test_only_the_column_that_must_goes_through_the_host() -> None:
    kb = engine(".decl edge(x: number, y: number, z: symbol)")
    x, y = np.int64([1, 2, 3]), np.int64([5, -6, 7])
    kb.load("edge", {"x": CudaArray(x), "y": CudaArray(y), "z": ["a", "b", "c"]})
    statistics = device_of(kb).statistics
    assert statistics.downloaded == 8 + y.nbytes
    assert statistics.uploaded == 2 * 4 * 3
    assert sorted(kb["edge"]) == [(1, 5, "a"), (2, -6, "b"), (3, 7, "c")]


BAD = [
    ("nn", np.float64([[1, 2], [1.5, 3]])),
    ("nn", np.float64([[1, 2], [1, np.nan]])),
    ("nn", np.uint64([[1, 2], [3, 2**63]])),
    ("uu", np.int64([[1, 2], [-3, 4]])),
    ("uu", np.int32([[1, 2], [3, -4]])),
    ("un", np.float64([[1, 2], [-3, 4]])),
    ("ff", np.int64([[1, 2], [3, 2**53 + 1]])),
    ("ns", np.int64([[1, 2]])),
    ("nn", np.zeros((3, 3), np.int64)),
    ("nn", np.zeros(3, np.int64)),
    ("nn", np.zeros((2, 2, 2), np.int64)),
]
TYPES = {"n": "number", "u": "unsigned", "f": "float", "s": "symbol"}


@pytest.mark.parametrize(("kinds", "array"), BAD)
def test_refusals_are_those_of_numpy_arrays(kinds: str, array: np.ndarray) -> None:
    program = f".decl edge(x: {TYPES[kinds[0]]}, y: {TYPES[kinds[1]]})"
    kb, plain = engine(program), ge.Engine(program, backend="cpu")
    with pytest.raises(DataError) as expected:
        plain.load("edge", array)
    with pytest.raises(DataError) as caught:
        kb.load("edge", CudaArray(array))
    assert str(caught.value) == str(expected.value)
    assert len(kb.loaded["edge"]) == 0


def test_refusals_of_their_own() -> None:
    kb = engine(EDGE)
    x = CudaArray(np.int64([1, 2]))
    with pytest.raises(DataError, match=r"^edge: columns of different lengths \(2, 3\)$"):
        kb.load("edge", {"x": x, "y": CudaArray(np.int64([1, 2, 3]))})
    with pytest.raises(DataError, match=r"^edge: columns of different lengths \(2, 1\)$"):
        kb.load("edge", {"x": x, "y": [1]})
    with pytest.raises(DataError, match=r"^edge: an array of shape \(2, 1\) as a column, expected \(n,\)$"):
        kb.load("edge", {"x": x, "y": CudaArray(np.int64([[1], [2]]))})
    with pytest.raises(DataError, match=r"^edge: 1 column \(\), expected 2 \(x, y\)$"):
        kb.load("edge", [x])
    with pytest.raises(DataError, match=r"^edge: an array of complex128 on the device, expected numbers$"):
        kb.load("edge", CudaArray(np.zeros((2, 2), complex)))
    with pytest.raises(DataError, match=r"^edge: can't read Masked on the device: an array with a mask$"):
        kb.load("edge", Masked(np.zeros((2, 2))))
    assert len(kb.loaded["edge"]) == 0


class Masked(CudaArray):
    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {**super().__cuda_array_interface__, "mask": CudaArray(np.ones(2, bool))}


def test_host_and_device_in_turn() -> None:
    kb = engine(PATH)
    kb.load("edge", [(1, 2)])
    kb.load("edge", CudaArray(np.int64([[2, 3], [1, 2]])))
    kb.load("edge", np.int64([[3, 4]]))
    kb.load("edge", [(-1, 1)])
    kb.load("edge", CudaArray(np.uint32([[4, 5]])))
    kb.load("path", CudaArray(np.int64([[9, 9]])))
    assert len(kb.materialise()["path"]) == 16
    expected = ge.Engine(PATH, backend="cpu")
    expected.load("edge", [(1, 2), (2, 3), (3, 4), (-1, 1), (4, 5)])
    expected.load("path", [(9, 9)])
    assert sorted(kb["path"]) == sorted(expected.materialise()["path"])


def test_results_stay_as_they_were() -> None:
    kb = engine(PATH)
    kb.load("edge", CudaArray(np.int64([[1, 2], [2, 3]])))
    edge, path = kb.materialise()["edge"], kb["path"]
    kb.load("edge", CudaArray(np.int64([[3, 4]])))
    kb.load("edge", [(4, 5)])
    assert sorted(edge) == sorted(kb["edge"]) == [(1, 2), (2, 3)]
    assert len(kb["path"]) == 3
    assert len(kb.materialise()["path"]) == 10
    assert len(kb["edge"]) == 4
    assert (len(edge), len(path), sorted(edge)) == (2, 3, [(1, 2), (2, 3)])


@pytest.mark.parametrize("budget", [100, 1_000, 3_000, 6_000, 9_000, 100_000])
def test_too_little_room_on_the_device(budget: int) -> None:
    kb = engine(EDGE, accelerator(budget))
    pairs = np.arange(400).reshape(200, 2)
    assert kb.load("edge", [(0, 1)]) == 1
    assert kb.load("edge", CudaArray(pairs)) == 200
    assert kb.load("edge", CudaArray(pairs + 1)) == 200
    assert (kb.loaded["edge"].backend.name == "cpu") == (budget < 10_000)
    found = {tuple(map(int, row)) for row in [*pairs, *(pairs + 1)]}
    assert set(kb["edge"]) == found
    assert len(kb["edge"]) == len(found)


class OneThreadAtATime(EmulatedDevice):
    """A device that must be bound to a thread that uses it."""

    def __init__(self) -> None:
        super().__init__(threads=1)
        self.bound: set[int] = set()

    def bind_thread(self) -> None:
        self.bound.add(threading.get_ident())

    def wrap(self, source: Any) -> Any:
        assert threading.get_ident() in self.bound
        return super().wrap(source)

    def _launch(self, kernel: Any, items: int, args: tuple[Any, ...]) -> None:
        assert threading.get_ident() in self.bound
        super()._launch(kernel, items, args)


def test_from_another_thread() -> None:
    device = OneThreadAtATime()
    kb = engine(PATH, CudaBackend(device))
    kb.load("edge", CudaArray(np.int64([[1, 2]])))
    kb.materialise()
    device.bound.clear()
    found: list[Any] = []
    for work in (
        lambda: kb.load("edge", CudaArray(np.int64([[2, 3]]))),
        lambda: kb["path"].to_cupy()["x"].tolist(),
        lambda: np.from_dlpack(kb["path"]).tolist(),
    ):
        thread = threading.Thread(target=lambda work=work: found.append(work()))
        thread.start()
        thread.join()
        device.bound.clear()
    assert found == [1, [1], [[1, 2]]]
    assert len(kb.materialise()["path"]) == 3


class Busy(EmulatedDevice):
    """A device that knows whether something may still be under way, of its own or of others."""

    is_busy = False
    others_are_busy = True

    def wrap(self, source: Any) -> Any:
        assert not self.others_are_busy
        return super().wrap(source)

    def _wait_for_others(self) -> None:
        self.others_are_busy = False

    def launch(self, kernel: Any, items: int, *args: Any) -> None:
        self.is_busy = True
        super().launch(kernel, items, *args)

    def _wait(self) -> None:
        self.is_busy = False


@pytest.mark.parametrize("arity", [1, 2, 3])
def test_arrays_may_be_changed_after_loading(arity: int) -> None:
    device = Busy(threads=1)
    columns = ", ".join(f"c{j}: number" for j in range(arity))
    kb = engine(f".decl fact({columns})", CudaBackend(device))
    for start in (0, 50):
        kb.load(
            "fact", CudaArray(np.asfortranarray(np.arange(start, start + 60, dtype="u4").reshape(-1, arity)))
        )
        assert not device.is_busy
        device.others_are_busy = True


def test_a_device_is_opened_for_what_is_on_one() -> None:
    opened: list[CudaBackend] = []

    def opener() -> CudaBackend:
        opened.append(accelerator())
        return opened[-1]

    kb = ge.Engine(EDGE, backend="cpu")
    kb.options = replace(kb.options, accelerator=Accelerator(opener=opener))
    kb.load("edge", PAIRS)
    assert not opened
    kb.load("edge", CudaArray(PAIRS))
    assert len(opened) == 1
    assert kb.loaded["edge"].backend is opened[0]


def test_without_a_device_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in = cupy_stand_in()
    install_cupy(monkeypatch, stand_in)
    kb = ge.Engine(EDGE, backend="cpu")
    assert kb.load("edge", CudaArray(PAIRS)) == len(PAIRS)
    assert kb.load("edge", {"y": CudaArray(PAIRS[:, 1]), "x": np.float32(PAIRS[:, 0])}) == len(PAIRS)
    assert sorted(kb["edge"]) == ROWS
    assert set(stand_in.waits) == {3}
    with pytest.raises(DataError, match=r"edge: an array of shape \(5,\), expected \(n, 2\)"):
        kb.load("edge", CudaArray(PAIRS[:, 0]))


def test_without_any_device(monkeypatch: pytest.MonkeyPatch) -> None:
    install_cupy(monkeypatch, cupy_stand_in(NoDevice("no CUDA-capable device is detected")))
    kb = ge.Engine(EDGE, backend="cpu")
    with pytest.raises(BackendError, match=r"^edge: can't read data on a device: no CUDA-capable device"):
        kb.load("edge", CudaArray(PAIRS))


def test_cudf_frames() -> None:
    kb = engine(".decl edge(x: number, y: symbol, w: float)")
    frame = DataFrame(
        {
            "w": Series(np.float64([0.5, 1.5])),
            "y": Series(pa.array(["b", "a"])),
            "x": Series(np.int64([1, 2])),
            "other": Series(pa.array([None, "z"])),
        }
    )
    assert kb.load("edge", frame) == 2
    assert kb.load("edge", {"x": Series(np.int32([3])), "y": Series(pa.array(["c"])), "w": [2]}) == 1
    assert sorted(kb["edge"]) == [(1, "b", 0.5), (2, "a", 1.5), (3, "c", 2.0)]
    assert kb.loaded["edge"].backend is kb.options.accelerator.backend
    with pytest.raises(DataError, match=r"edge: row 1 .*column 1 \(x: number\): null; facts have no nulls"):
        kb.load("edge", DataFrame({"x": Series(pa.array([1, None])), "y": ["a", "b"], "w": [1.0, 2.0]}))


def test_cudf_series() -> None:
    kb = engine(".decl name(x: symbol)\n.decl node(x: number)")
    assert kb.load("name", Series(pa.array(["a", "b"]))) == 2
    assert kb.load("node", Series(np.int64([4]))) == 1
    assert (sorted(kb["name"]), list(kb["node"])) == ([("a",), ("b",)], [(4,)])


@pytest.mark.parametrize("kind", [1, 3])
def test_dlpack_on_the_host(kind: int) -> None:
    kb = engine(EDGE)
    assert kb.load("edge", DlpackArray(PAIRS, kind)) == len(PAIRS)
    assert kb.load("edge", {"y": DlpackArray(PAIRS[:, 1], kind), "x": list(PAIRS[:, 0])}) == len(PAIRS)
    assert sorted(kb["edge"]) == ROWS
    assert kb.loaded["edge"].backend.name == "cpu"
    with pytest.raises(DataError, match=r"^edge: can't read DlpackArray by DLPack: "):
        kb.load("edge", DlpackArray(np.zeros((2, 2), ">i8"), kind))
    with pytest.raises(DataError, match=r"^edge: can't read DlpackArray by DLPack: "):
        kb.load("edge", {"x": DlpackArray(np.zeros(2, ">i8"), kind), "y": [1, 2]})


@pytest.mark.parametrize(
    "rows",
    [
        np.array([[1, 2], [3, 4]], object),
        np.array([(1, 2), (3, 4)], dtype=[("x", ">i8"), ("y", "i2")]),
        np.ma.masked_array([[1, 2], [3, 4]]),
        [np.array([1, 2]), np.array([3, 4])],
    ],
    ids=["objects", "structured", "masked", "rows"],
)
def test_arrays_on_the_host_are_what_they_were(rows: Any) -> None:
    kb = ge.Engine(EDGE, backend="cpu")
    kb.load("edge", rows)
    assert sorted(kb["edge"]) == [(1, 2), (3, 4)]
