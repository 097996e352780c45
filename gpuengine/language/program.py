"""The checked core program: what `language` hands to `planning`.

Everything here is immutable and knows its source span.  Compared with the text, a core
program has no components, includes, macros, inlined relations or disjunctions left (each
disjunct is its own rule, each head its own rule), every constant and variable has its type, and
the arguments of atoms are variables, constants or wildcards only: a computed argument
``p(x + 1)`` has become ``p(v), v = x + 1``, a record pattern ``p([a, b])`` has become
``p(v), v = [a, b]``, and an aggregate inside an expression has become an `Aggregate` literal.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING, cast

from gpuengine.errors import Diagnostic, Span

if TYPE_CHECKING:
    from gpuengine.language.lattices import Lattices


class Kind(Enum):
    """How the values of a type are represented and computed with."""

    NUMBER = "number"  # int64
    UNSIGNED = "unsigned"  # uint64
    FLOAT = "float"  # IEEE double
    SYMBOL = "symbol"  # UTF-8 string
    RECORD = "record"  # hash-consed tuple, or nil
    ADT = "adt"  # hash-consed (branch, tuple)


@dataclass(frozen=True, slots=True)
class Type:
    """A resolved type. `space` names the id space its values are interned in.

    Subtypes and aliases of a primitive share the primitive's space (``"number"``, ``"symbol"``, ...);
    a record or ADT type has a space of its own, named after the root declaration. `logical` names the
    built-in type whose values these numbers stand for outside the engine, such as ``"date"``; "" if none.
    """

    name: str
    kind: Kind
    space: str
    logical: str = ""

    def __hash__(self) -> int:
        return hash(self.name)


NUMBER = Type("number", Kind.NUMBER, "number")
UNSIGNED = Type("unsigned", Kind.UNSIGNED, "unsigned")
FLOAT = Type("float", Kind.FLOAT, "float")
SYMBOL = Type("symbol", Kind.SYMBOL, "symbol")

MOST_DECIMALS = 18
LOGICAL = {
    name: Type(name, Kind.NUMBER, "number", name)
    for name in (
        *("boolean", "date", "time", "timestamp", "instant"),
        *(f"decimal_{digits}" for digits in range(MOST_DECIMALS + 1)),
    )
}
"""Built-in subtypes of number, by name, unless a program declares types of these names itself."""


@dataclass(frozen=True, slots=True)
class Attribute:
    """A named, typed column of a relation, or field of a record or branch."""

    name: str
    type: Type


@dataclass(frozen=True, slots=True)
class RecordType:
    """``.type Name = [a: number, b: Name]``. The value ``nil`` belongs to every record type."""

    type: Type
    fields: tuple[Attribute, ...]


@dataclass(frozen=True, slots=True)
class Branch:
    """One alternative of an ADT."""

    name: str
    fields: tuple[Attribute, ...]


@dataclass(frozen=True, slots=True)
class AdtType:
    """``.type Name = A { x: number } | B {}``; a branch's tag is its position in `branches`."""

    type: Type
    branches: tuple[Branch, ...]


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable; within a rule a name means one variable of one type."""

    name: str
    type: Type

    def __hash__(self) -> int:
        return hash(self.name)  # planning looks them up all the time


@dataclass(frozen=True, slots=True)
class Wildcard:
    """``_`` in an atom. Inside an aggregate's positive atoms wildcards have become variables."""


@dataclass(frozen=True, slots=True)
class Constant:
    """`value` is int (number, unsigned), float, str, or None for ``nil``."""

    value: int | float | str | None
    type: Type


@dataclass(frozen=True, slots=True)
class Functor:
    """An intrinsic applied to terms; `type` is the result's, the arguments' types pick the overload.

    `op` is one of: ``+ - * / % ^ neg`` ``bnot band bor bxor bshl bshr bshru`` ``lnot land lor lxor``
    ``min max`` ``cat strlen substr ord to_number to_string to_unsigned to_float`` ``as``, ``range`` (2 or 3
    arguments, yields several values; only directly as one side of an ``=``) and ``@name``, which a function
    outside the program computes (only there, too: it may have no value).
    """

    op: str
    args: tuple[Term, ...]
    type: Type
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True)
class Pack:
    """A record ``[a, b]`` (`branch` is None) or an ADT value ``$B(a, b)``; a pattern where its side of
    an ``=`` is already bound, a constructor otherwise. `args` may hold wildcards in a pattern."""

    type: Type
    branch: str | None
    args: tuple[Term | Wildcard, ...]


_WILDCARD = Wildcard()
Term = Variable | Constant | Functor | Pack
AtomArg = Variable | Constant | Wildcard


@dataclass(frozen=True, slots=True)
class Atom:
    """``relation(args)``."""

    relation: str
    args: tuple[AtomArg, ...]
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True)
class Negation:
    """``!p(x, _)``: no fact of p matches; its variables are bound elsewhere."""

    atom: Atom


@dataclass(frozen=True, slots=True)
class Comparison:
    """``left op right``; `op` is ``= == != < <= > >= match contains`` or ``!match !contains``.

    Both sides have the same kind. An ``=`` whose one side is an unbound variable (or a `Pack` with
    unbound arguments while the other side is bound) binds it. ``==`` is written ``=`` too: it compares a
    float that an atom binds by value, so that it may bind it to more than one (0.0 and -0.0) or none (NaN).
    """

    op: str
    left: Term
    right: Term
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True)
class Aggregate:
    """``result = op target : { body }``, `op` one of ``count sum min max mean``, or ``@@name``.

    `outer` are the body's variables that the rest of the rule also mentions: they are bound before
    the aggregate is evaluated, which then ranges over the distinct bindings of the body's other
    variables. ``count`` and ``sum`` of nothing are 0; ``min``, ``max`` and ``mean`` of nothing do not hold.
    ``@@name`` begins with `initial`, and replaces it by ``@name(it, value)`` for each value.
    """

    result: Variable
    op: str
    target: Term | None
    body: tuple[Literal, ...]
    outer: tuple[Variable, ...]
    span: Span = field(compare=False)
    initial: Constant | None = None


Literal = Atom | Negation | Comparison | Aggregate


class BodyOrder(Enum):
    """How the atoms of a body are joined."""

    CHEAPEST = "cheapest"  # in the order that costs least
    WRITTEN = "written"  # in the order of the text
    TREE = "tree"  # along a join tree, after semi-joins have left only what joins


@dataclass(frozen=True, slots=True)
class Merge:
    """``p(x, min d)``: of the facts that agree on all but `column` one stays, which `op` makes of all.

    ``min`` and ``max`` keep the best of the values; ``sum`` and ``count`` add them up, of each rule one for
    each binding of its body; ``bor`` and ``band`` join them bit by bit, and ``@name`` by a function of the
    user, that a lattice says at `span`. A fact whose value is `bottom` says nothing, and is not kept.
    """

    column: int
    op: str
    span: Span | None = field(default=None, compare=False)
    bottom: Term | None = None

    @property
    def is_best(self) -> bool:
        """Is what stays one of the facts?"""
        return self.op in ("min", "max")

    @property
    def is_sum(self) -> bool:
        """Does every binding of a body count?"""
        return self.op in ("sum", "count")


@dataclass(frozen=True, slots=True)
class Rule:
    """``head :- body.``; a fact is a rule with an empty body and constant arguments.

    `text` is the source of the clause it came from, for plans, progress and errors. Planning says in which
    `order` the body is joined. `merge` is what the head says of one of its arguments. A rule that `subsumes`
    is ``head <= other :- rest.``: its body begins with the atoms head and other, and a fact of head goes if
    there is another fact for which the rest holds.
    """

    head: Atom
    body: tuple[Literal, ...]
    span: Span = field(compare=False)
    text: str = field(compare=False)
    order: BodyOrder = BodyOrder.CHEAPEST
    merge: Merge | None = None
    subsumes: bool = False
    _hash: int | None = field(default=None, init=False, compare=False, repr=False)

    def __hash__(self) -> int:
        """Computed once: planning looks rules up all the time."""
        value = self._hash
        if value is None:
            value = hash((self.head, self.body, self.order, self.merge, self.subsumes))
            object.__setattr__(self, "_hash", value)
        return value

    def __reduce__(self) -> tuple[object, ...]:
        """Without the hash: that of strings is another one in another process."""
        parts = (self.head, self.body, self.span, self.text, self.order, self.merge, self.subsumes)
        return type(self), parts


@dataclass(frozen=True, slots=True)
class Directive:
    """``.input/.output/.printsize/.limitsize`` of one relation with its ``key=value`` parameters."""

    kind: str
    relation: str
    params: Mapping[str, str]
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True)
class Relation:
    """A declared relation; `qualifiers` are those of its declaration other than input and output.

    `choices` are the keys of its choice-domain, as columns: no two facts agree on one of them. `lattice` says
    of which columns values are joined: of the facts that agree on the others one stays.
    """

    name: str
    attributes: tuple[Attribute, ...]
    qualifiers: frozenset[str]
    span: Span = field(compare=False)
    choices: tuple[tuple[int, ...], ...] = ()
    lattice: tuple[Merge, ...] = ()

    @property
    def arity(self) -> int:
        return len(self.attributes)


@dataclass(frozen=True, slots=True)
class FunctorSignature:
    """``.functor f(x: number, y: symbol): symbol``; the function itself comes from outside the program."""

    name: str
    arguments: tuple[Type, ...]
    result: Type
    stateful: bool
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True)
class Inline:
    """An inlined relation: no rule mentions it any more, but a query may."""

    relation: Relation
    rules: tuple[Rule, ...]


@dataclass(frozen=True, slots=True)
class Alias:
    """A fact alias(a_0, ..) holds exactly if of(b_0, ..) holds with b_j = a_{permutation[j]}.

    If ``r(x, y, z)`` holds exactly if ``p(z, x, y)`` does, then r is ``Alias("p", (2, 0, 1))``.
    """

    of: str
    permutation: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Program:
    """A correct program. `relations`, `rules` and `directives` keep source order.

    No rule mentions a relation that has an alias: its facts are stored as those of another one.
    """

    relations: Mapping[str, Relation]
    rules: tuple[Rule, ...]
    directives: tuple[Directive, ...]
    records: Mapping[str, RecordType]  # by space
    adts: Mapping[str, AdtType]  # by space
    pragmas: tuple[tuple[str, str], ...]
    types: Mapping[str, Type] = field(default_factory=dict)  # every type name, for the casts of queries
    inlines: Mapping[str, Inline] = field(default_factory=dict)  # by relation name, for queries
    warnings: tuple[Diagnostic, ...] = field(default=(), compare=False)
    aliases: Mapping[str, Alias] = field(default_factory=dict)
    functors: Mapping[str, FunctorSignature] = field(default_factory=dict)  # by name, without the @
    subsumptions: tuple[Rule, ...] = ()
    lattices: Lattices | None = field(default=None, compare=False)  # if there are any, for queries


def term_variables(term: Term | Wildcard) -> frozenset[Variable]:
    """The variables a term mentions."""
    if isinstance(term, Variable):
        return frozenset((term,))
    if isinstance(term, Functor | Pack):
        return frozenset().union(*(term_variables(arg) for arg in term.args))
    return frozenset()


def literal_variables(literal: Literal) -> frozenset[Variable]:
    """The variables a literal shares with the rule around it (an aggregate's local ones excluded)."""
    if isinstance(literal, Atom):
        return frozenset(arg for arg in literal.args if isinstance(arg, Variable))
    if isinstance(literal, Negation):
        return literal_variables(literal.atom)
    if isinstance(literal, Comparison):
        return term_variables(literal.left) | term_variables(literal.right)
    return frozenset((literal.result, *literal.outer))


def binds(literal: Literal, bound: Set[Variable]) -> frozenset[Variable] | None:
    """What `literal` binds when the variables in `bound` are; None if it can't be evaluated yet.

    This is the one definition of groundedness: the checker rejects a rule in which some literal
    never becomes evaluable, and the planner orders literals by it.
    """
    if isinstance(literal, Atom):
        return literal_variables(literal) - bound
    if isinstance(literal, Negation):
        return frozenset() if literal_variables(literal) <= bound else None
    if isinstance(literal, Aggregate):
        return frozenset((literal.result,)) - bound if frozenset(literal.outer) <= bound else None
    left, right = term_variables(literal.left), term_variables(literal.right)
    if left | right <= bound:
        return frozenset()
    if literal.op not in ("=", "=="):
        return None
    for target, target_vars, source_vars in (
        (literal.left, left, right),
        (literal.right, right, left),
    ):
        if source_vars <= bound and _is_pattern(target, bound):
            return target_vars - bound
    return None


def _is_pattern(term: Term | Wildcard, bound: Set[Variable]) -> bool:
    """Can `term` be matched against a known value, binding its unbound variables?"""
    if isinstance(term, Variable | Constant | Wildcard):
        return True
    if isinstance(term, Pack):
        return all(_is_pattern(arg, bound) for arg in term.args)
    return term_variables(term) <= bound


def canonical(rule: Rule) -> Rule:
    """`rule` with its variables named in the order of their first occurrence: ``v0``, ``v1``, ...

    A variable that occurs once, in a positive atom of the body, becomes the wildcard that it means.  So
    two rules with the same literals in the same order are equal, whatever names they use.
    """
    if not rule.body and all(isinstance(arg, Constant) for arg in rule.head.args):
        return rule
    counting = _Renaming(frozenset())
    counting.rule(rule)
    single = frozenset(name for name, count in counting.occurrences.items() if count == 1)
    return _Renaming(single).rule(rule)


class _Renaming:
    """Renames the variables of one rule and counts them; those named in `single` become wildcards."""

    def __init__(self, single: frozenset[str]) -> None:
        self._single = single
        self._new: dict[str, Variable] = {}  # by name, in the order of first occurrence
        self.occurrences: dict[str, int] = {}

    def rule(self, rule: Rule) -> Rule:
        head = self._atom(rule.head)
        return replace(rule, head=head, body=tuple(self._literal(part) for part in rule.body))

    def _variable(self, variable: Variable) -> Variable:
        name = variable.name
        self.occurrences[name] = self.occurrences.get(name, 0) + 1
        new = self._new.get(name)
        if new is None:
            new = self._new[name] = Variable(f"v{len(self._new)}", variable.type)
        return new

    def _term(self, term: Term | Wildcard) -> Term | Wildcard:
        if isinstance(term, Variable):
            return self._variable(term)
        if isinstance(term, Functor):
            args = tuple(cast(Term, self._term(arg)) for arg in term.args)
            return Functor(term.op, args, term.type, term.span)
        if isinstance(term, Pack):
            return Pack(term.type, term.branch, tuple(self._term(arg) for arg in term.args))
        return term

    def _atom(self, atom: Atom, single: frozenset[str] = frozenset()) -> Atom:
        args: list[AtomArg] = []
        for arg in atom.args:
            if isinstance(arg, Variable):
                args.append(_WILDCARD if arg.name in single else self._variable(arg))
            else:
                args.append(arg)
        return Atom(atom.relation, tuple(args), atom.span)

    def _literal(self, literal: Literal, inside: bool = False) -> Literal:
        """Inside an aggregate a wildcard is a variable too, see `Wildcard`."""
        if isinstance(literal, Atom):
            return self._atom(literal, frozenset() if inside else self._single)
        if isinstance(literal, Negation):
            return Negation(self._atom(literal.atom))
        if isinstance(literal, Comparison):
            left, right = cast(Term, self._term(literal.left)), cast(Term, self._term(literal.right))
            return Comparison(literal.op, left, right, literal.span)
        result = self._variable(literal.result)
        target = None if literal.target is None else cast(Term, self._term(literal.target))
        body = tuple(self._literal(part, inside=True) for part in literal.body)
        names = {variable.name for variable in literal.outer}
        outer = tuple(new for name, new in self._new.items() if name in names)
        return replace(literal, result=result, target=target, body=body, outer=outer)
