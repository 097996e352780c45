"""Arithmetic on the values of many ids at once, block by block; `calculation` has it one binding at a time.

A program takes columns of ids through comparisons, one after the other. Each of them leaves rows out, or
gives a variable its values. Values are words in registers of a block each, which stays in the cache while all
steps are done on it. Rows that were left out are taken out of the registers that are still needed.

Code (int64), four words each
    opcode, register to write, first operand, second operand. Operators are those of `code`; besides:
    LOAD      a register, the column's and the table's place in the frame
    KEEP      leave out the rows where a register is 0
    COMPACT   have a register follow the last KEEP
    COPY      write a column's ids: -, the column's place, the output's place
    STORE     write the ids of a register: the register, the output's place, the table's place
Frame (int64)
    addresses of the columns; for each table of words: its words, and its identity; for each output: its ids,
    its words, and whether they are to be used, since some word is not its own id.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpuengine.kernels.addresses import address_of
from gpuengine.kernels.contract import Compute, Operator, Words
from gpuengine.kernels.cpu.atomics import as_u4, as_u8, float_of
from gpuengine.kernels.cpu.calculation import (
    ZERO,
    apply_to_one,
    apply_to_two,
    compare_floats,
    truth,
)
from gpuengine.kernels.cpu.code import (
    ADD,
    ADD_FLOAT,
    DIVIDE,
    IS_EQUAL,
    IS_EQUAL_FLOAT,
    IS_LESS,
    IS_LESS_EQUAL,
    IS_LESS_EQUAL_FLOAT,
    IS_LESS_FLOAT,
    IS_NOT_EQUAL,
    IS_NOT_EQUAL_FLOAT,
    LOAD,
    MULTIPLY,
    MULTIPLY_FLOAT,
    REMAINDER_UNSIGNED,
    SUBTRACT,
    SUBTRACT_FLOAT,
)
from gpuengine.kernels.cpu.jit import device, kernel

BLOCK = 512
KEEP = 64
COMPACT = 65
COPY = 66
STORE = 67
_WIDTH = 4
_TABLE_WORDS = 2
_OUTPUT_WORDS = 3
DIVIDED_BY_ZERO = -1


@device
def load(words, at, ids, start, picked, is_whole, n, table, identity):
    """The words of ids of a block to a register."""
    largest = np.uint32(0)
    if is_whole:
        for i in range(n):
            largest |= ids[start + i]
        if np.int64(largest) < identity:
            for i in range(n):
                words[at + i] = np.uint64(ids[start + i])
            return
        for i in range(n):
            id = np.int64(ids[start + i])
            words[at + i] = np.uint64(id) if id < identity else table[id - identity]
        return
    for i in range(n):
        id = np.int64(ids[start + np.int64(picked[i])])
        words[at + i] = np.uint64(id) if id < identity else table[id - identity]


@device
def compare_block(operator, words, out, left, right, n):
    """The commonest comparisons of integers; False for others."""
    if operator == IS_LESS:
        for i in range(n):
            words[out + i] = truth(np.int64(words[left + i]) < np.int64(words[right + i]))
    elif operator == IS_LESS_EQUAL:
        for i in range(n):
            words[out + i] = truth(np.int64(words[left + i]) <= np.int64(words[right + i]))
    elif operator == IS_EQUAL:
        for i in range(n):
            words[out + i] = truth(words[left + i] == words[right + i])
    elif operator == IS_NOT_EQUAL:
        for i in range(n):
            words[out + i] = truth(words[left + i] != words[right + i])
    else:
        return False
    return True


@device
def compare_float_block(operator, words, out, left, right, n):
    """The comparisons of floats; False for other operators."""
    if operator == IS_LESS_FLOAT:
        for i in range(n):
            words[out + i] = truth(float_of(words[left + i]) < float_of(words[right + i]))
    elif operator == IS_LESS_EQUAL_FLOAT:
        for i in range(n):
            words[out + i] = truth(float_of(words[left + i]) <= float_of(words[right + i]))
    elif operator in (IS_EQUAL_FLOAT, IS_NOT_EQUAL_FLOAT):
        for i in range(n):
            words[out + i] = truth(
                compare_floats(operator, float_of(words[left + i]), float_of(words[right + i]))
            )
    else:
        return False
    return True


@device
def combine_block(operator, words, out, left, right, n):
    """An operator of two operands on registers: a loop of its own for what is common and can go in lanes."""
    if operator == ADD:
        for i in range(n):
            words[out + i] = words[left + i] + words[right + i]
    elif operator == SUBTRACT:
        for i in range(n):
            words[out + i] = words[left + i] - words[right + i]
    elif operator == MULTIPLY:
        for i in range(n):
            words[out + i] = words[left + i] * words[right + i]
    elif operator == ADD_FLOAT:
        for i in range(n):
            words[out + i] = apply_to_two(ADD_FLOAT, words[left + i], words[right + i])
    elif operator == SUBTRACT_FLOAT:
        for i in range(n):
            words[out + i] = apply_to_two(SUBTRACT_FLOAT, words[left + i], words[right + i])
    elif operator == MULTIPLY_FLOAT:
        for i in range(n):
            words[out + i] = apply_to_two(MULTIPLY_FLOAT, words[left + i], words[right + i])
    elif not compare_block(operator, words, out, left, right, n) and not compare_float_block(
        operator, words, out, left, right, n
    ):
        for i in range(n):
            words[out + i] = apply_to_two(operator, words[left + i], words[right + i])


@device
def has_zero(words, at, n):
    zeros = ZERO
    for i in range(n):
        zeros |= truth(words[at + i] == ZERO)
    return zeros != ZERO


@device
def keep(words, at, picked, places, is_whole, n):
    """Which rows of a block stay: their places among those that were there, and in the block. How many."""
    kept = np.int64(0)
    for i in range(n):
        places[kept] = np.uint32(i)
        kept += np.int64(1) if words[at + i] != ZERO else np.int64(0)
    if kept < n:
        for i in range(kept):
            picked[i] = places[i] if is_whole else picked[np.int64(places[i])]
    return kept


@device
def store(frame, words, at, n, written, output, identity):
    """Write the ids of words, and the words themselves from the first on that is not its own id."""
    ids = as_u4(frame[output])
    values = as_u8(frame[output + 1])
    largest = ZERO
    for i in range(n):
        largest = max(largest, words[at + i])
    if frame[output + 2] == 0:
        if largest < identity:
            for i in range(n):
                ids[written + i] = np.uint32(words[at + i])
            return
        for i in range(written):
            values[i] = np.uint64(ids[i])
        frame[output + 2] = 1
    for i in range(n):
        values[written + i] = words[at + i]


@device
def copy_ids(frame, column, output, start, picked, is_whole, n, written):
    ids = as_u4(frame[column])
    out = as_u4(frame[output])
    if is_whole:
        for i in range(n):
            out[written + i] = ids[start + i]
        return
    for i in range(n):
        out[written + i] = ids[start + np.int64(picked[i])]


@kernel("i8(i8*, i8, i8*, i8, u8*, u4*, u4*)")
def calculate_rows(code, operations, frame, rows, words, picked, places):
    """Take rows through the operations; returns how many were written, or DIVIDED_BY_ZERO.

    `words` are the registers, those of constants filled in; `picked` and `places` have room for a block.
    """
    written = np.int64(0)
    for start in range(0, rows, BLOCK):
        n = min(np.int64(BLOCK), rows - start)
        is_whole = True
        has_dropped = False
        for operation in range(operations):
            at = operation * _WIDTH
            opcode = code[at]
            target = code[at + 1] * BLOCK
            if opcode == LOAD:
                ids = as_u4(frame[code[at + 2]])
                table = code[at + 3]
                identity = frame[table + 1]
                load(words, target, ids, start, picked, is_whole, n, as_u8(frame[table]), identity)
            elif opcode == KEEP:
                kept = keep(words, target, picked, places, is_whole, n)
                has_dropped = kept < n
                if has_dropped:
                    is_whole = False
                    n = kept
                    if n == 0:
                        break
            elif opcode == COMPACT:
                if has_dropped:
                    for i in range(n):
                        words[target + i] = words[target + np.int64(places[i])]
            elif opcode == COPY:
                copy_ids(frame, code[at + 2], code[at + 3], start, picked, is_whole, n, written)
            elif opcode == STORE:
                identity = np.uint64(frame[code[at + 3] + 1])
                store(frame, words, target, n, written, code[at + 2], identity)
            elif opcode < ADD:
                operand = code[at + 2] * BLOCK
                for i in range(n):
                    words[target + i] = apply_to_one(opcode, words[operand + i])
            else:
                right = code[at + 3] * BLOCK
                if opcode >= DIVIDE and opcode <= REMAINDER_UNSIGNED and has_zero(words, right, n):
                    return np.int64(DIVIDED_BY_ZERO)
                combine_block(opcode, words, target, code[at + 2] * BLOCK, right, n)
        written += n
    return written


@dataclass(frozen=True, slots=True)
class _Operation:
    opcode: int
    target: int = 0
    first: int = 0
    second: int = 0

    @property
    def reads(self) -> tuple[int, ...]:
        """The registers whose rows it needs."""
        if self.opcode in (KEEP, STORE):
            return (self.target,)
        if self.opcode in (LOAD, COMPACT, COPY):
            return ()
        return (self.first,) if self.opcode < ADD else (self.first, self.second)


class BlockProgram:
    """Comparisons on columns of ids, as `computes`: those without a target leave out rows where they are 0.

    Columns are the first registers; targets follow. `wanted` are the registers whose ids come out. Any number
    of threads may run it.
    """

    def __init__(self, computes: Sequence[Compute], columns: int, wanted: Sequence[int]) -> None:
        self._columns = columns
        self._wanted = tuple(wanted)
        self._tables: list[Words] = []
        self._constants: dict[int, int] = {}
        self._registers = 0
        targets = {compute.target: compute.words for compute in computes if compute.target is not None}
        self._spaces = [targets.get(register) for register in wanted]
        for table in (*self._spaces, *(step.words for compute in computes for step in compute.steps)):
            if table is not None and table not in self._tables:
                self._tables.append(table)
        operations = _with_compaction(self._assemble(computes), set(self._constants.values()))
        self._code = np.array(
            [word for op in operations for word in (op.opcode, op.target, op.first, op.second)], np.int64
        )
        self._operations = len(operations)

    def run(self, columns: Sequence[np.ndarray], rows: int) -> tuple[list[np.ndarray], int] | None:
        """The columns that are wanted and how many rows are left; None if a divisor is 0."""
        words = [table.words for table in self._tables]  # whatever is added meanwhile: these have all ids
        ids = [np.empty(rows, np.uint32) for _ in self._wanted]
        values = [np.empty(0 if table is None else rows, np.uint64) for table in self._spaces]
        given = [np.ascontiguousarray(column, np.uint32) for column in columns]
        frame = [address_of(column) for column in given]
        for table, known in zip(self._tables, words, strict=True):
            frame += [address_of(known), table.identity]
        flags = range(len(frame) + 2, len(frame) + 3 * len(ids), _OUTPUT_WORDS)
        for out, room in zip(ids, values, strict=True):
            frame += [address_of(out), address_of(room), 0]
        registers = np.empty((max(self._registers, 1), BLOCK), np.uint64)
        for value, register in self._constants.items():
            registers[register] = np.uint64(value % (1 << 64))
        places = np.array(frame, np.int64)
        written = calculate_rows(
            self._code, self._operations, places, rows, registers.reshape(-1),
            np.empty(BLOCK, np.uint32), np.empty(BLOCK, np.uint32),
        )  # fmt: skip
        if written == DIVIDED_BY_ZERO:
            return None
        made = [out[:written] for out in ids]
        for number, (space, flag) in enumerate(zip(self._spaces, flags, strict=True)):
            if space is not None and places[flag]:
                made[number] = space.intern(values[number][:written])
        return made, written

    def _assemble(self, computes: Sequence[Compute]) -> list[_Operation]:
        operations: list[_Operation] = []
        known: dict[int, int] = {}
        for compute in computes:
            stack: list[int] = []
            for step in compute.steps:
                if step.operator is Operator.CONSTANT:
                    if step.argument not in self._constants:
                        self._constants[step.argument] = self._new()
                    stack.append(self._constants[step.argument])
                    continue
                if step.operator is Operator.LOAD:
                    register = step.argument
                    if register not in known:
                        known[register] = self._new()
                        assert step.words is not None
                        place = self._table_at(step.words)
                        operations.append(_Operation(LOAD, known[register], register, place))
                    stack.append(known[register])
                    continue
                operands = [stack.pop()] if step.operator < Operator.ADD else [stack.pop(), stack.pop()]
                target = self._new()
                operations.append(_Operation(step.operator, target, *reversed(operands)))
                stack.append(target)
            (value,) = stack
            if compute.target is None:
                operations.append(_Operation(KEEP, value))
            else:
                known[compute.target] = value
        for number, (register, table) in enumerate(zip(self._wanted, self._spaces, strict=True)):
            output = self._columns + _TABLE_WORDS * len(self._tables) + _OUTPUT_WORDS * number
            if table is None:
                operations.append(_Operation(COPY, 0, register, output))
            else:
                operations.append(_Operation(STORE, known[register], output, self._table_at(table)))
        return operations

    def _new(self) -> int:
        self._registers += 1
        return self._registers - 1

    def _table_at(self, words: Words) -> int:
        """Where in the frame a table of words is."""
        return self._columns + _TABLE_WORDS * self._tables.index(words)


def _with_compaction(operations: Sequence[_Operation], constants: set[int]) -> list[_Operation]:
    """The operations, with what makes registers follow each KEEP that have been written and are needed."""
    result: list[_Operation] = []
    for number, operation in enumerate(operations):
        result.append(operation)
        if operation.opcode == KEEP:
            written = {before.target for before in operations[:number] if before.opcode not in (KEEP, COPY)}
            needed = {register for after in operations[number + 1 :] for register in after.reads}
            result += [_Operation(COMPACT, register) for register in sorted(written & needed - constants)]
    return result
