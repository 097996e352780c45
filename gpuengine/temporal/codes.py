"""The one table of diagnostic codes of DatalogMTL. A code never changes its meaning.

Docs/temporal.md lists them.
"""

from __future__ import annotations

SYNTAX = "T0001"
CHARACTER = "T0002"
UNTERMINATED = "T0003"
UNREADABLE = "T0004"

NEGATIVE_RANGE = "T0101"
EMPTY_RANGE = "T0102"
NUMBER = "T0103"
HEAD_OPERATOR = "T0104"
ARITY = "T0105"
TOO_DEEP = "T0106"

UNSAFE = "T0201"
ONLY_LEFT = "T0202"
UNBOUND = "T0203"
UNSTRATIFIABLE = "T0204"
ALTERNATIVES = "T0205"

DESCRIPTIONS: dict[str, str] = {
    SYNTAX: "the text does not follow the grammar",
    CHARACTER: "a character that can't occur in a program",
    UNTERMINATED: "a string or comment that never ends",
    UNREADABLE: "a program that can't be found or read",
    NEGATIVE_RANGE: "an operator whose interval is negative",
    EMPTY_RANGE: "an interval that holds no time",
    NUMBER: "a number that is none, or infinity where there is none",
    HEAD_OPERATOR: "an operator that a head can't have: diamonds, Since, Until",
    ARITY: "a predicate with a number of arguments that differs from another use",
    TOO_DEEP: "operators or parentheses nested too deeply",
    UNSAFE: "a variable of the head that the body does not have",
    ONLY_LEFT: "a variable that is needed but only in the left operand of Since or Until",
    UNBOUND: "a variable of a negated atom or a comparison that no other atom binds",
    UNSTRATIFIABLE: "a predicate defined through its own negation",
    ALTERNATIVES: "a body with too many left operands of Since and Until that need not hold",
}
