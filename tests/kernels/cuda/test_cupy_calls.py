"""What `cupy_calls` asks of CuPy and RMM, held against the installed libraries; none of it needs a GPU."""

from __future__ import annotations

import ast
import sys
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import pytest

from gpuengine.kernels.cuda.devices import cupy_calls
from tests.kernels.cuda.library_calls import LIBRARIES, check_source, signature_of

SOURCE = Path(cupy_calls.__file__).read_text()


def test_every_call_exists_with_the_arguments_that_are_passed() -> None:
    assert check_source(SOURCE).errors == []


def test_every_call_in_the_source_was_checked() -> None:
    """A call that starts with a library's name, by text alone."""
    calls = {ast.unparse(node.func) for node in ast.walk(ast.parse(SOURCE)) if isinstance(node, ast.Call)}
    of_libraries = {name for name in calls if name.startswith(tuple(f"{one}." for one in LIBRARIES))}
    checked = check_source(SOURCE).checked
    assert of_libraries <= checked
    assert {"cupy.sort", "cupy.cumsum", "cupy.RawModule", "rmm.mr.PoolMemoryResource"} <= of_libraries
    # Methods, and the launch itself.
    assert {
        "array.set",
        "array.get",
        "stream.synchronize",
        "pool.set_limit",
        "kernel",
    } <= checked - of_libraries


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("cupy.sort(a, dtype=int)", "cupy.sort: got an unexpected keyword argument 'dtype'"),
        ("cupy.sort()", "cupy.sort: missing a required argument: 'a'"),
        ("cupy.flatnonzero(a, 0)", "cupy.flatnonzero: too many positional arguments"),
        ("cupy.radix_sort(a)", "cupy has no radix_sort"),
        ("cupy.cuda.runtime.deviceCount()", "cupy.cuda.runtime has no deviceCount"),
        ("cupy.RawModule(file='x')", "cupy.RawModule: got an unexpected keyword argument 'file'"),
        ("cupy.cuda.alloc_pinned_memory()", "missing a required argument: 'size'"),
        ("a.set(1, 2, 3)", "a.set: too many positional arguments"),
        ("a.get(into=1)", "a.get: got an unexpected keyword argument 'into'"),
        ("a[0].download()", "a[0] has no download"),
        ("kernel((1,), (1,))", "kernel: missing a required argument: 'args'"),
        ("b = cupy.empty(3)\n    b.fill(0)", "nobody knows what b is: annotate it"),
        ("cupy.empty(3).fill(0)", "nobody knows what cupy.empty(3) is: annotate it"),
        ("a.device.use()", "nobody knows what a.device is: annotate it"),
        ("b: cupy.cuda.MemoryPool = 0\n    b.set_limit(bytes=1)", "unexpected keyword argument 'bytes'"),
        ("import rmm.mr\n    rmm.mr.PoolMemoryResource()", "missing a required argument: 'upstream_mr'"),
        ("from rmm.mr import Pool", "rmm.mr has no Pool"),
    ],
)
def test_a_wrong_call_is_found(line: str, complaint: str) -> None:
    source = f"import cupy\ndef f(a: cupy.ndarray, kernel: cupy.RawKernel):\n    {line}\n"
    errors = check_source(source).errors
    assert len(errors) == 1
    assert complaint in errors[0]


def test_a_right_call_is_not_complained_of() -> None:
    source = (
        "import cupy\nimport numpy as np\n"
        "def f(a: cupy.ndarray, kernel: cupy.RawKernel, n: int):\n"
        "    b: cupy.ndarray = cupy.empty(n, dtype=np.uint8)\n"
        "    b.fill(np.uint8(0))\n"
        "    kernel((n.bit_length(),), (256,), (a[1:], b), shared_mem=0)\n"
        "    cupy.cumsum(a, out=b[1:])\n"
    )
    assert check_source(source).errors == []


def test_signatures_of_compiled_code_come_from_their_documentation() -> None:
    import cupy

    assert str(signature_of(cupy.RawModule)).startswith("(code=None, *, path=None, options=None")
    assert str(signature_of(cupy.ndarray.set)) == "(self, arr, stream=None)"
    assert str(signature_of(cupy.ndarray.reshape)) == "(self, *shape, order=None, copy=None)"
    assert str(signature_of(cupy.cuda.alloc_pinned_memory)) == "(size)"


def test_the_properties_of_a_device_that_are_read_are_reported() -> None:
    """They are keys of a dictionary that CuPy's compiled code fills; their names are in it as text."""
    compiled = Path(import_module("cupy_backends.cuda.api.runtime").__file__).read_bytes()
    read = {
        node.slice.value
        for node in ast.walk(ast.parse(SOURCE))
        if isinstance(node, ast.Subscript) and ast.unparse(node.value) == "found"
    }
    assert read == {"name", "major", "minor", "multiProcessorCount", "maxThreadsPerMultiProcessor"}
    assert [key for key in sorted(read) if key.encode() not in compiled] == []


class Rmm:
    """Stands for RMM: what it is asked for."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.pools: list[SimpleNamespace] = []
        self.resources: dict[int, SimpleNamespace] = {}
        self.allocators: list[object] = []
        plain = type("CudaMemoryResource", (), {})
        mr = SimpleNamespace(
            CudaMemoryResource=plain,
            get_per_device_resource=lambda index: self.resources.get(index, plain()),
            PoolMemoryResource=self.new_pool,
            LimitingResourceAdaptor=lambda pool, limit: SimpleNamespace(pool=pool, limit=limit),
            set_per_device_resource=self.resources.__setitem__,
        )
        monkeypatch.setitem(sys.modules, "rmm", SimpleNamespace(mr=mr))
        monkeypatch.setitem(sys.modules, "rmm.mr", mr)
        monkeypatch.setitem(sys.modules, "rmm.allocators", SimpleNamespace())
        monkeypatch.setitem(sys.modules, "rmm.allocators.cupy", SimpleNamespace(rmm_cupy_allocator="rmm's"))
        monkeypatch.setattr(cupy_calls.cupy.cuda, "set_allocator", self.allocators.append)
        monkeypatch.setattr(cupy_calls.RmmPool, "_pools", {})

    def new_pool(self, upstream: object, initial_pool_size: int, maximum_pool_size: int) -> SimpleNamespace:
        assert type(upstream).__name__ == "CudaMemoryResource"
        made = SimpleNamespace(first=initial_pool_size, most=maximum_pool_size)
        self.pools.append(made)
        return made


def test_rmm_has_one_pool_for_each_device_that_grows_within_the_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rmm = Rmm(monkeypatch)
    gib = 1 << 30
    cupy_calls.RmmPool(0, 2 * gib + 100)
    assert [(pool.first, pool.most) for pool in rmm.pools] == [(gib // 4, 2 * gib)]
    cupy_calls.RmmPool(0, gib)
    assert len(rmm.pools) == 1
    assert (rmm.resources[0].pool, rmm.resources[0].limit) == (rmm.pools[0], gib)
    cupy_calls.RmmPool(1, 1000)
    assert [(pool.first, pool.most) for pool in rmm.pools[1:]] == [(768, 768)]
    cupy_calls.RmmPool(0, 4 * gib)
    assert rmm.resources[0].pool.most == 4 * gib
    assert rmm.allocators == ["rmm's"] * 4


def test_a_pool_of_rmm_that_is_there_already_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    rmm = Rmm(monkeypatch)
    theirs = rmm.resources[0] = SimpleNamespace()
    for limit in (1 << 20, 1 << 40):
        cupy_calls.RmmPool(0, limit)
        assert (rmm.resources[0].pool, rmm.resources[0].limit) == (theirs, limit)
    assert rmm.pools == []


def test_errors_of_allocation_are_memory_errors() -> None:
    import cupy

    assert issubclass(cupy.cuda.memory.OutOfMemoryError, cupy_calls.OUT_OF_MEMORY)
    assert not any(issubclass(error, cupy_calls.OUT_OF_MEMORY) for error in cupy_calls.ERRORS)
