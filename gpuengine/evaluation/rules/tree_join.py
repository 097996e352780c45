"""Evaluate a variant whose body is acyclic along its join tree: reduce first, then join what is left.

After the reduction every instantiation is part of a result, so only the atoms that have a variable of the
head, or lie between such, are joined: from the leaves up, each join projected to what is still needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from gpuengine.evaluation.host_work import Counted, HostOperation
from gpuengine.evaluation.rules.bounds import flow_bounds
from gpuengine.evaluation.rules.context import Context
from gpuengine.evaluation.rules.reduction import (
    Instantiations,
    Reduction,
    common_backend,
    read_instantiations,
)
from gpuengine.evaluation.rules.temporary import TemporaryTables
from gpuengine.kernels.contract import Array, Backend
from gpuengine.language.program import (
    Atom,
    BodyOrder,
    Constant,
    Literal,
    Rule,
    Variable,
    literal_variables,
)
from gpuengine.planning.hypergraph import JoinTree, edges_of, join_tree
from gpuengine.planning.plan import Variant
from gpuengine.schemes.contract import Domain, Scheme
from gpuengine.schemes.table import as_table

if TYPE_CHECKING:
    from gpuengine.evaluation.rules.variants import VariantRunner

_SMALL_DELTA = 1024
"""Up to so many driving rows a pipeline is done before a reduction has begun."""
_LEAST_GAIN = 2.0
_LEAST_FANOUT = 20.0


@dataclass(frozen=True)
class _Shape:
    """The atoms of a body as a tree, rooted where most of what is `wanted` is bound."""

    tree: JoinTree
    edges: Mapping[int, frozenset[Variable]]
    wanted: frozenset[Variable]
    tail: tuple[Literal, ...]

    @property
    def needed(self) -> list[int]:
        """The atoms that have to be joined for what is wanted, each after its children; the root is last."""
        atoms = list(self.tree.bottom_up())
        for position in self.tree.bottom_up()[:-1]:
            above = self.tree.parent[position]
            has_children = any(self.tree.parent.get(other) == position for other in atoms)
            if not has_children and self.edges[position] & self.wanted <= self.edges[above]:
                atoms.remove(position)
        return atoms


def _shape(rule: Rule) -> _Shape | None:
    edges = edges_of(rule.body)
    tail = tuple(part for part in rule.body if not isinstance(part, Atom))
    wanted = literal_variables(rule.head).union(*(literal_variables(part) for part in tail))
    wanted &= frozenset().union(*edges.values())
    tree = join_tree(edges)
    if tree is None:
        return None
    root = max(edges, key=lambda position: len(edges[position] & wanted))
    return _Shape(tree.rerooted(root), edges, wanted, tail)


class TreeJoin:
    """Evaluates variants for runners. The last reduction is kept for other heads of the same body."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._database = context.database
        self._shapes: dict[Rule, _Shape | None] = {}

    def is_worth_while(self, variant: Variant, cost: float) -> bool:
        """Is a reduction likely to cost less than a pipeline with so many expected bindings in all?

        Over everything it mostly is: a pipeline has to make indexes first.
        """
        atoms = [part for part in variant.rule.body if isinstance(part, Atom)]
        tables = [self._database.tables[atom.relation] for atom in atoms]
        shape = self._shape(variant.rule)
        if len(atoms) < 2 or shape is None or not all(table.is_listed for table in tables):
            return False
        everything = sum(len(table) for table in tables)
        if variant.delta is None:
            return len(shape.needed) == 1 or len(atoms) > 2 or cost > _LEAST_GAIN * everything
        driver = variant.rule.body[variant.delta]
        assert isinstance(driver, Atom)
        table = self._database.tables[driver.relation]
        new = table.count(Domain.NEW)
        if new <= _SMALL_DELTA:
            return False
        cost *= new / max(len(table), 1)
        return cost > min(_LEAST_GAIN * everything, _LEAST_FANOUT * new)

    def run(self, variant: Variant, runner: VariantRunner) -> int:
        """Derive what a variant derives; returns the bindings seen. To do it twice adds nothing.

        `runner` evaluates the joins of what is left, and knows which bounds follow from which.
        """
        shape = self._shape(variant.rule)
        assert shape is not None
        reduction = self._reduction(variant, shape)
        needed = shape.needed
        with self._counting(variant.rule, reduction.backend):
            root = reduction.reduced(shape.tree.root)
        if not root.count:
            return 0
        head = self._database.tables[variant.rule.head.relation]
        if len(needed) == 1 and not shape.tail:
            self._insert(root, variant.rule, head, runner)
            return root.count
        with TemporaryTables(self._database, self._context.backend_of(variant.rule.head.relation)) as tables:
            return self._join(variant, shape, needed, reduction, tables, runner)

    def _counting(self, rule: Rule, backend: Backend, rows: int = 0) -> AbstractContextManager[Counted]:
        if not backend.on_host:
            return nullcontext(Counted(rows))
        return self._context.progress.host_work.counting(HostOperation.REDUCTION, rule.text, rows)

    def _shape(self, rule: Rule) -> _Shape | None:
        if rule not in self._shapes:
            self._shapes[rule] = _shape(rule)
        return self._shapes[rule]

    def _reduction(self, variant: Variant, shape: _Shape) -> Reduction:
        """The reduction of the body, made anew unless the last one was of the same atoms and facts.

        For another head it may have another root, which is as good.
        """
        atoms = {at: part for at, part in enumerate(variant.rule.body) if isinstance(part, Atom)}
        state: list[object] = []
        for atom in atoms.values():
            table = as_table(self._database.tables[atom.relation])
            state.append((atom, table, table.version, table.rows.delta))
        # What is left of the atoms goes into the head, or is joined, where the head is.
        backend = common_backend([*atoms.values(), variant.rule.head], self._database)
        key = (tuple(state), variant.delta, variant.old, backend)
        last = self._context.last_reduction
        if last is None or last[0] != key:
            self._context.last_reduction = None
            active = {
                at: read_instantiations(atom, _domain(variant, at), self._database, backend)
                for at, atom in atoms.items()
            }
            given = sum(one.count for one in active.values())
            with self._counting(variant.rule, backend, given):
                last = key, Reduction(shape.tree, active, variant.delta, self._context.stop)
            self._context.last_reduction = last
        return last[1]

    def _insert(self, found: Instantiations, rule: Rule, head: Scheme, runner: VariantRunner) -> None:
        """Put bindings of all variables of a head into its relation."""
        columns = []
        for arg in rule.head.args:
            if isinstance(arg, Constant):
                id = self._database.dictionary.intern_constant(arg)
                columns.append(_filled(id, found))
            else:
                assert isinstance(arg, Variable)
                columns.append(found.columns[arg])
        bounds = list(head.bounds)
        head.insert(columns, found.count if columns else 1)
        if list(head.bounds) != bounds:
            flow_bounds(runner.bound_rules, self._database)
        self._context.check_budget(head, rule.text)

    def _join(
        self,
        variant: Variant,
        shape: _Shape,
        needed: list[int],
        reduction: Reduction,
        tables: TemporaryTables,
        runner: VariantRunner,
    ) -> int:
        """Join what is left of the needed atoms, from the leaves up; the last join derives the head."""
        rule = variant.rule
        below: dict[int, list[Atom]] = {position: [] for position in needed}
        seen = 0
        for position in needed:
            is_root = position == shape.tree.root
            upwards = shape.wanted | (frozenset() if is_root else shape.edges[shape.tree.parent[position]])
            beside = frozenset().union(*(literal_variables(atom) for atom in below[position]))
            kept = _sorted(shape.edges[position] & (upwards | beside))
            with self._counting(rule, reduction.backend) as counted:
                reduced = reduction.reduced(position).projected(kept)
                counted.rows = reduced.count
            own = tables.holding(list(reduced.columns.values()), reduced.count)
            own_atom = Atom(own.name, kept, rule.span)
            if is_root:
                body = (own_atom, *below[position], *shape.tail)
                last = replace(rule, body=body, order=BodyOrder.CHEAPEST)
                seen += runner.like(last).run(Variant(last, None, frozenset(), variant.in_hindsight))
            elif not below[position]:
                below[shape.tree.parent[position]].append(own_atom)
            else:
                carried = _sorted((frozenset(kept) | beside) & upwards)
                joined = tables.empty(len(carried))
                head = Atom(joined.name, carried, rule.span)
                step = Rule(head, (own_atom, *below[position]), rule.span, rule.text)
                flow_bounds([step], self._database)
                seen += runner.like(step).run(Variant(step, None, frozenset()))
                joined.settle()
                below[shape.tree.parent[position]].append(head)
        return seen


def _filled(id: int, found: Instantiations) -> Array:
    """A column of one id beside those of instantiations."""
    if found.backend.on_host:
        return np.full(found.count, id, np.uint32)
    assert found.backend.primitives is not None
    return found.backend.primitives.filled(id, found.count)


def _domain(variant: Variant, position: int) -> Domain:
    if position == variant.delta:
        return Domain.NEW
    return Domain.OLD if position in variant.old else Domain.ALL


def _sorted(variables: frozenset[Variable]) -> tuple[Variable, ...]:
    return tuple(sorted(variables, key=lambda variable: variable.name))
