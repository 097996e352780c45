"""Turn the relational steps of an ordered body into one pipeline.

Registers are given to variables as they are bound; constants have registers of their own; an
equation between plain variables or constants costs nothing, it only names a register twice.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from gpuengine.evaluation.rules.bounds import NOTHING, intersect
from gpuengine.evaluation.rules.calculation import defined_variable, truth_steps, value_steps
from gpuengine.evaluation.rules.database import Database
from gpuengine.kernels.contract import (
    IGNORE,
    MAX_KEYS,
    Collect,
    Comparator,
    Compare,
    Compute,
    Contains,
    Domain,
    Driver,
    Exists,
    Improve,
    IndexProbe,
    Insert,
    Operation,
    Pipeline,
    Probe,
    Representation,
    Rows,
    Scan,
    ValueTable,
    Within,
    check,
    write,
)
from gpuengine.language.program import (
    Atom,
    AtomArg,
    Comparison,
    Constant,
    Functor,
    Kind,
    Negation,
    Term,
    Variable,
    Wildcard,
)
from gpuengine.planning.plan import Access, Step
from gpuengine.schemes.table import Table, as_table

_COMPARATORS = {
    "=": Comparator.EQUAL,
    "==": Comparator.EQUAL,
    "!=": Comparator.NOT_EQUAL,
    "<": Comparator.LESS,
    "<=": Comparator.LESS_EQUAL,
}
_MIRRORED = {">": "<", ">=": "<="}
_REPRESENTATIONS = {
    Kind.NUMBER: Representation.BY_NUMBER,
    Kind.UNSIGNED: Representation.BY_UNSIGNED,
    Kind.FLOAT: Representation.BY_FLOAT,
}


def is_fusable(literal: Comparison, bound: frozenset[Variable]) -> bool:
    """Can a pipeline evaluate this comparison: plain operands, and an order that it knows?"""
    sides = (literal.left, literal.right)
    if not all(isinstance(side, Variable | Constant) for side in sides):
        return False
    if literal.op == "==":
        return all(isinstance(side, Constant) or side in bound for side in sides)
    if literal.op in ("=", "!="):
        return any(isinstance(side, Constant) or side in bound for side in sides)
    return literal.op in ("<", "<=", ">", ">=") and literal.left.type.kind in _REPRESENTATIONS


@dataclass
class JoinBuilder:
    """Collects the operations of one pipeline over `database`.

    `old` are the body positions that read OLD, `growing` the relations whose indexes will be appended to;
    `exact` has atoms that only check read their domain, by an index, instead of the set of all rows.
    `absent` are tables that must be empty for the body to hold: negated, with nothing bound.
    """

    database: Database
    old: frozenset[int] = frozenset()
    growing: frozenset[str] = frozenset()
    exact: bool = False
    registers: dict[Variable, int] = field(default_factory=dict)
    operations: list[Operation] = field(default_factory=list)
    absent: list[Table] = field(default_factory=list)
    _constants: dict[tuple[str, int], int] = field(default_factory=dict)
    _bounds: dict[int, tuple[int, int]] = field(default_factory=dict)
    _reads_nothing: bool = False
    _computed: set[int] = field(default_factory=set)
    _count: int = 0

    def drive_atom(self, atom: Atom) -> Driver:
        driver = Driver(self._table(atom).rows, self._bindings(atom.args))
        self._note_bounds(atom)
        return driver

    def drive_variables(self, rows: Rows, variables: tuple[Variable, ...]) -> Driver:
        """Rows whose columns are the given variables."""
        return Driver(rows, tuple(write(self._new(variable)) for variable in variables))

    def add(self, step: Step) -> None:
        literal = step.literal
        if isinstance(literal, Comparison):
            if isinstance(literal.left, Functor) or isinstance(literal.right, Functor):
                self._compute(literal)
            else:
                self._compare(literal)
        elif isinstance(literal, Negation):
            self._negate(literal.atom, step)
        else:
            assert isinstance(literal, Atom)
            self._atom(literal, step)
            self._note_bounds(literal)

    def add_alternatives(self, atoms: list[tuple[Atom, int]]) -> None:
        """Probe the shortest of several atoms that bind the same variable, and check the others."""
        new = next(arg for arg in atoms[0][0].args if isinstance(arg, Variable) and arg not in self.registers)
        prepared = [(atom, position, self._known_registers(atom)) for atom, position in atoms]
        target = self._new(new)
        probes = []
        for atom, position, _ in prepared:
            columns = tuple(c for c, arg in enumerate(atom.args) if arg != new)
            probes.append(self._probe(atom, position, columns, target_of={new: target}))
            self._note_bounds(atom)
        number = len(self.operations)
        self.operations.append(Probe(tuple(probes)))
        for alternative, (atom, _, known) in enumerate(prepared):
            registers = tuple(target if register is None else register for register in known)
            self.operations.append(
                Contains(self._table(atom).keyset, registers, unless=(number, alternative))
            )

    def insert_into(
        self, driver: Driver, head: Atom, *, distinct: bool, best: object | None = None
    ) -> Pipeline:
        """End in the head's set, or where it has the `best` value of each key; rows that are known to be new
        and `distinct` need no set.
        """
        registers = tuple(self._term_register(arg) for arg in head.args)
        bounds = self._table(head).bounds
        computed = [c for c, register in enumerate(registers) if register in self._computed]
        if computed:
            self.operations.append(
                Within(tuple(registers[c] for c in computed), tuple(bounds[c] for c in computed))
            )
        if best is not None:
            return self._finish(driver, Improve(best, registers))
        sink = Collect(registers) if distinct else Insert(self._table(head).keyset, registers)
        return self._finish(driver, sink)

    def _note_bounds(self, atom: Atom) -> None:
        """Remember within which bounds each register's ids must lie."""
        for arg, bounds in zip(atom.args, self._table(atom).bounds, strict=True):
            self._reads_nothing |= bounds == NOTHING
            if isinstance(arg, Variable):
                register = self.registers[arg]
                self._bounds[register] = intersect(self._bounds.get(register, bounds), bounds)
                self._reads_nothing |= self._bounds[register] == NOTHING

    def check_bounds(self, head: Atom) -> None:
        """Kernels write without looking: what can reach the head of a pure body must lie within its bounds.

        While atoms have no ids in common nothing reaches the head, and its bounds may still be to come.
        """
        if self._reads_nothing:
            return
        for arg, (low, high) in zip(head.args, self._table(head).bounds, strict=True):
            # A constant fits by itself; its register may also stand for a variable that must equal it.
            reached = None if isinstance(arg, Constant) else self._bounds.get(self._term_register(arg))
            if reached is not None and not (low <= reached[0] and reached[1] <= high):
                raise AssertionError(f"{head.relation}: ids in {reached} do not fit {(low, high)}")

    def collect(self, driver: Driver, variables: tuple[Variable, ...]) -> Pipeline:
        return self._finish(driver, Collect(tuple(self.registers[variable] for variable in variables)))

    def _finish(self, driver: Driver, sink: Insert | Improve | Collect) -> Pipeline:
        constants = tuple((register, id) for (_, id), register in self._constants.items())
        return Pipeline(driver, tuple(self.operations), sink, self._count, constants)

    def _table(self, atom: Atom) -> Table:
        return as_table(self.database.tables[atom.relation])

    def _new(self, variable: Variable) -> int:
        self.registers[variable] = self._count
        self._count += 1
        return self.registers[variable]

    def _constant(self, constant: Constant) -> int:
        key = (constant.type.space, self.database.dictionary.intern_constant(constant))
        if key not in self._constants:
            self._constants[key] = self._count
            self._count += 1
        return self._constants[key]

    def _term_register(self, term: Term | Wildcard) -> int:
        if isinstance(term, Constant):
            return self._constant(term)
        assert isinstance(term, Variable)
        return self.registers[term]

    def _known_registers(self, atom: Atom) -> list[int | None]:
        return [
            None if isinstance(arg, Variable) and arg not in self.registers else self._term_register(arg)
            for arg in atom.args
        ]

    def _bindings(self, args: tuple[AtomArg, ...]) -> tuple[int, ...]:
        """What to do with each column: remember new variables, compare known ones and constants."""
        result = []
        for arg in args:
            if isinstance(arg, Wildcard):
                result.append(IGNORE)
            elif isinstance(arg, Variable) and arg not in self.registers:
                result.append(write(self._new(arg)))
            else:
                result.append(check(self._term_register(arg)))
        return tuple(result)

    def _domain(self, position: int) -> Domain:
        return Domain.OLD if position in self.old else Domain.ALL

    def _probe(
        self,
        atom: Atom,
        position: int,
        bound: tuple[int, ...],
        target_of: dict[Variable, int] | None = None,
    ) -> IndexProbe:
        """Probe by the most selective of the bound columns; the others are checked in the payload."""
        table = self._table(atom)
        if len(bound) > MAX_KEYS:
            bound = tuple(sorted(sorted(bound, key=lambda c: -table.distinct(c))[:MAX_KEYS]))
        keys = tuple(self._term_register(atom.args[c]) for c in bound)
        rest = tuple(arg for c, arg in enumerate(atom.args) if c not in bound)
        if target_of is not None:
            payload = tuple(write(target_of[arg]) for arg in rest if isinstance(arg, Variable))
        else:
            payload = self._bindings(rest)
        index = table.index(bound, growing=atom.relation in self.growing)
        return IndexProbe(index, self._domain(position), keys, payload)

    def _atom(self, atom: Atom, step: Step) -> None:
        if step.access is Access.CHECK and not self.exact:
            registers = tuple(self._term_register(arg) for arg in atom.args)
            self.operations.append(Contains(self._table(atom).keyset, registers))
        elif step.access is Access.CHECK and atom.args:
            columns = tuple(range(len(atom.args)))
            self.operations.append(Exists(self._probe(atom, step.position, columns)))
        elif step.access is Access.PROBE:
            self.operations.append(Probe((self._probe(atom, step.position, step.bound_columns),)))
        elif step.access is Access.EXISTS and step.bound_columns:
            self.operations.append(Exists(self._probe(atom, step.position, step.bound_columns)))
        else:
            domain = self._domain(step.position)
            self.operations.append(Scan(self._table(atom).rows, domain, self._bindings(atom.args)))

    def _negate(self, atom: Atom, step: Step) -> None:
        if step.access is Access.CHECK:
            registers = tuple(self._term_register(arg) for arg in atom.args)
            self.operations.append(Contains(self._table(atom).keyset, registers, negated=True))
        elif step.bound_columns:
            probe = self._probe(atom, step.position, step.bound_columns)
            self.operations.append(Exists(probe, negated=True))
        else:
            self.absent.append(self._table(atom))

    def _compare(self, literal: Comparison) -> None:
        for one, other in ((literal.left, literal.right), (literal.right, literal.left)):
            if literal.op == "=" and isinstance(one, Variable) and one not in self.registers:
                self.registers[one] = self._term_register(other)
                return
        left, right, op = literal.left, literal.right, literal.op
        if op in _MIRRORED:
            left, right, op = right, left, _MIRRORED[op]
        kind = left.type.kind
        representation = _REPRESENTATIONS.get(kind, Representation.BY_ID)
        # Two variables are equal if they are the same term, as if one stood for both: NaN equals itself then.
        same_term = op == "=" and isinstance(left, Variable) and isinstance(right, Variable)
        if same_term or (op in ("=", "!=") and kind is not Kind.FLOAT):
            representation = Representation.BY_ID
        registers = self._term_register(left), self._term_register(right)
        values = None
        if representation is not Representation.BY_ID:
            values = self._values(left.type.space)
        self.operations.append(Compare(_COMPARATORS[op], representation, *registers, values))

    def _compute(self, literal: Comparison) -> None:
        tables = self.database.dictionary.word_tables
        defined = defined_variable(literal, frozenset(self.registers))
        if defined is None:
            steps = truth_steps(literal, self.registers.__getitem__, tables.__getitem__)
            self.operations.append(Compute(tuple(steps)))
            return
        variable, term = defined
        steps = value_steps(term, self.registers.__getitem__, tables.__getitem__)
        target = self._new(variable)
        self._computed.add(target)
        self.operations.append(Compute(tuple(steps), target, tables[variable.type.space]))

    def _values(self, space: str) -> ValueTable:
        return self.database.value_table(space)
