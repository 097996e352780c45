"""From a kernel's body to PTX, and from that to machine code of one GPU architecture; needs no GPU.

PTX is made for the oldest architecture that each of the compiler's two code generators serves, and assembled
for each of the newer ones: nearly all the time goes into making it, and integer code gains nothing more.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from types import FunctionType
from typing import Any

from gpuengine.kernels.cuda.atomics import compiled_atomics
from gpuengine.kernels.cuda.spec import DeviceKernel, bind, entry_point

ARCHITECTURES = ((7, 5), (8, 0), (9, 0), (10, 0), (12, 0))
"""The compute capabilities that every kernel is known to assemble for."""
PTX_TARGETS = ((7, 5), (10, 0))
"""The compute capabilities that PTX is made for."""

_ENTRY = """
def {{name}}(_items, {{parameters}}):
    _item = grid(1)
    _step = gridsize(1)
    while _item < _items:
        body(_item, {arguments})
        _item += _step
"""
_MOST_ARGUMENTS = 30
"""Python makes a call with more arguments in another way, which numba can't inline."""


@dataclass(frozen=True)
class Assembled:
    """Machine code with the PTX it was made from and what the assembler said of it; sizes are in bytes."""

    name: str
    ptx: str
    code: bytes
    registers: int
    stack: int
    spills: int
    shared: int


@cache
def _target() -> tuple[dict[str, Any], dict[int, Any], dict[str, Any]]:
    """numba's forms of the atomics, of the device functions made so far, and of the parameter types."""
    from numba import types
    from numba.cuda.extending import intrinsic

    scalars = {
        "i8": types.int64,
        "u1": types.uint8,
        "u4": types.uint32,
        "u8": types.uint64,
        "f8": types.float64,
    }
    pointers = {f"{code}*": types.CPointer(element) for code, element in scalars.items()}
    return compiled_atomics(intrinsic, types.int64), {}, scalars | pointers


def symbol(kernel: DeviceKernel) -> str:
    """The kernel's name in its module."""
    return f"gpuengine_{kernel.name}"


def to_ptx(kernel: DeviceKernel, capability: tuple[int, int]) -> str:
    """The kernel as PTX that a GPU of a compute capability can run.

    Its parameters are the item count and then one 64-bit word for each argument.
    """
    known = known_capabilities()
    return _compile(kernel, max(one for one in PTX_TARGETS if one <= capability and one in known))


@cache
def _compile(kernel: DeviceKernel, target: tuple[int, int]) -> str:
    cuda = import_module("numba.cuda")
    atomics, made, codes = _target()

    def compile_function(body: Any) -> Any:
        return cuda.jit(device=True, inline="always")(body)

    names = {"grid": cuda.grid, "gridsize": cuda.gridsize}
    body, arguments = kernel.body, ", ".join(kernel.parameters)
    if len(kernel.parameters) >= _MOST_ARGUMENTS:
        body, arguments = _with_parameters_in_a_tuple(kernel), f"({arguments})"
    names["body"] = compile_function(bind(body, atomics, compile_function, made))
    entry = entry_point(kernel, _ENTRY.format(arguments=arguments), names)
    signature = (codes["i8"], *(codes[code] for code in kernel.signature))
    ptx, _ = cuda.compile_ptx(entry, signature, cc=target, fastmath=False)
    mangled = re.search(r"\.entry\s+([\w$.]+)", ptx)
    if mangled is None:
        raise RuntimeError(f"kernel {kernel.name}: the compiler made no entry point")
    return _within_device(str(ptx.replace(mangled[1], symbol(kernel))))


def _within_device(ptx: str) -> str:
    """Atomics between the threads of one device.

    The newer code generator takes a compare-and-swap for one between all devices and the host, which a GPU
    does far slower; the builder of numba's intermediate code can't say how far it reaches.
    """
    return ptx.replace("atom.relaxed.sys.", "atom.relaxed.gpu.")


def _with_parameters_in_a_tuple(kernel: DeviceKernel) -> FunctionType:
    """The kernel's body with one parameter after the item number: a tuple that it takes apart first."""
    body = kernel.body
    module = ast.parse(textwrap.dedent(inspect.getsource(body)))
    function = module.body[0]
    assert isinstance(function, ast.FunctionDef)
    function.decorator_list = []
    function.args.args[1:] = [ast.arg("_arguments")]
    function.body[:0] = ast.parse(f"{', '.join(kernel.parameters)} = _arguments").body
    scope: dict[str, Any] = {}
    exec(compile(ast.fix_missing_locations(module), inspect.getfile(body), "exec"), scope)
    return FunctionType(scope[body.__name__].__code__, body.__globals__, body.__name__)


def assemble(kernel: DeviceKernel, capability: tuple[int, int]) -> Assembled:
    """The kernel as machine code (a cubin) for one compute capability."""
    from cuda.core import Linker, LinkerOptions, ObjectCode

    ptx = to_ptx(kernel, capability)
    architecture = f"sm_{capability[0]}{capability[1]}"
    options = LinkerOptions(arch=architecture, ptxas_options=["-v"], verbose=True)
    linker = Linker(ObjectCode.from_ptx(ptx.encode()), options=options)
    code = linker.link("cubin").code
    return Assembled(kernel.name, ptx, bytes(code), *_resources(linker.get_info_log()))


@cache
def known_capabilities() -> tuple[tuple[int, int], ...]:
    """The compute capabilities that the installed compiler knows, ascending."""
    from cuda.bindings import nvrtc

    status, architectures = nvrtc.nvrtcGetSupportedArchs()
    if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        raise RuntimeError(f"the CUDA compiler does not tell what it compiles for: {status.name}")
    return tuple(sorted(divmod(number, 10) for number in architectures))


def _resources(log: str) -> tuple[int, int, int, int]:
    """Registers, bytes of stack, bytes of spills, bytes of shared memory, from the assembler's log."""

    def number(pattern: str) -> int:
        return max((int(found) for found in re.findall(pattern, log)), default=0)

    spills = number(r"(\d+) bytes spill stores") + number(r"(\d+) bytes spill loads")
    registers = number(r"[Uu]sed (\d+) registers")
    stack = max(number(r"(\d+) bytes stack frame"), number(r"(\d+) bytes lmem"))
    return registers, stack, spills, number(r"(\d+) bytes smem")
