"""Compile scalar kernels with numba once; load them in milliseconds ever after.

A kernel is a plain Python function over pointers and integers with a fixed signature:

    @kernel("i8(u4*, i8, u8*)")
    def count_set(ids, n, bits): ...

The first call compiles it with numba (nopython, no GIL) and stores the machine code in the cache
directory; later processes load that code through llvmlite without importing numba, whose import
alone takes longer than many whole programs.  Pointers are indexed like arrays; lengths are
passed beside them; nothing is bounds-checked and nothing can raise: kernels report by return value.
Calls release the GIL.

A function marked `@device` can be called from kernels; `@intrinsic_of(build)` marks a Python
function that kernels replace by a numba intrinsic (see `atomics`).
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import threading
import time
import types
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

_CTYPES: dict[str, Any] = {
    "i4": ctypes.c_int32,
    "i8": ctypes.c_int64,
    "u1": ctypes.c_uint8,
    "u4": ctypes.c_uint32,
    "u8": ctypes.c_uint64,
    "f8": ctypes.c_double,
}
_DEVICE: dict[int, types.FunctionType] = {}
_INTRINSIC: dict[int, Callable[[], Any]] = {}
_lock = threading.RLock()
compile_seconds: dict[str, float] = {}
"""Seconds spent compiling, by kernel, in this process; empty when every kernel came from the cache."""


def device(function: Any) -> Any:
    """Mark a function as callable from kernels."""
    _DEVICE[id(function)] = function
    return function


def intrinsic_of(build: Callable[[], Any]) -> Callable[[Any], Any]:
    """Mark a function whose compiled form is the numba intrinsic that `build()` returns."""

    def mark(function: Any) -> Any:
        _INTRINSIC[id(function)] = build
        return function

    return mark


class Kernel:
    """A compiled-on-demand function. Call it with NumPy arrays (or addresses) and integers."""

    __slots__ = ("_call", "_pointers", "function", "result", "signature")

    def __init__(self, function: types.FunctionType, signature: str) -> None:
        self.function = function
        self.signature = signature
        result, _, rest = signature.partition("(")
        self.result = result
        self._pointers = [p.strip() for p in rest.rstrip(")").split(",")]
        self._call: Any = None

    @property
    def name(self) -> str:
        return f"{self.function.__module__.rpartition('.')[2]}.{self.function.__name__}"

    def load(self, *, compile_it: bool = True) -> None:
        """Make the kernel callable now: from the cache, or by compiling it."""
        with _lock:
            if self._call is None:
                address = _load_cached(self) or (_compile(self) if compile_it else None)
                if address is None:
                    return
                args = [ctypes.c_void_p if p.endswith("*") else _CTYPES[p] for p in self._pointers]
                self._call = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, *args)(
                    address
                )

    def __call__(self, *args: Any) -> int:
        if self._call is None:
            self.load()
        out = ctypes.c_int64()
        error = ctypes.c_void_p()
        plain = [a if type(a) is int or not isinstance(a, np.ndarray) else a.ctypes.data for a in args]
        self._call(ctypes.addressof(out), ctypes.addressof(error), *plain)
        return out.value


def kernel(signature: str) -> Callable[[Any], Kernel]:
    """Declare a kernel; `signature` is ``result(arg, ...)`` of i4 i8 u4 u8 f8, with ``*`` for pointers.

    The result is always ``i8``.
    """

    def wrap(function: Any) -> Kernel:
        return Kernel(function, signature)

    return wrap


def load_in_background(kernels: Sequence[Kernel]) -> threading.Thread:
    """Load kernels while the caller reads programs and files; whoever needs one sooner waits for it.

    Only the first is compiled if it is not in the cache. The others may never be needed, and a process that
    ends before they are done would start on them again the next time, and the next.
    """

    def load_all() -> None:
        for number, one in enumerate(kernels):
            one.load(compile_it=number == 0)

    thread = threading.Thread(target=load_all, name="gpuengine-kernels", daemon=True)
    thread.start()
    return thread


def cache_directory() -> Path:
    """Where machine code is kept: ``GPUENGINE_CACHE_DIR`` or the user's cache folder."""
    given = os.environ.get("GPUENGINE_CACHE_DIR")
    if given:
        return Path(given)
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "gpuengine"


@cache
def _cache_folder() -> Path:
    """The folder of this exact compiler, processor and kernel source."""
    import llvmlite
    from llvmlite import binding

    digest = hashlib.sha256()
    for part in (llvmlite.__version__, binding.get_host_cpu_name(), platform.machine()):
        digest.update(part.encode() + b"\0")
    digest.update(_numba_version())
    digest.update(binding.get_host_cpu_features().flatten().encode())
    here = Path(__file__).parent
    for content in source_contents(here, here.parent):
        digest.update(content)
    return cache_directory() / "kernels" / digest.hexdigest()[:24]


def source_contents(*folders: Path, below: bool = False) -> Iterator[bytes]:
    """What the modules in these folders, and `below` them, hold, in order of paths, also if in a wheel."""
    archive = getattr(globals().get("__loader__"), "archive", None)
    if archive is None:
        pattern = "**/*.py" if below else "*.py"
        for file in sorted(file for folder in folders for file in folder.glob(pattern)):
            yield file.read_bytes()
        return
    from zipfile import ZipFile

    with ZipFile(archive) as content:
        names = {Path(archive, name): name for name in content.namelist() if name.endswith(".py")}
        for path in sorted(names):
            if any(folder in (path.parents if below else (path.parent,)) for folder in folders):
                yield content.read(names[path])


def _numba_version() -> bytes:
    """The file that tells numba's version; `importlib.metadata` would take longer than a small program."""
    spec = find_spec("numba")
    if spec is None or spec.origin is None:
        return b""
    return Path(spec.origin).with_name("_version.py").read_bytes()


@cache
def _engine() -> Any:
    """One LLVM execution engine for the process; object files are added to it."""
    from llvmlite import binding

    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    machine = binding.Target.from_default_triple().create_target_machine()
    return binding.create_mcjit_compiler(binding.parse_assembly(""), machine)


def _link(code: bytes, symbol: str) -> int:
    from llvmlite import binding

    engine = _engine()
    engine.add_object_file(binding.ObjectFileRef.from_data(code))
    engine.finalize_object()
    address: int = engine.get_function_address(symbol)
    return address


def _load_cached(wanted: Kernel) -> int | None:
    """The address of a cached kernel, or None if there is none that is whole."""
    try:
        content = (_cache_folder() / f"{wanted.name}.bin").read_bytes()
    except OSError:
        return None
    checksum, _, rest = content.partition(b"\n")
    if hashlib.sha256(rest).hexdigest().encode() != checksum:
        return None
    symbol, _, code = rest.partition(b"\n")
    return _link(code, symbol.decode())


def _store(wanted: Kernel, symbol: str, code: bytes) -> None:
    """Write a kernel to the cache atomically; a read-only cache only costs the next start."""
    rest = symbol.encode() + b"\n" + code
    content = hashlib.sha256(rest).hexdigest().encode() + b"\n" + rest
    folder = _cache_folder()
    temporary = folder / f".{wanted.name}.{os.getpid()}.{threading.get_ident()}"
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        temporary.write_bytes(content)
        temporary.replace(folder / f"{wanted.name}.bin")
    except OSError:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def _compile(wanted: Kernel) -> int:
    import numba

    started = time.perf_counter()
    scalars: dict[str, Any] = {
        "i4": numba.types.int32,
        "i8": numba.types.int64,
        "u1": numba.types.uint8,
        "u4": numba.types.uint32,
        "u8": numba.types.uint64,
        "f8": numba.types.float64,
    }
    args = [
        numba.types.CPointer(scalars[p[:-1]]) if p.endswith("*") else scalars[p] for p in wanted._pointers
    ]
    signature: Any = scalars[wanted.result](*args)
    with _without_optimisation():
        dispatcher = numba.njit(signature, nogil=True, **_compiler_options())(
            _with_compiled_globals(wanted.function)
        )
    overload = dispatcher.overloads[signature.args]
    code = _optimised_object(overload.library._final_module.as_bitcode())
    symbol = overload.fndesc.llvm_func_name
    _store(wanted, symbol, code)
    compile_seconds[wanted.name] = time.perf_counter() - started
    return _link(code, symbol)


@contextmanager
def _without_optimisation() -> Iterator[None]:
    """Have numba only translate: it would optimise every device function again in each of its callers."""
    import numba

    config: Any = numba.config
    level = config.OPT
    config.OPT = type(level)(0)
    try:
        yield
    finally:
        config.OPT = level


def _optimised_object(bitcode: bytes) -> bytes:
    """Machine code of a whole kernel, optimised once.

    Loops are not vectorised: branches and random reads gain nothing from it.
    """
    from llvmlite import binding

    _engine()
    module = binding.parse_bitcode(bitcode)
    machine = binding.Target.from_default_triple().create_target_machine(
        cpu=binding.get_host_cpu_name(),
        features=binding.get_host_cpu_features().flatten(),
        opt=3,
        codemodel="jitdefault",
    )
    tuning = binding.create_pipeline_tuning_options(speed_level=3)
    tuning.loop_vectorization = tuning.slp_vectorization = False
    builder = binding.create_pass_builder(machine, tuning)
    builder.getModulePassManager().run(module, builder)
    code: bytes = machine.emit_object(module)
    return code


def _compiler_options() -> dict[str, Any]:
    """No Python entry points: nothing calls a kernel but `Kernel`, and they take half the compile time."""
    return {
        "error_model": "numpy",
        "boundscheck": False,
        "no_cpython_wrapper": True,
        "no_cfunc_wrapper": True,
    }


_compiled_devices: dict[int, Any] = {}


def _with_compiled_globals(function: types.FunctionType) -> types.FunctionType:
    """`function` with the device functions and intrinsics it names replaced by what numba can call."""
    import numba

    replaced = dict(function.__globals__)
    for name in function.__code__.co_names:
        value = replaced.get(name)
        key = id(value)
        if key in _INTRINSIC or key in _DEVICE:
            if key not in _compiled_devices:
                if key in _INTRINSIC:
                    _compiled_devices[key] = _INTRINSIC[key]()
                else:
                    _compiled_devices[key] = numba.njit(**_compiler_options())(
                        _with_compiled_globals(_DEVICE[key])
                    )
            replaced[name] = _compiled_devices[key]
    copy = types.FunctionType(function.__code__, replaced, function.__name__)
    copy.__defaults__ = function.__defaults__
    return copy
