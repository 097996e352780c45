"""Compile scalar kernels with numba once; load them in milliseconds ever after.

A kernel is a plain Python function over pointers and integers with a fixed signature:

    @kernel("i8(u4*, i8, u8*)")
    def count_set(ids, n, bits): ...

The first call compiles it with numba (nopython, no GIL) and stores the machine code in the cache
directory; later processes load that code through llvmlite without importing numba, whose import
alone takes longer than many whole programs. A wheel may bring all of them compiled (see `shipped`): then
neither is needed. Pointers are indexed like arrays; lengths are
passed beside them; nothing is bounds-checked and nothing can raise: kernels report by return value.
In the checked build, for tests and for whoever looks for a wrong index, every index is (see `checked`).
Calls release the GIL.

A function marked `@device` can be called from kernels; `@intrinsic_of(build)` marks a Python
function that kernels replace by a numba intrinsic (see `atomics`).
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import tempfile
import threading
import time
import types
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from gpuengine.kernels.addresses import CHECKED, data_address
from gpuengine.kernels.cpu import checked, shipped
from gpuengine.kernels.cpu.code_files import read_code, write_code
from gpuengine.machine import compiling, home_folder

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
"""Seconds spent compiling, by kernel, in this process; empty when every kernel was there already."""


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
    def parameters(self) -> list[str]:
        """What the compiled code takes: in the checked build a length in bytes beside each pointer."""
        if not CHECKED:
            return self._pointers
        return [one for p in self._pointers for one in (("i8", "i8") if p.endswith("*") else (p,))]

    @property
    def name(self) -> str:
        return f"{self.function.__module__.rpartition('.')[2]}.{self.function.__name__}"

    def load(self, *, compile_it: bool = True) -> None:
        """Make the kernel callable now: from the wheel or the cache, or by compiling it."""
        with _lock:
            if self._call is None:
                address = None if CHECKED else shipped.address_of(self.name)
                address = address or _load_cached(self) or (_compile(self) if compile_it else None)
                if address is None:
                    return
                args = [ctypes.c_void_p if p.endswith("*") else _CTYPES[p] for p in self.parameters]
                self._call = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, *args)(
                    address
                )

    def prepare(self, *args: Any) -> Callable[[], None]:
        """A call to be made often, of a kernel that gives no result; its arrays stay alive with it."""
        if CHECKED:
            return partial(self._again, args)
        if self._call is None:
            self.load()
        call, out, error = self._call, ctypes.c_int64(), ctypes.c_void_p()
        plain = [data_address(a) if isinstance(a, np.ndarray) else a for a in args]
        places = ctypes.addressof(out), ctypes.addressof(error)

        def again(_kept: Any = (args, out, error)) -> None:
            call(*places, *plain)

        return again

    def _again(self, args: tuple[Any, ...]) -> None:
        self(*args)

    def __call__(self, *args: Any) -> int:
        if self._call is None:
            self.load()
        out = ctypes.c_int64()
        error = ctypes.c_void_p()
        if CHECKED:
            plain = checked.arguments_of(self._pointers, args)
        else:
            plain = [data_address(a) if isinstance(a, np.ndarray) else a for a in args]
        status = self._call(ctypes.addressof(out), ctypes.addressof(error), *plain)
        if CHECKED and status:
            raise checked.error_of(self.name)
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
    """Where machine code is kept: ``GPUENGINE_CACHE_DIR`` or the user's cache folder, or a temporary one."""
    given = os.environ.get("GPUENGINE_CACHE_DIR")
    if given:
        return Path(given)
    cache, home = os.environ.get("XDG_CACHE_HOME"), home_folder()
    if cache:
        return Path(cache) / "gpuengine"
    if home is None:
        return Path(tempfile.gettempdir()) / f"gpuengine-{os.getuid()}"
    return home / ".cache" / "gpuengine"


@cache
def _cache_folder() -> Path:
    """The folder of this exact compiler, processor and kernel source."""
    import llvmlite
    from llvmlite import binding

    digest = hashlib.sha256()
    for part in (llvmlite.__version__, binding.get_host_cpu_name(), platform.machine()):
        digest.update(part.encode() + b"\0")
    digest.update(_numba_version())
    digest.update(b"checked" if CHECKED else b"")
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
    if CHECKED:
        state = engine.get_global_value_address(_state_symbol(symbol))
        ctypes.c_int64.from_address(state).value = checked.state_address()
    return address


def _state_symbol(symbol: str) -> str:
    """The variable of one kernel's machine code that says where the state of the checks is."""
    return f"{checked.STATE_SYMBOL}.{hashlib.sha256(symbol.encode()).hexdigest()[:16]}"


def _load_cached(wanted: Kernel) -> int | None:
    """The address of a cached kernel, or None if there is none that is whole."""
    folder = _cache_folder()
    content = read_code(folder / f"{wanted.name}.bin", cache_directory())
    if content is None:
        return None
    checksum, _, rest = content.partition(b"\n")
    if hashlib.sha256(rest).hexdigest().encode() != checksum:
        return None
    label, _, rest = rest.partition(b"\n")
    if label != _label(wanted, folder):
        return None
    symbol, _, code = rest.partition(b"\n")
    return _link(code, symbol.decode())


def _label(wanted: Kernel, folder: Path) -> bytes:
    """Which kernel a file holds, of which source: it may have got its name, or into its folder, by hand."""
    return f"{wanted.name} {wanted.signature} {folder.name}".encode()


def _store(wanted: Kernel, symbol: str, code: bytes) -> None:
    """Write a kernel to the cache atomically; a read-only cache only costs the next start."""
    folder = _cache_folder()
    rest = b"\n".join((_label(wanted, folder), symbol.encode(), code))
    content = hashlib.sha256(rest).hexdigest().encode() + b"\n" + rest
    with suppress(OSError):
        write_code(folder / f"{wanted.name}.bin", content, cache_directory())


def _compile(wanted: Kernel) -> int:
    with compiling(wanted.name):
        started = time.perf_counter()
        translated, symbol = translate(wanted)
        code = _optimised_object(translated, symbol)
        _store(wanted, symbol, code)
        compile_seconds[wanted.name] = time.perf_counter() - started
        return _link(code, symbol)


def translate(wanted: Kernel) -> tuple[Any, str]:
    """A kernel as a module of LLVM, not optimised yet, and the name of its entry in there."""
    import numba

    scalars: dict[str, Any] = {
        "i4": numba.types.int32,
        "i8": numba.types.int64,
        "u1": numba.types.uint8,
        "u4": numba.types.uint32,
        "u8": numba.types.uint64,
        "f8": numba.types.float64,
    }
    args = [
        numba.types.CPointer(scalars[p[:-1]]) if p.endswith("*") else scalars[p] for p in wanted.parameters
    ]
    signature: Any = scalars[wanted.result](*args)
    with _without_optimisation():
        function = _with_compiled_globals(wanted.function)
        if CHECKED:
            body = numba.njit(**_compiler_options())(function)
            function = checked.entry_of(body, function, wanted._pointers)
        dispatcher = numba.njit(signature, nogil=True, **_compiler_options())(function)
    overload = dispatcher.overloads[signature.args]
    return overload.library._final_module, overload.fndesc.llvm_func_name


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


def _optimised_object(translated: Any, symbol: str) -> bytes:
    """Machine code of a whole kernel for this machine, optimised once."""
    from llvmlite import binding

    _engine()
    if CHECKED:
        module = binding.parse_assembly(
            str(translated)
            .replace(
                f"@{checked.STATE_SYMBOL} = external global i64", f"@{checked.STATE_SYMBOL} = global i64 0"
            )
            .replace(f"@{checked.STATE_SYMBOL}", f'@"{_state_symbol(symbol)}"')
        )
    else:
        module = binding.parse_bitcode(translated.as_bitcode())
    machine = binding.Target.from_default_triple().create_target_machine(
        cpu=binding.get_host_cpu_name(),
        features=binding.get_host_cpu_features().flatten(),
        opt=3,
        codemodel="jitdefault",
    )
    return object_code(module, machine)


def object_code(module: Any, machine: Any) -> bytes:
    """A module, optimised, as an object file for a machine of LLVM's.

    Loops are not vectorised: branches and random reads gain nothing from it.
    """
    from llvmlite import binding

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
