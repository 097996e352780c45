"""Kernels in which every index is compared with the length of what it points into.

A pointer becomes an address with the range of memory that it may reach: an array's own, if a kernel is called
with the array, else what `addresses` knows of the place. An index outside ends the kernel, before anything is
touched, with an `IndexError` that names the kernel, the function in it, the index and the length.
"""

from __future__ import annotations

import ctypes
import operator
import re
from collections.abc import Sequence
from functools import cache
from types import FunctionType, SimpleNamespace
from typing import Any

import numpy as np

from gpuengine.kernels.addresses import CHECKED, RANGES, TABLE_COUNT, TABLE_STARTS

STATE_SYMBOL = "gpuengine_checks"
"""The variable in a kernel's machine code that holds the address of `_STATE`."""
_STATE = np.zeros(6, np.int64)
_RANGES, _INDEX, _LENGTH, _SIZE, _FUNCTION = range(5)
_STATE[_RANGES] = RANGES.cell.ctypes.data
_MANY_NESTED = 64


def state_address() -> int:
    """Where checked kernels find what they may reach, and report what they were asked for instead."""
    return int(_STATE.ctypes.data)


def error_of(kernel: str) -> IndexError:
    """What a kernel that ended by a check has reported."""
    function = ctypes.string_at(int(_STATE[_FUNCTION])).decode()
    return IndexError(
        f"kernel {kernel}, in {function}: index {_STATE[_INDEX]} is outside an array of {_STATE[_LENGTH]} "
        f"elements of {_STATE[_SIZE]} bytes"
    )


def name_in(symbol: str) -> str:
    """A function's own name from the one that numba gave to its code, in Itanium mangling."""
    parts, at = [], symbol.find("_ZN") + 3
    while (match := re.compile(r"\d+").match(symbol, at)) is not None:
        at = match.end() + int(match.group())
        parts.append(symbol[match.end() : at])
    return ".".join(parts[-2:]) or symbol


def entry_of(body: Any, function: FunctionType, parameters: Sequence[str]) -> FunctionType:
    """What takes an address and a length in bytes for each pointer of a kernel, for numba to compile.

    `body` is the kernel's function for numba to call. The name is like no other kernel's: symbols of machine
    code are made of it, and processes load what others compiled.
    """
    names: list[str] = []
    values: list[str] = []
    known: dict[str, Any] = {"body": body, "__name__": function.__module__}
    name = f"checked_{function.__name__}"
    for number, parameter in enumerate(parameters):
        names.append(f"a{number}")
        if parameter.endswith("*"):
            element = {"i": "int", "u": "uint", "f": "float"}[parameter[0]] + str(8 * int(parameter[1]))
            known[f"point_{element}"] = numba_parts().pointer_to(element, with_length=True)
            names.append(f"n{number}")
            values.append(f"point_{element}(a{number}, n{number})")
        else:
            values.append(f"a{number}")
    exec(f"def {name}({', '.join(names)}): return body({', '.join(values)})", known)
    entry: FunctionType = known[name]
    return entry


def arguments_of(parameters: Sequence[str], args: Sequence[Any]) -> list[Any]:
    """What the entry takes in the place of a kernel's arguments; -1 for the length of a bare address."""
    plain: list[Any] = []
    for parameter, arg in zip(parameters, args, strict=True):
        if not parameter.endswith("*"):
            plain.append(arg)
        elif isinstance(arg, np.ndarray):
            plain += [arg.ctypes.data, arg.nbytes]
        else:
            plain += [arg, -1]
    return plain


def place(context: Any, builder: Any, kind: Any, pointer: Any, index: Any) -> Any:
    """Code for where an element is; of a checked pointer, with the index compared by then."""
    if CHECKED and isinstance(kind, numba_parts().CheckedPointer):
        return numba_parts().place(context, builder, kind, pointer, index)
    return builder.gep(pointer, [index])


@cache
def numba_parts() -> SimpleNamespace:
    """The type of checked pointers, and what makes and uses them; it takes numba."""
    import numba
    from llvmlite import binding, ir
    from numba import types
    from numba.core import cgutils
    from numba.core.typing.templates import AbstractTemplate, infer_global, signature
    from numba.extending import intrinsic, lower_builtin, models, register_model

    word = ir.IntType(64)
    options: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    binding.add_symbol(STATE_SYMBOL, state_address())  # for the code that numba makes and nobody runs

    class CheckedPointer(types.Type):
        def __init__(self, dtype: Any) -> None:
            self.dtype = dtype
            super().__init__(name=f"CheckedPointer({dtype})")

    @register_model(CheckedPointer)
    class CheckedPointerModel(models.StructModel):
        def __init__(self, manager: Any, kind: Any) -> None:
            members = [("address", types.int64), ("low", types.int64), ("high", types.int64)]
            super().__init__(manager, kind, members)

    def state_of(builder: Any) -> Any:
        """The words of `_STATE`."""
        cell = builder.module.globals.get(STATE_SYMBOL)
        if cell is None:
            cell = ir.GlobalVariable(builder.module, word, STATE_SYMBOL)
        return builder.inttoptr(builder.load(cell), word.as_pointer())

    def checked_place(context: Any, builder: Any, kind: Any, pointer: Any, index: Any) -> Any:
        """Where an element is, after its index has been checked."""
        element = context.get_value_type(kind.dtype)
        size = word(context.get_abi_sizeof(element))
        shown = cgutils.create_struct_proxy(kind)(context, builder, pointer)
        address = builder.add(shown.address, builder.mul(index, size))
        below = builder.icmp_unsigned("<", address, shown.low)
        above = builder.icmp_unsigned(">", builder.add(address, size), shown.high)
        with builder.if_then(builder.or_(below, above), likely=False):
            state = state_of(builder)
            name = context.insert_const_string(builder.module, name_in(builder.function.name))
            length = builder.sdiv(builder.sub(shown.high, shown.address), size)
            for at, value in (
                (_INDEX, index),
                (_LENGTH, length),
                (_SIZE, size),
                (_FUNCTION, builder.ptrtoint(name, word)),
            ):
                builder.store(value, builder.gep(state, [word(at)]))
            context.call_conv.return_user_exc(builder, IndexError, ("index outside",))
        return builder.inttoptr(address, element.as_pointer())

    @infer_global(operator.getitem)
    class GetChecked(AbstractTemplate):
        def generic(self, args: Any, kws: Any) -> Any:
            pointer, index = args
            if isinstance(pointer, CheckedPointer) and isinstance(index, types.Integer):
                return signature(pointer.dtype, pointer, types.int64)
            return None

    @infer_global(operator.setitem)
    class SetChecked(AbstractTemplate):
        def generic(self, args: Any, kws: Any) -> Any:
            pointer, index, _ = args
            if isinstance(pointer, CheckedPointer) and isinstance(index, types.Integer):
                return signature(types.none, pointer, types.int64, pointer.dtype)
            return None

    @lower_builtin(operator.getitem, CheckedPointer, types.Integer)
    def get(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.load(checked_place(context, builder, sig.args[0], *args))

    @lower_builtin(operator.setitem, CheckedPointer, types.Integer, types.Any)
    def put(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        builder.store(args[2], checked_place(context, builder, sig.args[0], *args[:2]))
        return context.get_dummy_value()

    @intrinsic
    def read(context: Any, address: Any, index: Any) -> Any:
        """A word of the table of ranges, unchecked."""

        def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            return builder.load(builder.gep(builder.inttoptr(args[0], word.as_pointer()), [args[1]]))

        return types.int64(types.int64, types.int64), generate

    @intrinsic
    def state(context: Any) -> Any:
        def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            return builder.ptrtoint(state_of(builder), word)

        return types.int64(), generate

    @numba.njit(**options)
    def range_of(address):
        """The widest known range that begins nearest before an address and holds it; else none."""
        table = read(read(state(), _RANGES), 0)
        count = read(table, TABLE_COUNT)
        ends = TABLE_STARTS + count
        low, high = 0, count
        while low < high:
            middle = (low + high) >> 1
            if read(table, TABLE_STARTS + middle) <= address:
                low = middle + 1
            else:
                high = middle
        for back in range(1, min(low, _MANY_NESTED) + 1):
            if address < read(table, ends + low - back):
                return read(table, TABLE_STARTS + low - back), read(table, ends + low - back)
        return address, address

    @cache
    def pointer_to(code: str, *, with_length: bool = False) -> Any:
        """The function that makes a pointer of an address, with or without a length in bytes."""
        kind = CheckedPointer(getattr(types, code))

        @intrinsic
        def make(context: Any, address: Any, low: Any, high: Any) -> Any:
            def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
                made = cgutils.create_struct_proxy(kind)(context, builder)
                made.address, made.low, made.high = args
                return made._getvalue()

            return kind(types.int64, types.int64, types.int64), generate

        @numba.njit(**options)
        def look_up(address):
            low, high = range_of(address)
            return make(address, low, high)

        @numba.njit(**options)
        def point(address, nbytes):
            return look_up(address) if nbytes < 0 else make(address, address, address + nbytes)

        return point if with_length else look_up

    return SimpleNamespace(CheckedPointer=CheckedPointer, place=checked_place, pointer_to=pointer_to)
