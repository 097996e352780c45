"""Programs whose facts and rules come and go: what to generate, a slow model of it, and how to compare.

A stream is a list of transactions, a transaction a list of calls. The `Model` takes them one by one, keeps
what is stated as Python sets and the rules as the oracle reads them, and asks it what follows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import pytest
from hypothesis import strategies as st

import gpuengine as ge
from gpuengine.errors import EvaluationError
from gpuengine.evaluation.placement.budget import Budget
from gpuengine.maintenance import updater
from gpuengine.maintenance.change import Change
from gpuengine.maintenance.transaction import Update
from gpuengine.planning.shapes import find_shapes
from gpuengine.relation import RelationView
from tests import oracle
from tests.differential.compare import Rows, checked, distinct, is_refusal, rows_of, same_floats, shown_facts
from tests.generated import PRIMITIVES, VALUES, Case
from tests.planning.rewriting import rewrite
from tests.strategies import cases
from tests.structured_programs import Structured, structured_programs
from tests.wide_programs import POOLS, WideProgram, wide_program

State = dict[str, Rows]


@dataclass(frozen=True)
class Call:
    """One call of an `Update`: facts of a relation, or rules as text."""

    kind: Literal["insert", "delete", "add_rules", "remove_rules"]
    relation: str = ""
    rows: tuple[tuple[Any, ...], ...] = ()
    rules: str = ""

    def __repr__(self) -> str:
        if self.rules:
            return f"u.{self.kind}({self.rules!r})"
        return f"u.{self.kind}({self.relation!r}, {list(self.rows)!r})"

    def make(self, update: Update) -> None:
        if self.kind == "insert":
            update.insert(self.relation, list(self.rows))
        elif self.kind == "delete":
            update.delete(self.relation, list(self.rows))
        else:
            getattr(update, self.kind)(f"{self.rules}\n")


Transaction = tuple[Call, ...]


@dataclass(frozen=True)
class Stream:
    """A program as declarations and clauses, the clauses and facts it begins with, and what follows."""

    declarations: str
    clauses: tuple[str, ...]
    facts: Mapping[str, Iterable[tuple[Any, ...]]]
    transactions: tuple[Transaction, ...]
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def text(self) -> str:
        return "\n".join([self.declarations, *self.clauses]) + "\n"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """How hypothesis shows a falsifying stream: as text that one can run."""
        printer.text(f'"""{self.text}""", facts={self.facts}, {self.options}\n')
        for transaction in self.transactions:
            printer.text(f"        {'; '.join(map(repr, transaction))}\n")


class Model:
    """What an engine must hold: stated facts as sets, rules by what they say, what follows by the oracle."""

    def __init__(self, stream: Stream) -> None:
        self._program = oracle.Program(stream.declarations)
        self.rules: dict[oracle.Rule, oracle.Rule] = {}
        self.stated: oracle.Facts = {name: set() for name in self._program.relations}
        self._take_rules(self._program.rules, added=True)
        for clause in stream.clauses:
            self.take(Call("add_rules", rules=clause))
        for name, rows in stream.facts.items():
            self.take(Call("insert", name, tuple(rows)))

    def take(self, call: Call) -> None:
        if call.rules:
            self._take_rules(self._program.rules_of(call.rules), call.kind == "add_rules")
            return
        rows = {self._program.row(call.relation, row) for row in call.rows}
        self._state(call.relation, rows, call.kind == "insert")

    def _take_rules(self, rules: Iterable[oracle.Rule], added: bool) -> None:
        for rule in rules:
            fact = oracle.fact_of(rule)
            if fact is not None:
                self._state(rule.head.relation, {fact}, added)
            elif added:
                self.rules[oracle.renamed(rule)] = rule
            else:
                self.rules.pop(oracle.renamed(rule), None)

    def _state(self, name: str, rows: Rows, added: bool) -> None:
        self.stated[name] = self.stated[name] | rows if added else self.stated[name] - rows

    def has(self, rules: str) -> bool:
        """Can these rules be removed?"""
        read = self._program.rules_of(rules)
        return all(oracle.fact_of(rule) is not None or oracle.renamed(rule) in self.rules for rule in read)

    def derived(self) -> oracle.Facts | None:
        """All that follows; None if evaluation fails."""
        try:
            return self._program.derive_by(self.rules.values(), self.stated)
        except oracle.Failure:
            return None

    def state(self) -> State | None:
        """All that follows, as the engine shows it; None if evaluation fails."""
        known = self.derived()
        return None if known is None else shown_facts(known)

    def shown_facts(self) -> State:
        return shown_facts(self.stated)


# -- the engine --------------------------------------------------------------------------------------


def started(stream: Stream) -> Any:
    """An engine that has materialised what a stream begins with."""
    kb = ge.Engine(stream.text, **{"threads": 1, **stream.options})
    for name, rows in stream.facts.items():
        kb.load(name, list(rows))
    return kb.materialise()


def commit(kb: Any, transaction: Iterable[Call]) -> Change:
    """Make a transaction; maintaining is not given up because the machine is busy."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(updater, "_LEAST_PATIENCE", 1e9)
        with kb.update() as update:
            for call in transaction:
                call.make(update)
    return update.change


def state_of(kb: Any) -> State:
    return {name: rows_of(kb, name) for name in ordinary(kb)}


def ordinary(kb: Any) -> dict[str, Any]:
    """Its relations without those that are inlined: whether one is kept as well is the engine's matter."""
    return {name: one for name, one in kb.relations.items() if "inline" not in one.qualifiers}


def facts_of(kb: Any) -> State:
    """The facts that are stated."""
    return {
        name: distinct(
            RelationView(name, relation.attributes, kb.loaded[name], kb.dictionary, Budget(None)), name
        )
        for name, relation in ordinary(kb).items()
    }


def is_maintained(kb: Any) -> bool:
    """Was the last update maintained, rather than computed anew?"""
    return kb._updater._maintainer is not None


def assert_is_difference(change: Change, before: Mapping[str, Rows], after: Mapping[str, Rows]) -> None:
    """The change has exactly what is in one state and not in the other, and lists what has changed."""
    for name in after:
        of_relation, old = change[name], before.get(name, set())
        inserted = [same_floats(row) for row in of_relation.inserted.to_pylist()]
        deleted = [same_floats(row) for row in of_relation.deleted.to_pylist()]
        assert set(inserted) == after[name] - old, f"inserted into {name}"
        assert set(deleted) == old - after[name], f"deleted from {name}"
        assert len(inserted) == len(of_relation.inserted) == len(set(inserted))
        assert len(deleted) == len(of_relation.deleted) == len(set(deleted))
        assert bool(of_relation) == (after[name] != old)
    changed = [name for name in after if after[name] != before.get(name, set())]
    assert sorted(name for name in change if name in after) == sorted(changed)
    assert len(change) == len(list(change))


def assert_follows(stream: Stream, *, maintained: bool = True) -> Any:
    """After each transaction the engine holds what the model does, and has told the exact change."""
    model = Model(stream)
    before = model.state()
    try:
        kb = started(stream)
    except EvaluationError as error:
        assert before is None or is_refusal(error)
        return None
    assert before is not None and state_of(kb) == before
    told: list[tuple[Change, State, State]] = []
    for transaction in stream.transactions:
        calls = [call for call in transaction if is_possible(model, call)]
        after = model.state()
        try:
            change = commit(kb, calls)
        except EvaluationError as error:
            assert after is None or is_refusal(error)
            assert state_of(kb) == before, f"after {calls}, which failed"
            return None
        assert after is not None, "an error of evaluation went unnoticed"
        assert state_of(kb) == after, f"after {calls}"
        assert facts_of(kb) == model.shown_facts(), f"stated after {calls}"
        assert_counted(kb)
        if len(told) % 2:  # the others are first looked at when more has happened
            assert_is_difference(change, before, after)
        assert is_maintained(kb) or not maintained
        told.append((change, before, after))
        before = after
    for change, old, new in told:
        assert_is_difference(change, old, new)
    return kb


def assert_counted(kb: Any) -> None:
    """Counters and contributions, where they are kept, are what counting again gives."""
    maintainer = kb._updater._maintainer
    for stratum in maintainer.strata if maintainer is not None else ():
        known = {name: counters.all() for name, counters in stratum.derivations.counters.items()}
        stratum.derivations.recount()
        assert known == {name: counters.all() for name, counters in stratum.derivations.counters.items()}
        summed = {name: facts.contributions.all() for name, facts in stratum.sums.items()}
        for facts in stratum.sums.values():
            facts.forget()
        stratum.count(())
        assert summed == {name: facts.contributions.all() for name, facts in stratum.sums.items()}


def is_possible(model: Model, call: Call) -> bool:
    """Have the model take a call, unless it removes rules that are not there."""
    if call.kind == "remove_rules" and not model.has(call.rules):
        return False
    model.take(call)
    return True


# -- generation --------------------------------------------------------------------------------------

ALL_SCHEMES = (None, {"*": "table"}, {"*": "closure"}, {"*": "union"}, {"*": "equivalence"})
OPTIONS = st.fixed_dictionaries(
    {
        "schemes": st.sampled_from(ALL_SCHEMES),
        "modules": st.sampled_from([True, True, False]),
        "threads": st.sampled_from([1, 1, 2]),
        "counting": st.sampled_from([False, False, True]),
    }
)
Pool = Mapping[str, Sequence[Any]]
AnyCase = Case | Structured | WideProgram


@st.composite
def fact_streams(draw: st.DrawFn, programs: st.SearchStrategy[Any]) -> Stream:
    """A random program, and transactions that change its facts."""
    return _stream(draw, draw(programs), rules=False)


@st.composite
def rule_streams(draw: st.DrawFn, programs: st.SearchStrategy[Any]) -> Stream:
    """A random program that begins with some of its clauses, and transactions that change both."""
    return _stream(draw, draw(programs), rules=True)


def _stream(draw: st.DrawFn, case: AnyCase, *, rules: bool) -> Stream:
    declarations, clauses, facts = parts_of(case)
    options = draw(OPTIONS)
    if not rules and draw(st.booleans()):
        options["schemes"] = _schemes(draw, "\n".join([declarations, *clauses]))
    begun = [clause for clause in clauses if not rules or draw(st.integers(0, 2))]
    types = oracle.Program(declarations).relations
    stated = [name for name, kinds in types.items() if set(kinds) <= set(PRIMITIVES)]
    pools = _pools(case)
    inputs = [name for name in stated if name in facts] or stated

    def rows(name: str) -> tuple[tuple[Any, ...], ...]:
        row = st.tuples(*(st.sampled_from(pools[kind]) for kind in types[name]))
        known = list(facts.get(name, ()))
        row = st.one_of(row, st.sampled_from(known)) if known else row
        return tuple(draw(st.lists(row, min_size=1, max_size=3)))

    def call() -> Call:
        if rules and clauses and draw(st.booleans()):
            text = draw(st.sampled_from(clauses))
            return Call("add_rules" if draw(st.booleans()) else "remove_rules", rules=text)
        name = draw(st.sampled_from(inputs if draw(st.integers(0, 3)) else stated))
        return Call("insert" if draw(st.booleans()) else "delete", name, rows(name))

    transactions = [
        tuple(call() for _ in range(draw(st.integers(1, 4)))) for _ in range(draw(st.integers(1, 5)))
    ]
    return Stream(declarations, tuple(begun), facts, tuple(transactions), options)


def parts_of(case: AnyCase) -> tuple[str, list[str], dict[str, list[tuple[Any, ...]]]]:
    """The declarations of a generated program, its clauses, and its facts."""
    if isinstance(case, Case):
        without = replace(case, clauses=())
        return str(without), [str(clause) for clause in case.clauses], dict(case.facts)
    lines = case.text.splitlines()
    declarations = [line for line in lines if line.startswith(".")]
    return "\n".join(declarations), [line for line in lines if not line.startswith(".")], dict(case.facts)


def _pools(case: AnyCase) -> Pool:
    if isinstance(case, Structured):
        return {"number": range(7)}
    if isinstance(case, WideProgram):
        return POOLS
    found: dict[str, list[Any]] = {kind: list(VALUES[kind][:3]) for kind in PRIMITIVES}
    for relation in case.relations:
        for row in case.facts.get(relation.name, ()):
            for kind, value in zip(relation.types, row, strict=True):
                if kind in found and value not in found[kind]:
                    found[kind].append(value)
    return found


def _schemes(draw: st.DrawFn, program: str) -> dict[str, str]:
    """For each relation a scheme that its rules allow; relations on a cycle of copies are left alone."""
    chosen = {}
    for name, candidates in find_shapes(rewrite(checked(program))).items():
        shapes = [candidate.shape.value for candidate in candidates]
        chosen[name] = draw(st.sampled_from([*shapes, *shapes, "table", "auto"]))
    try:
        ge.Engine(program, schemes=chosen)
    except ge.GpuEngineError:
        return {}
    return chosen


STRUCTURED = structured_programs()
NUMBERS = cases(types=("number",))
ANY_CASE = st.one_of(cases(), cases(compound=True))
#: Without limits: what a limit cuts off depends on the rounds, which an update does not repeat.
WIDE = st.builds(wide_program, st.integers(0, 10**9), limits=st.just(False))
