"""Basic graph patterns over the relations of an engine: joined by its query planner."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from gpuengine.engine import Engine
from gpuengine.errors import Span
from gpuengine.kernels.cpu.backend import CPU
from gpuengine.language.program import SYMBOL, Atom, AtomArg, Constant
from gpuengine.language.program import Rule as CoreRule
from gpuengine.language.program import Variable as CoreVariable
from gpuengine.rdf.equality import Classes, is_among
from gpuengine.rdf.graph import Among
from gpuengine.rdf.layout import QUADS, TRIPLES, Layout
from gpuengine.rdf.quads import DictionaryTerms, distinct_ids
from gpuengine.rdf.rules import Argument, Triple, Variable
from gpuengine.rdf.terms import TYPE
from gpuengine.schemes.closure import Closure
from gpuengine.schemes.contract import Scheme
from gpuengine.schemes.table import Table, as_table

_NOWHERE = Span("<query>", 1, 1, 1, 1)
ALL = "@triples"
AUXILIARY = "<urn:gpuengine:"
"""How classes and properties begin that rules need for themselves: nobody is shown their triples."""

Columns = dict[str, np.ndarray]


class Answering:
    """Reads one engine.

    Where facts are stored for representatives, it `expands` them to all terms of `classes`, or shows them
    as they are; constants are any of the terms.
    """

    def __init__(
        self,
        engine: Engine,
        layout: Layout,
        terms: DictionaryTerms,
        classes: Classes,
        *,
        expands: bool = True,
    ) -> None:
        self._engine = engine
        self._state = engine.current
        self._classes = classes
        self._expands = expands and len(classes) > 0
        self._listed: dict[tuple[bool, bool], Table] = {}
        self._layout = layout
        self._compact: set[str] | None = None
        self._terms = terms

    @property
    def terms(self) -> DictionaryTerms:
        """See `gpuengine.rdf.graph.Graph`."""
        return self._terms

    def solve(self, patterns: Sequence[Triple], among: Among | None = None) -> Mapping[str, np.ndarray]:
        """See `gpuengine.rdf.graph.Graph`."""
        names = list(
            dict.fromkeys(
                place.name for one in patterns for place in _places(one) if isinstance(place, Variable)
            )
        )
        if not patterns:
            return {"": np.zeros(1, np.uint32)}
        tables: dict[str, Table] = {}
        atoms: list[Atom] = []
        if len(self._classes):
            patterns = [self._represented(pattern) for pattern in patterns]
        for pattern in patterns:
            atom = self._atom(pattern)
            if atom is None:
                atom = self._open_atom(pattern, tables)
            atoms.append(atom)
        if any(self._is_unknown(atom) for atom in atoms):
            return {name: np.zeros(0, np.uint32) for name in names or [""]}
        solutions = self._answers(atoms, names, tables)
        if self._expands and all(pattern.graph is None for pattern in patterns):
            solutions = self._classes.expanded(solutions, among)
        for pattern in patterns:
            if all(isinstance(place, Variable) for place in _places(pattern)) and pattern.graph is None:
                solutions = self._shown(solutions, pattern)
        return solutions

    def _shown(self, columns: Columns, pattern: Triple) -> Columns:
        """The rows whose triple, of three variables, is shown."""
        s, p, o = (columns[place.name] for place in _places(pattern) if isinstance(place, Variable))
        mask = self._is_shown(s, p, o)
        return {name: column[mask] for name, column in columns.items()}

    def _represented(self, pattern: Triple) -> Triple:
        """A pattern with representatives for its terms; triples of named graphs are as they were given."""
        if pattern.graph is not None:
            return pattern
        return Triple(*map(self._representative, (pattern.subject, pattern.predicate, pattern.object)))

    def _representative(self, place: Argument) -> Argument:
        number = None if isinstance(place, Variable) else self._terms.lookup(place)
        if number is None or not self._classes.have(ids := np.array([number], np.uint32))[0]:
            return place
        return self._terms.texts(self._classes.of(ids))[0]

    def _answers(self, atoms: Sequence[Atom], names: Sequence[str], tables: Mapping[str, Table]) -> Columns:
        head = Atom("?", tuple(CoreVariable(name, SYMBOL) for name in names), _NOWHERE)
        answers = self._engine.answer(CoreRule(head, tuple(atoms), _NOWHERE, "?"), "a graph pattern", tables)
        if not names:
            return {"": np.zeros(min(len(answers), 1), np.uint32)}
        return dict(zip(names, listed(answers), strict=True))

    def _is_unknown(self, atom: Atom) -> bool:
        """Is there a constant in it that no triple has?"""
        return any(
            isinstance(arg, Constant) and self._terms.lookup(str(arg.value)) is None for arg in atom.args
        )

    def _atom(self, pattern: Triple) -> Atom | None:
        """The atom of the relation that has all triples of a pattern, if one has."""
        s, p, o = pattern.subject, pattern.predicate, pattern.object
        if pattern.graph is not None:
            return _made(QUADS, (s, p, o, pattern.graph))
        if isinstance(p, str):
            if p in self._layout.properties:
                return _made(self._layout.properties[p], (s, o))
            if p != TYPE or not self._layout.classes:
                return _made(TRIPLES, (s, p, o))
            if isinstance(o, str):
                klass = self._layout.classes.get(o)
                return _made(TRIPLES, (s, p, o)) if klass is None else _made(klass, (s,))
        elif not (self._layout.classes or self._layout.properties):
            return _made(TRIPLES, (s, p, o))
        return None

    def _open_atom(self, pattern: Triple, tables: dict[str, Table]) -> Atom:
        """An atom of a table made for the pattern: of its own triples if it has a constant, else of all."""
        s, p, o = pattern.subject, pattern.predicate, pattern.object
        if not (isinstance(s, str) or isinstance(o, str) or p == TYPE):
            # What is shown depends on the terms of classes: it is left out when those are listed.
            tables[ALL] = self._whole(generalised=self._expands, expands=False)
            return _made(ALL, (s, p, o))
        variables = list(dict.fromkeys(place for place in (s, p, o) if isinstance(place, Variable)))
        name = f"@pattern{len(tables)}"
        table = Table(name, len(variables), CPU)
        alternatives = self._alternatives(s, p, o)
        if alternatives:
            # A triple is in one relation only: they are distinct.
            whole = [np.concatenate([columns[one.name] for columns in alternatives]) for one in variables]
            table.restore(whole, len(whole[0]))
        tables[name] = table
        return _made(name, tuple(variables))

    def _alternatives(self, s: Argument, p: Argument, o: Argument) -> list[Columns]:
        """The bindings of a triple by each relation."""
        alternatives = []
        names = list(dict.fromkeys(place.name for place in (s, p, o) if isinstance(place, Variable)))
        for predicate, klass, relation in (*self._layout.slots, (None, None, TRIPLES)):
            if predicate is not None and isinstance(p, str) and p != predicate:
                continue
            if klass is not None and isinstance(o, str) and o != klass:
                continue
            if predicate is None:
                atom, fixed = _made(relation, (s, p, o)), {}
            else:
                atom = _made(relation, (s, o) if klass is None else (s,))
                fixed = {p: predicate} if isinstance(p, Variable) else {}
                if klass is not None and isinstance(o, Variable):
                    if fixed.get(o, klass) != klass:
                        continue
                    fixed[o] = klass
            if self._is_unknown(atom):
                continue
            free = [arg.name for arg in dict.fromkeys(atom.args) if isinstance(arg, CoreVariable)]
            columns = self._answers([atom], free, {})
            rows = len(next(iter(columns.values())))
            mask = np.ones(rows, np.bool_)
            for variable, text in fixed.items():
                ids = self._terms.add([text])
                if variable.name in columns and variable.name in free:
                    mask &= columns[variable.name] == ids[0]
                else:
                    columns[variable.name] = np.repeat(ids, rows)
            alternatives.append({name: columns[name][mask] for name in names})
        return alternatives

    def is_current(self, engine: Engine) -> bool:
        """Is what this reads still the state of an engine?"""
        return engine is self._engine and engine.current is self._state

    def all_triples(self, *, generalised: bool = False) -> Table:
        """All triples of the default graph, listed; see `RdfEngine.triples` for those that are left out."""
        return self._whole(generalised=generalised, expands=self._expands)

    def _whole(self, *, generalised: bool, expands: bool) -> Table:
        if (generalised, expands) not in self._listed:
            parts: list[list[np.ndarray]] = []
            for predicate, klass, relation in self._layout.slots:
                columns = self._engine[relation].id_columns()
                if not expands:
                    columns = self._visible(columns, predicate, klass, generalised)
                rows = len(columns[0])
                where = np.repeat(self._terms.add([predicate]), rows)
                last = columns[1] if klass is None else np.repeat(self._terms.add([klass]), rows)
                parts.append([columns[0], where, last])
            rest = self._engine[TRIPLES].id_columns()
            parts.append(rest if expands else self._visible_triples(rest, generalised))
            whole = [np.concatenate(columns) for columns in zip(*parts, strict=True)]
            if expands:
                named = self._classes.expanded(dict(zip("spo", whole, strict=True)))
                whole = self._visible_triples(list(named.values()), generalised)
            table = Table(ALL, 3, CPU)
            table.restore(whole, len(whole[0]))
            self._listed[generalised, expands] = table
        return self._listed[generalised, expands]

    def count(self) -> int:
        """How many triples `all_triples` has."""
        if self._expands:
            return self._expanded_count()
        slots = sum(
            len(self._visible(self._engine[relation].id_columns(), predicate, klass, False)[0])
            for predicate, klass, relation in self._layout.slots
        )
        return slots + len(self._visible_triples(self._engine[TRIPLES].id_columns(), False)[0])

    def _expanded_count(self) -> int:
        """How many triples are shown, without listing them: the product of what each place stands for."""
        classes, terms = self._classes, self._terms
        nodes, iris = ~terms.are_literals(classes.members), terms.are_iris(classes.members)
        count = 0
        for predicate, klass, relation in self._layout.slots:
            if (klass or predicate).startswith(AUXILIARY):
                continue
            columns = self._engine[relation].id_columns()
            last = classes.sizes(columns[1] if klass is None else terms.add([klass]))
            is_node = classes.have(columns[0]) | ~terms.are_literals(columns[0])
            first = classes.sizes(columns[0], nodes) * is_node
            count += int((first * last).sum()) * int(classes.sizes(terms.add([predicate]), iris)[0])
        s, p, o = self._engine[TRIPLES].id_columns()
        shown = (classes.have(s) | ~terms.are_literals(s)) & (classes.have(p) | terms.are_iris(p))
        shown &= ~self._auxiliary(p) & ~self._auxiliary(o)
        each = classes.sizes(s, nodes) * classes.sizes(p, iris) * classes.sizes(o)
        return count + int(each[shown].sum())

    def _auxiliary(self, column: np.ndarray) -> np.ndarray:
        """A mask of the terms that rules need for themselves."""
        ids = distinct_ids(column)
        return is_among(ids[self._terms.begin_with(ids, AUXILIARY)], column)

    def _visible(
        self, columns: list[np.ndarray], predicate: str, klass: str | None, generalised: bool
    ) -> list[np.ndarray]:
        if generalised:
            return columns
        if (klass or predicate).startswith(AUXILIARY):
            return [column[:0] for column in columns]
        shown = ~self._terms.are_literals(columns[0])
        return columns if shown.all() else [column[shown] for column in columns]

    def _visible_triples(self, columns: list[np.ndarray], generalised: bool) -> list[np.ndarray]:
        if generalised:
            return columns
        shown = self._is_shown(*columns)
        return columns if shown.all() else [column[shown] for column in columns]

    def _is_shown(self, s: np.ndarray, p: np.ndarray, o: np.ndarray) -> np.ndarray:
        shown = ~self._terms.are_literals(s) & self._terms.are_iris(p)
        for column in (p, o):
            shown &= ~self._auxiliary(column)
        return shown

    def is_transitive(self, predicate: str) -> bool:
        """See `gpuengine.rdf.graph.Graph`: so it is where a relation is stored as a closure."""
        relation = self._relation(predicate)
        if self._compact is None:
            stored = self._engine.storage
            self._compact = {name for name, one in stored.items() if one.scheme in ("closure", "equivalence")}
        return relation in self._compact

    def _relation(self, predicate: str) -> str | None:
        """The relation of a property, or of the one that stands for it."""
        place = self._representative(predicate) if len(self._classes) else predicate
        return self._layout.properties.get(place) if isinstance(place, str) else None

    def pairs(self, predicate: str, *, closed: bool) -> int | None:
        """See `gpuengine.rdf.graph.Graph`."""
        if self._expands:
            return None
        if closed and not self.is_transitive(predicate):
            scheme = self._closure(predicate)
            return len(scheme) if scheme is not None else 0
        relation = self._relation(predicate)
        return None if relation is None else len(self._engine[relation])

    def _closure(self, predicate: str) -> Closure | None:
        """The closure of a predicate; None if it has no triples."""
        edges = self.solve([Triple(Variable("x"), predicate, Variable("y"))])
        if not len(edges["x"]):
            return None
        scheme = Closure("path", threads=self._engine.options.threads)
        bound = int(max(edges["x"].max(), edges["y"].max())) + 1
        scheme.widen([(0, bound), (0, bound)])
        scheme.keep_edges([edges["x"], edges["y"]])
        return scheme

    def closure(self, predicate: str, *, reflexive: bool) -> tuple[np.ndarray, np.ndarray]:
        """See `gpuengine.rdf.graph.Graph`."""
        if self.is_transitive(predicate):
            pairs = self.solve([Triple(Variable("x"), predicate, Variable("y"))])
            first, second = pairs["x"], pairs["y"]
        else:
            scheme = self._closure(predicate)
            none = np.zeros(0, np.uint32)
            first, second = listed(scheme) if scheme is not None else (none, none)
        if reflexive:
            everything = self.all_triples().columns()
            nodes = np.unique(np.concatenate([everything[0], everything[2]]))
            other = first != second
            first = np.concatenate([first[other], nodes])
            second = np.concatenate([second[other], nodes])
        return first, second

    def graphs(self) -> np.ndarray:
        """See `gpuengine.rdf.graph.Graph`."""
        return np.unique(self._engine[QUADS].id_columns()[3])


def listed(scheme: Scheme) -> list[np.ndarray]:
    """All facts of a scheme as columns."""
    if scheme.is_listed:
        return as_table(scheme).columns()
    pieces = list(scheme.scan())
    if not pieces:
        return [np.zeros(0, np.uint32) for _ in range(scheme.arity)]
    return [np.concatenate(columns) for columns in zip(*pieces, strict=True)]


def _places(pattern: Triple) -> tuple[Argument, ...]:
    places = (pattern.subject, pattern.predicate, pattern.object)
    return places if pattern.graph is None else (*places, pattern.graph)


def _made(relation: str, places: Sequence[Argument]) -> Atom:
    return Atom(relation, tuple(_argument(place) for place in places), _NOWHERE)


def _argument(place: Argument) -> AtomArg:
    return CoreVariable(place.name, SYMBOL) if isinstance(place, Variable) else Constant(place, SYMBOL)
