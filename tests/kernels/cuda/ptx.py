"""An interpreter of the PTX that kernels compile to: what the compiler made, run one instruction at a time.

Threads take turns at random after each access to global memory, so that every interleaving of such
accesses can happen; every access must lie inside an argument's array and be aligned. An instruction that is
not known here is an error. Registers hold unsigned integers of their width, or the bits of a double.
"""

from __future__ import annotations

import ctypes
import re
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np

Registers = list[Any]
Step = Callable[[Registers], int | None]
"""Executes one instruction; returns where to go on if not at the next one."""

END = -1
_MEMORY = {
    8: ctypes.c_uint8,
    16: ctypes.c_uint16,
    32: ctypes.c_uint32,
    64: ctypes.c_uint64,
}
_QUALIFIERS = {"relaxed", "sys", "gpu", "global", "to", "uni", "rn", "L1", "nc", "volatile", "weak"}
_SPECIAL = ("%tid.x", "%ntid.x", "%ctaid.x", "%nctaid.x")


class Memory:
    """The arrays that a launch may touch, by address."""

    def __init__(self, spans: Sequence[tuple[int, int]]) -> None:
        merged: list[list[int]] = []
        for start, size in sorted(spans):
            if merged and start <= merged[-1][1]:
                merged[-1][1] = max(merged[-1][1], start + size)
            else:
                merged.append([start, start + size])
        self._starts = [start for start, _ in merged]
        self._ends = [end for _, end in merged]

    def cell(self, address: int, bits: int) -> Any:
        """The element at an address."""
        at = bisect_right(self._starts, address) - 1
        if at < 0 or address + bits // 8 > self._ends[at]:
            raise IndexError(f"an access of {bits} bits at {address:#x} is in no argument's array")
        if address % (bits // 8):
            raise ValueError(f"an access of {bits} bits at {address:#x} is not aligned")
        return _MEMORY[bits].from_address(address)


@dataclass(frozen=True)
class Instruction:
    """One line of PTX: `guard` is a predicate register and the value that it must have."""

    operation: str
    operands: tuple[str, ...]
    guard: tuple[str, bool] | None


@dataclass(frozen=True)
class Entry:
    """A kernel's code: its parameters in order, its instructions, and where labels stand."""

    parameters: tuple[str, ...]
    instructions: tuple[Instruction, ...]
    labels: dict[str, int]


def parse(ptx: str) -> Entry:
    """The one entry point of a PTX module."""
    head = re.search(r"\.entry\s+[\w$]+\s*\(([^)]*)\)", ptx)
    assert head is not None, "no entry point"
    parameters = tuple(re.findall(r"\.param\s+\.[us]64\s[^,]*?([\w$]+)\s*(?:,|$)", head[1]))
    body = ptx[ptx.index("{", head.end()) + 1 : ptx.rindex("}")]
    instructions: list[Instruction] = []
    labels: dict[str, int] = {}
    for line in re.sub(r"//[^\n]*", "", body).replace(";", ";\n").splitlines():
        text = line.strip().rstrip(";").strip()
        label = re.match(r"([$\w]+):$", text)
        if label:
            labels[label[1]] = len(instructions)
        elif text and not text.startswith("."):
            instructions.append(_instruction(text))
    return Entry(parameters, tuple(instructions), labels)


def _instruction(text: str) -> Instruction:
    guard = None
    guarded = re.match(r"@(!?)(%p\d+)\s+(.*)$", text)
    if guarded:
        guard, text = (guarded[2], not guarded[1]), guarded[3]
    operation, _, rest = text.partition(" ")
    operation, _, more = operation.partition("\t")
    # Two registers in braces are one operand.
    operands = tuple(part.strip() for part in re.findall(r"\s*(\{[^}]*\}|[^,]+)", more + rest))
    return Instruction(operation, operands, guard)


def run(
    entry: Entry, words: Sequence[int], memory: Memory, blocks: int, threads: int, random: Random
) -> None:
    """Launch an entry point with its parameters' values; every thread runs to its end."""
    code = _Compiler(entry, words, memory)
    waiting = []
    for block in range(blocks):
        for thread in range(threads):
            registers = code.new_registers(dict(zip(_SPECIAL, (thread, threads, block, blocks), strict=True)))
            waiting.append([registers, 0])
    while waiting:
        at = random.randrange(len(waiting))
        state = waiting[at]
        state[1] = code.advance(state[0], state[1])
        if state[1] == END:
            waiting[at] = waiting[-1]
            waiting.pop()


class _Compiler:
    """The instructions of an entry point as Python functions over a thread's registers."""

    def __init__(self, entry: Entry, words: Sequence[int], memory: Memory) -> None:
        assert len(words) == len(entry.parameters), "one word for each parameter"
        self._numbers: dict[str, int] = {}
        self._parameters = dict(zip(entry.parameters, words, strict=True))
        self._labels = entry.labels
        self._memory = memory
        self._steps = [self._guarded(instruction) for instruction in entry.instructions]
        self._touches = [
            instruction.operation.startswith(("ld.global", "st.", "atom"))
            for instruction in entry.instructions
        ]

    def new_registers(self, special: dict[str, int]) -> Registers:
        registers: Registers = [None] * len(self._numbers)
        for name, value in special.items():
            if name in self._numbers:
                registers[self._numbers[name]] = value
        return registers

    def advance(self, registers: Registers, at: int) -> int:
        """Run a thread up to and including its next access to memory; where it stands then."""
        steps, touches = self._steps, self._touches
        while at < len(steps):
            target = steps[at](registers)
            touched = touches[at]
            at = at + 1 if target is None else target
            if at == END or touched:
                return at
        return END

    def _guarded(self, instruction: Instruction) -> Step:
        step = self._step(instruction)
        if instruction.guard is None:
            return step
        predicate, wanted = self._register(instruction.guard[0]), instruction.guard[1]
        return lambda r: step(r) if bool(r[predicate]) is wanted else None

    def _register(self, name: str) -> int:
        assert name.startswith("%"), f"{name} is no register"
        return self._numbers.setdefault(name, len(self._numbers))

    def _value(self, text: str, bits: int) -> Callable[[Registers], Any]:
        """An operand: a register, a constant of a width, or a word of two registers, the lower half first."""
        if text.startswith("{"):
            low, high = (self._register(half) for half in _halves(text))
            return lambda r: r[high] << 32 | r[low]
        if text.startswith("%"):
            number = self._register(text)
            return lambda r: r[number]
        constant = int(text.replace("0d", "0x"), 0) & ((1 << bits) - 1)
        return lambda r: constant

    def _address(self, text: str) -> Callable[[Registers], int]:
        base, _, offset = text.strip("[]").partition("+")
        number, constant = self._register(base), int(offset or "0", 0)
        return lambda r: (r[number] + constant) & ((1 << 64) - 1)

    def _step(self, instruction: Instruction) -> Step:
        parts = [part for part in instruction.operation.split(".") if part not in _QUALIFIERS]
        name, kinds, operands = parts[0], parts[1:], instruction.operands
        if name in ("ret", "exit"):
            return lambda r: END
        if name == "bra":
            target = self._labels[operands[0]]
            return lambda r: target
        if name == "ld" and kinds[0] == "param":
            word = self._parameters[operands[1].strip("[]")]
            return self._assign(operands[0], lambda r: word)
        if name == "ld":
            return self._load(kinds[0], operands)
        if name == "st":
            return self._store(kinds[0], operands)
        if name == "atom":
            return self._atomic(kinds, operands)
        if name == "mov" and operands[0].startswith("{"):
            return self._take_apart(operands)
        if name == "setp":
            return self._assign(operands[0], self._comparison(kinds[0], kinds[1], operands[1:]))
        if name == "selp":
            a, b = (self._value(operand, _bits(kinds[0])) for operand in operands[1:3])
            predicate = self._register(operands[3])
            return self._assign(operands[0], lambda r: a(r) if r[predicate] else b(r))
        return self._assign(operands[0], self._arithmetic(name, kinds, operands[1:]))

    def _assign(self, target: str, value: Callable[[Registers], Any]) -> Step:
        number = self._register(target)

        def step(r: Registers) -> None:
            r[number] = value(r)

        return step

    def _take_apart(self, operands: tuple[str, ...]) -> Step:
        """A word into two registers for its halves, the lower first; `_` is none."""
        low, high = (None if half == "_" else self._register(half) for half in _halves(operands[0]))
        whole = self._value(operands[1], 64)

        def step(r: Registers) -> None:
            word = whole(r)
            if low is not None:
                r[low] = word & 0xFFFFFFFF
            if high is not None:
                r[high] = word >> 32

        return step

    def _load(self, kind: str, operands: tuple[str, ...]) -> Step:
        address, memory, bits = self._address(operands[1]), self._memory, _bits(kind)
        return self._assign(operands[0], lambda r: memory.cell(address(r), bits).value)

    def _store(self, kind: str, operands: tuple[str, ...]) -> Step:
        address, memory, bits = self._address(operands[0]), self._memory, _bits(kind)
        value = self._value(operands[1], bits)

        def step(r: Registers) -> None:
            memory.cell(address(r), bits).value = value(r) & ((1 << bits) - 1)

        return step

    def _atomic(self, kinds: list[str], operands: tuple[str, ...]) -> Step:
        operation, bits = kinds[0], _bits(kinds[1])
        target, address, memory = self._register(operands[0]), self._address(operands[1]), self._memory
        values = [self._value(operand, bits) for operand in operands[2:]]
        change = _ATOMIC[operation]

        def step(r: Registers) -> None:
            cell = memory.cell(address(r), bits)
            old = cell.value
            cell.value = change(old, *(value(r) for value in values)) & ((1 << bits) - 1)
            r[target] = old

        return step

    def _comparison(self, relation: str, kind: str, operands: tuple[str, ...]) -> Callable[[Registers], bool]:
        a, b = (self._value(operand, _bits(kind)) for operand in operands)
        compare = _RELATIONS[relation]
        if kind == "f64":
            return lambda r: compare(_double(a(r)), _double(b(r)))
        if kind.startswith("s") and relation not in ("eq", "ne"):
            bits = _bits(kind)
            return lambda r: compare(_signed(a(r), bits), _signed(b(r), bits))
        return lambda r: compare(a(r), b(r))

    def _arithmetic(
        self, name: str, kinds: list[str], operands: tuple[str, ...]
    ) -> Callable[[Registers], Any]:
        kind = kinds[-1]
        if name == "cvt":
            return self._conversion(kinds[0], kinds[1], operands[0])
        if name == "shf":
            assert kinds == ["l", "wrap", "b32"], f"shf.{'.'.join(kinds)}"
            low, high, by = (self._value(operand, 32) for operand in operands)
            return lambda r: ((high(r) << 32 | low(r)) << (by(r) & 31)) >> 32 & 0xFFFFFFFF
        if name in ("mov", "cvta"):
            return self._value(operands[0], _bits(kind))
        if kind == "pred":
            values = [self._value(operand, 1) for operand in operands]
            combine = _PREDICATE[name]
            return lambda r: combine(*(bool(value(r)) for value in values))
        if kind == "f64":
            doubles = [self._value(operand, 64) for operand in operands]
            of_doubles = _DOUBLES[name]
            return lambda r: _double_bits(of_doubles(*(_double(value(r)) for value in doubles)))
        bits, signed = _bits(kind), kind.startswith("s")
        wide = "wide" in kinds
        values = [self._value(operand, bits) for operand in operands]
        compute = _ARITHMETIC["mul" if name == "mul" else name]
        mask = (1 << (2 * bits if wide else bits)) - 1
        if signed:
            return lambda r: compute(*(_signed(value(r), bits) for value in values)) & mask
        return lambda r: compute(*(value(r) for value in values)) & mask

    def _conversion(self, to: str, source: str, operand: str) -> Callable[[Registers], Any]:
        value, bits, mask = self._value(operand, _bits(source)), _bits(source), (1 << _bits(to)) - 1
        low = (1 << bits) - 1
        if to == "f64":
            signed = source.startswith("s")
            return lambda r: _double_bits(float(_signed(value(r), bits) if signed else value(r)))
        if source.startswith("s"):
            return lambda r: _signed(value(r) & low, bits) & mask
        return lambda r: value(r) & low & mask


def _halves(operand: str) -> list[str]:
    return [half.strip() for half in operand.strip("{}").split(",")]


def _bits(kind: str) -> int:
    return 1 if kind == "pred" else int(kind[1:])


def _signed(value: int, bits: int) -> int:
    return value - (1 << bits) if value >> (bits - 1) & 1 else value


def _double(bits: int) -> float:
    return ctypes.c_double.from_buffer(ctypes.c_uint64(bits)).value


def _double_bits(value: float) -> int:
    return ctypes.c_uint64.from_buffer(ctypes.c_double(value)).value


def _divide_doubles(a: float, b: float) -> float:
    """As IEEE has it, by zero as well."""
    with np.errstate(all="ignore"):
        return float(np.float64(a) / np.float64(b))


def _divide(a: int, b: int) -> int:
    """Towards zero."""
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def _insert_bits(source: int, target: int, position: int, length: int) -> int:
    mask = ((1 << length) - 1) << position
    return target & ~mask | source << position & mask


_ATOMIC: dict[str, Callable[..., int]] = {
    "cas": lambda old, expected, desired: desired if old == expected else old,
    "add": lambda old, value: old + value,
    "or": lambda old, value: old | value,
    "and": lambda old, value: old & value,
    "min": min,
}
_RELATIONS: dict[str, Callable[[Any, Any], bool]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "neu": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "geu": lambda a, b: not a < b,
    "lo": lambda a, b: a < b,
    "ls": lambda a, b: a <= b,
    "hi": lambda a, b: a > b,
    "hs": lambda a, b: a >= b,
}
_PREDICATE: dict[str, Callable[..., bool]] = {
    "and": lambda a, b: a and b,
    "or": lambda a, b: a or b,
    "xor": lambda a, b: a != b,
    "not": lambda a: not a,
}
_DOUBLES: dict[str, Callable[..., float]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": _divide_doubles,
    "mov": lambda a: a,
}
_ARITHMETIC: dict[str, Callable[..., int]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "mad": lambda a, b, c: a * b + c,
    "div": _divide,
    "rem": lambda a, b: a - b * _divide(a, b),
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "not": lambda a: ~a,
    "neg": lambda a: -a,
    "abs": abs,
    "min": min,
    "max": max,
    "shl": lambda a, b: a << b if b < 64 else 0,
    "shr": lambda a, b: a >> min(b, 64),
    "popc": lambda a: a.bit_count(),
    "bfi": _insert_bits,
}
