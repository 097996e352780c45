"""The integer code of a pipeline and the state of its runs; the interpreter is in `pipeline`.

Code (int64)
    number of operations, driver rows header, driver columns, sink kind, sink set header (of IMPROVE, merge
    header), sink columns, offset of driver bindings, offset of sink registers, operation to go on with after
    the sink, then the offset of each operation.
Bindings
    a register to write (>= 0), IGNORE (-1), or ``-2 - register`` to compare with.
Operations
    PROBE     kind, back, alternatives, then for each: offset of its probe
              a probe: index header, domain, keys, width, key registers, payload bindings
    SCAN      kind, back, rows header, domain, columns, bindings
    CONTAINS  kind, back, set header, negated, probe operation, alternative, columns, registers
    EXISTS    kind, back, negated, offset of its probe
    COMPARE   kind, back, comparison, representation, left register, right register, value table's cell
    COMPUTE   kind, back, target register or NO_TARGET, words header, steps, then for each step in postfix
              order: operator, argument (a constant, or the register of a LOAD), words header of a LOAD
    WITHIN    kind, back, columns, then for each: register, least id, one past the greatest
`back` is the nearest earlier operation that iterates, or -1 for the driver. A CONTAINS is passed
over when its probe operation chose the given alternative, which has just enumerated that atom. After the
sink took a binding, operations that bind nothing of it are left: they would only lead to the same row again.
State (int64)
    row, end row, resume operation, stop flag's address, candidates, registers' offset, iteration offset
    (position, end, alternative for each operation), scratch's offset, tail's offset; then those areas.
Runs may share the driver's rows and the room of the output: each takes some when it has none left.
A run suspends when the output is full and goes on exactly there when called again. It also suspends when a
COMPUTE finds no room for a new word, or a WITHIN an id outside: the resume operation is ``-3 - operation``
then, and that operation is done again.
"""

from __future__ import annotations

CODE_OPERATIONS = 0
CODE_DRIVER = 1
CODE_DRIVER_COLUMNS = 2
CODE_SINK = 3
CODE_SINK_SET = 4
CODE_SINK_COLUMNS = 5
CODE_DRIVER_BINDINGS = 6
CODE_SINK_REGISTERS = 7
CODE_SINK_BACK = 8
CODE_OFFSETS = 9

STATE_ROW = 0
STATE_END = 1
STATE_RESUME = 2
STATE_STOP = 3
STATE_CANDIDATES = 4
STATE_REGISTERS = 5
STATE_ITERATION = 6
STATE_SCRATCH = 7
STATE_TAIL = 8
STATE_AREAS = 9

PROBE = 0
SCAN = 1
CONTAINS = 2
EXISTS = 3
COMPARE = 4
COMPUTE = 5
WITHIN = 6

COLLECT = 0
INSERT = 1
IMPROVE = 2

ALL = 0
OLD = 1

IGNORE = -1

EQUAL = 0
NOT_EQUAL = 1
LESS = 2
LESS_EQUAL = 3
BY_ID = 0
BY_NUMBER = 1
BY_UNSIGNED = 2
BY_FLOAT = 3
IDENTITY = 1 << 24  # ids of numbers below this are the numbers themselves

AHEAD = 8  # how many candidates ahead the innermost loops fetch

WORK_ROW = 0  # what several runs share: the driver's next row, one past its last, how many a run takes
WORK_END = 1
WORK_CHUNK = 2
WORK_ROOM = 3  # the next free row of the output, one past the last, how many a run takes
WORK_ROOM_END = 4
WORK_PIECE = 5
WORK_WORDS = 6

DONE = 0
FULL = 1
STOPPED = 2
WORDS_FULL = 3
OUTSIDE = 4
FAILED = 5  # what an operation says of a binding that does not pass
NO_RESUME = -2

NO_TARGET = -1
STEP_WORDS = 3
LOAD = 0
CONSTANT = 1
NEGATE = 2
COMPLEMENT = 3
NOT = 4
NEGATE_FLOAT = 5
FLOAT_OF_NUMBER = 6
FLOAT_OF_UNSIGNED = 7
ADD = 8  # from here on, operators take two operands
SUBTRACT = 9
MULTIPLY = 10
DIVIDE = 11
DIVIDE_UNSIGNED = 12
REMAINDER = 13
REMAINDER_UNSIGNED = 14
BIT_AND = 15
BIT_OR = 16
BIT_XOR = 17
SHIFT_LEFT = 18
SHIFT_RIGHT = 19
SHIFT_RIGHT_UNSIGNED = 20
AND = 21
OR = 22
XOR = 23
MINIMUM = 24
MINIMUM_UNSIGNED = 25
MAXIMUM = 26
MAXIMUM_UNSIGNED = 27
IS_EQUAL = 28
IS_NOT_EQUAL = 29
IS_LESS = 30
IS_LESS_UNSIGNED = 31
IS_LESS_EQUAL = 32
IS_LESS_EQUAL_UNSIGNED = 33
ADD_FLOAT = 34  # from here on, they are floats
SUBTRACT_FLOAT = 35
MULTIPLY_FLOAT = 36
DIVIDE_FLOAT = 37
MINIMUM_FLOAT = 38
MAXIMUM_FLOAT = 39
IS_EQUAL_FLOAT = 40
IS_NOT_EQUAL_FLOAT = 41
IS_LESS_FLOAT = 42
IS_LESS_EQUAL_FLOAT = 43
