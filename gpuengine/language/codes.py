"""The one table of diagnostic codes. A code never changes its meaning; docs/language.md lists them."""

from __future__ import annotations

SYNTAX = "E0001"
CHARACTER = "E0002"
UNTERMINATED = "E0003"
ESCAPE = "E0004"
LITERAL = "E0005"
UNREADABLE = "E0006"
INCLUDE_OUTSIDE = "E0007"
INCLUDE_CYCLE = "E0008"
PREPROCESSOR = "E0009"
MACRO = "E0010"
TOO_DEEP = "E0011"
TOO_LARGE = "E0012"

UNDECLARED_RELATION = "E0101"
DUPLICATE = "E0102"
DUPLICATE_ATTRIBUTE = "E0103"
ARITY = "E0104"
UNDECLARED_TYPE = "E0105"
CYCLIC_TYPE = "E0106"
MIXED_UNION = "E0107"
EQREL = "E0108"
DIRECTIVE = "E0109"
UNKNOWN_BRANCH = "E0110"

UNKNOWN_COMPONENT = "E0201"
COMPONENT_PARAMETERS = "E0202"
OVERRIDE = "E0203"
COMPONENT_CYCLE = "E0204"

TYPE_CLASH = "E0301"
NO_COMMON_SUBTYPE = "E0302"
NOT_A_SUBTYPE = "E0303"
UNKNOWN_RECORD = "E0304"
ARGUMENT_COUNT = "E0305"
CAST = "E0306"
PATTERN = "E0307"

UNGROUNDED = "E0401"
WILDCARD = "E0402"
UNSTRATIFIABLE = "E0403"
RECURSIVE_INLINE = "E0404"
INLINE_USE = "E0405"
AGGREGATE_BODY = "E0406"
MERGE = "E0407"
NOT_MONOTONE = "E0408"
SELECTION = "E0409"

SUBSUMPTION = "E0501"
LATTICE = "E0502"
USER_FUNCTOR = "E0503"
CHOICE_DOMAIN = "E0504"
COUNTER = "E0505"
PROVENANCE = "E0506"

UNKNOWN_RULE = "E0601"

SINGLE_VARIABLE = "W0001"
NEVER_FILLED = "W0002"
CROSS_PRODUCT = "W0003"
NEVER_USED = "W0004"
WARNING = "W0005"
PARAMETER = "W0006"

DESCRIPTIONS: dict[str, str] = {
    SYNTAX: "the text does not follow the grammar",
    CHARACTER: "a character that can't occur in a program",
    UNTERMINATED: "a string or comment that never ends",
    ESCAPE: "an unknown escape sequence in a string",
    LITERAL: "a number or IP address that is malformed or does not fit 64 bits",
    UNREADABLE: "a program or include file that can't be found or read",
    INCLUDE_OUTSIDE: "an include that leaves the program's directory and the include directories",
    INCLUDE_CYCLE: "a file that includes itself, or too many includes",
    PREPROCESSOR: "a malformed or unknown preprocessor directive",
    MACRO: "a macro that is defined or used wrongly, or expands without end",
    TOO_DEEP: "an expression or group nested too deeply",
    TOO_LARGE: "a clause whose disjunctions expand to too many rules",
    UNDECLARED_RELATION: "a relation that is not declared",
    DUPLICATE: "a relation, type, branch, component or instance declared twice",
    DUPLICATE_ATTRIBUTE: "two attributes of one declaration have the same name",
    ARITY: "an atom with the wrong number of arguments",
    UNDECLARED_TYPE: "a type that is not declared",
    CYCLIC_TYPE: "a subtype, alias or union defined through itself",
    MIXED_UNION: "a union of types with different representations",
    EQREL: "an eqrel relation that is not binary over one type",
    DIRECTIVE: "a directive with a missing or malformed parameter",
    UNKNOWN_BRANCH: "an ADT branch that is not declared",
    UNKNOWN_COMPONENT: "a component that is not declared",
    COMPONENT_PARAMETERS: "a component with the wrong number of type parameters",
    OVERRIDE: "an .override outside a component, or of a relation that is not overridable",
    COMPONENT_CYCLE: "a component that inherits from or instantiates itself",
    TYPE_CLASH: "an argument or operand of the wrong type",
    NO_COMMON_SUBTYPE: "a variable whose uses have no common type",
    NOT_A_SUBTYPE: "a variable whose type is not a subtype of the attribute it is used for",
    UNKNOWN_RECORD: "a record whose type can't be inferred",
    ARGUMENT_COUNT: "a functor, record or branch with the wrong number of arguments",
    CAST: "a cast between types that can't be cast",
    PATTERN: "a pattern with what match does not have: look-around, back-references, flags, named groups",
    UNGROUNDED: "a variable that nothing binds",
    WILDCARD: "a wildcard where a value is needed",
    UNSTRATIFIABLE: "a relation defined through its own negation or aggregate",
    RECURSIVE_INLINE: "an inline relation defined through itself",
    INLINE_USE: "an inline relation used where it can't be inlined",
    AGGREGATE_BODY: "an aggregate with a missing or superfluous expression, or a disjunction in its body",
    MERGE: "an aggregate of a head where none can be",
    NOT_MONOTONE: "an aggregate of a head in recursion by which a better value could take back what follows",
    SELECTION: "a relation that is to keep facts in two ways at once",
    SUBSUMPTION: "a subsumption between two relations, or by what depends on what it leaves",
    LATTICE: "a lattice, or an attribute or field with one, that can't be so",
    USER_FUNCTOR: "a functor, or one of an aggregate, that is not declared, or not as one can be",
    CHOICE_DOMAIN: "a choice-domain by an attribute that is not there",
    COUNTER: "autoinc() in a rule that depends on its own head, in an aggregate or in a query",
    PROVENANCE: "provenance is not supported",
    UNKNOWN_RULE: "a rule to remove that the program does not have",
}

WARNINGS: dict[str, str] = {
    SINGLE_VARIABLE: "a variable that occurs once and does not begin with _",
    NEVER_FILLED: "a relation that is read, but has no rules, facts or input",
    CROSS_PRODUCT: "a body with atoms that nothing joins with the others",
    NEVER_USED: "a relation that nothing reads or writes",
    WARNING: "what a #warning of the program says",
    PARAMETER: "a directive with a parameter that it does not have, and that means nothing",
}
