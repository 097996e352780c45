"""Every kernel as PTX and as machine code of every architecture: needs the compiler, and no GPU."""

from __future__ import annotations

import re
import types

import numpy as np
import pytest
from numba import cuda

from gpuengine.kernels.cuda.atomics import compare_and_swap
from gpuengine.kernels.cuda.catalogue import KERNELS
from gpuengine.kernels.cuda.devices import assemble as assemble_module
from gpuengine.kernels.cuda.devices.assemble import ARCHITECTURES, PTX_TARGETS, assemble, symbol, to_ptx
from gpuengine.kernels.cuda.spec import DeviceKernel
from tests.kernels.cuda.resources import COMMAND, installed_compilers, read_golden, summarise

MOST_REGISTERS = 128
"""A block of 256 threads with so many fits twice on a multiprocessor."""


#: Kernels that are there to make floats of integers.
CONVERTING = {"floats_of_numbers", "floats_of_unsigned"}


def parameter_list(ptx: str, name: str) -> list[str]:
    """The types of an entry point's parameters."""
    (entry,) = re.findall(rf"\.visible \.entry {name}\((.*?)\)", ptx, re.DOTALL)
    return re.findall(r"\.param\s+(\.\w+)", entry)


def faults(kernel: DeviceKernel) -> list[str]:
    """What a kernel may not do and does, in its PTX."""
    found = []
    for target in PTX_TARGETS:
        ptx = to_ptx(kernel, target)
        wanted = [".u64", *(".f64" if code == "f8" else ".u64" for code in kernel.signature)]
        if parameter_list(ptx, symbol(kernel)) != wanted:
            found.append("takes other words than a launch passes")
        if re.search(r"\.(extern|func)\b", ptx):
            found.append("calls what is not in it")
        if re.search(r"\.local\b", ptx):
            found.append("uses local memory")
        if re.search(r"\b(atom|red|fence|membar)\S*\.sys\b", ptx):
            found.append("reaches beyond the device")
        # numba adds an int64 and a uint64 as floats; ids and keys would lose bits without a word.
        converts = re.search(r"cvt\.\S*\.f(32|64)\.[su]\d+|cvt\.\S*\.[su]\d+\.f(32|64)", ptx)
        if converts and kernel.name not in CONVERTING:
            found.append("converts between integers and floats")
        if re.search(r"\.f(32|64)\b", ptx) and not any("f8" in code for code in kernel.signature):
            found.append("computes with floats")
    return sorted(set(found))


@pytest.mark.parametrize("name", sorted(KERNELS))
def test_a_kernel_takes_what_a_launch_passes_and_stays_in_registers(name: str) -> None:
    kernel = KERNELS[name]
    assert faults(kernel) == []
    assembled = [assemble(kernel, capability) for capability in ARCHITECTURES]
    for made in assembled:
        assert made.code.startswith(b"\x7fELF")
        assert symbol(kernel).encode() in made.code
        assert (made.stack, made.spills) == (0, 0)
        assert 0 < made.registers <= MOST_REGISTERS

    compilers, golden = read_golden()
    now = summarise(assembled)
    assert name in golden, f"rewrite the table: {COMMAND}"
    if compilers == installed_compilers():
        assert now == golden[name], f"if that is meant, rewrite the table: {COMMAND}"
    else:
        assert now.shared == golden[name].shared


def test_the_table_has_no_kernel_too_many() -> None:
    _, golden = read_golden()
    assert set(golden) <= set(KERNELS), f"rewrite the table: {COMMAND}"


# --- the checks find what they are there for ---


def declare(body: types.FunctionType, signature: str) -> DeviceKernel:
    """A kernel that is not in the catalogue."""
    return DeviceKernel(body.__name__, body, tuple(signature.split()), streamed=0, random=0)


def test_mixing_signed_and_unsigned_is_found() -> None:
    def mixes(i, keys, first, out):
        if keys[i] < first:
            out[i] = keys[i]

    assert "computes with floats" in faults(declare(mixes, "u8* i8 u8*"))
    assert faults(declare(mixes, "u8* u8 u8*")) == []


def test_mixing_signed_and_unsigned_is_found_among_floats() -> None:
    def mixes_and_copies(i, keys, first, values, out):
        if keys[i] < first:
            out[i] = values[i]

    def copies(i, keys, first, values, out):
        if keys[i] == first:
            out[i] = values[i]

    assert faults(declare(mixes_and_copies, "u8* i8 f8* f8*")) == ["converts between integers and floats"]
    assert faults(declare(copies, "u8* u8 f8* f8*")) == []


@pytest.mark.parametrize("target", PTX_TARGETS)
def test_compare_and_swap_is_between_the_threads_of_a_device(target: tuple[int, int]) -> None:
    """Without a scope PTX means the device as well."""
    swaps = re.findall(r"\batom\S*\.cas\S*", to_ptx(KERNELS["insert_keys"], target))
    assert swaps and all(swap.startswith(("atom.relaxed.gpu.", "atom.global.cas")) for swap in swaps)


def test_atomics_beyond_the_device_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def swaps(i, table, out):
        out[i] = compare_and_swap(table, i, np.uint64(0), np.uint64(1))

    monkeypatch.setattr(assemble_module, "_within_device", lambda ptx: ptx)
    kernel = declare(swaps, "u8* u8*")
    assert faults(kernel) == ["reaches beyond the device"]


def test_local_memory_is_found() -> None:
    def remembers(i, values, out):
        seen = cuda.local.array(64, np.uint64)
        seen[values[i]] = values[0]
        out[i] = seen[values[i + 1]]

    kernel = declare(remembers, "u8* u8*")
    assert "uses local memory" in faults(kernel)
    assert assemble(kernel, ARCHITECTURES[0]).stack > 0


# fmt: off
def _sum_of_many(i, out, a, b, c, d, e, f, g, h, j, k, l, m, n, o, p, q, r, s, t, u, v, w, x, y, z,  # noqa: E741
                 aa, bb, cc, dd, ee, ff):
    a = a + b + c + d + e + f + g + h + j + k + l + m + n + o + p + q + r + s + t + u + v + w + x + y + z
    out[i] = a + aa + bb + cc + dd + ee + ff
# fmt: on


def test_a_kernel_may_have_more_parameters_than_a_call_has_arguments() -> None:
    """Python makes calls of more than 30 arguments in another way."""
    kernel = declare(_sum_of_many, "u8*" + " u8" * 31)
    assert faults(kernel) == []
    assert assemble(kernel, ARCHITECTURES[-1]).registers > 0
