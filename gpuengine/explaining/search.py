"""Find how high the lowest proofs of some facts are: back from them a layer at a time, then forth.

A layer are the facts from which those of the layer before may follow in one step. Every proof of height h
lies within the first h layers; so as soon as all goals have proofs no higher than the layers that were
looked at, none is lower. Instances are found for whole layers at once, by joins with the materialisation.

What is stated has height 0; a step by a rule or along a chain (`chains`) is one higher than the highest fact
that it rests on. Negations and aggregates read what is complete: they add nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gpuengine.errors import GpuEngineError
from gpuengine.explaining.chains import Arc, Arcs, Chain, find_chains, find_walks, place_of
from gpuengine.explaining.instances import Given, Questions
from gpuengine.explaining.rounds import UNPROVED, Rounds
from gpuengine.explaining.rules import WrittenRule, WrittenRules
from gpuengine.kernels.cpu.locator import RowLocator
from gpuengine.kernels.cpu.rows import Batch
from gpuengine.kernels.primitives import NONE
from gpuengine.language.program import Atom, AtomArg, Constant, Variable
from gpuengine.schemes.table import Table

_MOST_INSTANCES = 200_000
"""From so many instances on, it costs less to go forth from what is stated than back from the goals."""
_EVERY_LAYER = 8
"""So many layers are looked at one by one before heights are computed for several at once."""
_FEW_GOALS = 16
"""For so many facts of a chain what lies between their ends is looked at; for more of them, all of it."""
_PLACE_BITS = 40


_Between = dict[int | None, tuple[np.ndarray, np.ndarray]]
"""What facts along a chain can begin and end with: steps before and after its own fact, and that (None)."""


@dataclass(frozen=True, slots=True)
class Kind:
    """The facts of a relation; those of a chain that do not follow by its implied rules are `external`."""

    relation: str
    is_external: bool = False


class _TooManyInstances(Exception):
    """More instances than are worth looking at one by one."""


class SoughtFacts:
    """The facts of one kind that the search has come across, numbered, with the heights of their proofs.

    `shallow` is the number of the rule by which a fact follows from stated ones, -1 if there is none.
    """

    def __init__(self, kind: Kind, arity: int) -> None:
        self.kind = kind
        self.arity = arity
        self.expanded = 0
        self._table = Table(kind.relation, arity)
        self._locator = RowLocator(self._table.host_rows) if arity else None
        self.heights = np.zeros(0, np.int32)
        self.shallow = np.zeros(0, np.int32)

    def __len__(self) -> int:
        return len(self.heights)

    def number(self, columns: Sequence[np.ndarray], count: int) -> np.ndarray:
        """The numbers of some facts, those that were not known before among them."""
        if self._locator is None:
            self._grow(1 if count else 0)
            return np.zeros(count, np.int64)
        if not count:
            return np.zeros(0, np.int64)
        before = len(self._table)
        self._table.insert(list(columns), count)
        after = len(self._table)
        if after > before:
            self._locator.append(before, after)
            self._grow(after)
        return self._locator.locate(Batch(columns, count), 0, count).astype(np.int64)

    def locate(self, columns: Sequence[np.ndarray], count: int) -> np.ndarray:
        """The numbers of some facts, -1 for those that are not known."""
        if self._locator is None:
            return np.full(count, 0 if len(self) else -1, np.int64)
        if not count or not len(self):
            return np.full(count, -1, np.int64)
        places = self._locator.locate(Batch(columns, count), 0, count)
        return np.where(places == NONE, -1, places.astype(np.int64))

    def _grow(self, count: int) -> None:
        more = count - len(self.heights)
        if more > 0:
            self.heights = np.concatenate([self.heights, np.full(more, UNPROVED, np.int32)])
            self.shallow = np.concatenate([self.shallow, np.full(more, -1, np.int32)])

    def forget_heights(self) -> None:
        self.heights[:] = UNPROVED
        self.shallow[:] = -1

    def columns(self, numbers: np.ndarray) -> list[np.ndarray]:
        return [np.ascontiguousarray(column[numbers]) for column in self._table.columns()]


@dataclass(frozen=True, slots=True)
class Instances:
    """Instances of one rule: which facts they derive, and for each deep atom which facts they rest on."""

    rule: WrittenRule
    heads: np.ndarray
    premises: tuple[tuple[SoughtFacts, np.ndarray], ...]

    def heights(self) -> np.ndarray:
        """How high the facts would be by these instances."""
        highest = np.zeros(len(self.heads), np.int32)
        for sought, numbers in self.premises:
            np.maximum(highest, sought.heights[numbers], out=highest)
        return np.minimum(highest + 1, UNPROVED)


class Search:
    """The facts from which those asked for may follow, as far as they were looked at.

    `stated` are the facts given, by relation. Ask for facts with `add`, then `run`. `kept` has the heights
    that an earlier search over the same facts has computed, and gets those of this one.
    """

    def __init__(
        self,
        rules: WrittenRules,
        questions: Questions,
        stated: Mapping[str, Table],
        kept: list[Rounds] | None = None,
    ) -> None:
        self.rules = rules
        self.questions = questions
        self.stated = stated
        self._kept = [] if kept is None else kept
        self.chains = find_chains(rules)
        self.sought: dict[Kind, SoughtFacts] = {}
        self.layers: list[list[tuple[SoughtFacts, Instances]]] = []
        self._along: dict[str, list[np.ndarray]] = {}
        self._is_gathered: set[str] = set()
        self._relaxed: dict[str, int] = {}
        self._room = _MOST_INSTANCES
        self.is_least = True

    def of(self, kind: Kind) -> SoughtFacts:
        if kind not in self.sought:
            arity = (
                self.rules.program.relations[kind.relation].arity
                if kind.relation in self.rules.program.relations
                else len(self.rules.of(kind.relation)[0].head.args)
            )
            self.sought[kind] = SoughtFacts(kind, arity)
        return self.sought[kind]

    def add(self, relation: str, columns: Sequence[np.ndarray], count: int) -> np.ndarray:
        """Have the proofs of some facts found; their numbers."""
        return self.of(Kind(relation)).number(columns, count)

    def run(self) -> None:
        """Look until the proofs of all facts that were added are as low as can be."""
        goals = [(sought, np.arange(len(sought))) for sought in self.sought.values()]
        try:
            self._run_back(goals)
        except _TooManyInstances:
            self._run_forth(goals)
        for sought, numbers in goals:
            if (sought.heights[numbers] >= UNPROVED).any():
                raise GpuEngineError(
                    f"no proof was found for a fact of {sought.kind.relation} that is materialised\n"
                    "  hint: materialise again; if that does not help, please report it"
                )

    def _run_back(self, goals: Sequence[tuple[SoughtFacts, np.ndarray]]) -> None:
        due = 1
        while True:
            is_done = not self._expand_layer()
            depth = len(self.layers)
            if not is_done and depth < due:
                continue
            due = depth + 1 if depth < _EVERY_LAYER else depth + depth // _EVERY_LAYER
            self._relax()
            if is_done or all((sought.heights[numbers] <= depth).all() for sought, numbers in goals):
                return

    def _run_forth(self, goals: Sequence[tuple[SoughtFacts, np.ndarray]]) -> None:
        """Have the heights of all facts that matter, and choose instances by them, from the goals down.

        Chains along which heights differ are followed rule by rule here: what they prove may be higher then
        than it has to be, and `is_least` is no longer so.
        """
        self.layers.clear()
        self._along.clear()
        for sought in self.sought.values():
            sought.forget_heights()
        paths = {}
        needed = self.rules.needed(sought.kind.relation for sought, _ in goals)
        for name, chain in list(self.chains.items()):
            height = self._same_height(chain)
            if height is not None:
                paths[name] = chain.others, height + 1
            else:
                self.is_least &= name not in needed
                del self.chains[name]
        rounds = self._rounds(needed, paths)
        asked = [(sought.kind.relation, sought.columns(numbers), len(numbers)) for sought, numbers in goals]
        rounds.run(lambda: all((rounds.heights(*one) < UNPROVED).all() for one in asked))
        waves = {sought.kind: numbers for sought, numbers in goals}
        while waves:
            self.layers.append([])
            following: dict[Kind, list[np.ndarray]] = {}
            for kind, numbers in waves.items():
                sought = self.of(kind)
                numbers = np.unique(numbers[sought.heights[numbers] >= UNPROVED])
                sought.heights[numbers] = rounds.heights(kind.relation, sought.columns(numbers), len(numbers))
                for instances in self._chosen_by(rounds, sought, self.settle(sought, numbers)):
                    self.layers[-1].append((sought, instances))
                    for of, premises in instances.premises:
                        following.setdefault(of.kind, []).append(premises)
            waves = {kind: np.concatenate(pieces) for kind, pieces in following.items()}

    def _rounds(self, needed: set[str], paths: Mapping[str, tuple[Sequence[WrittenRule], int]]) -> Rounds:
        """Heights that were computed before, if they serve, and are kept for the next to ask."""
        if not any(one.serve(needed) for one in self._kept) or "?" in needed:
            self._kept[:] = [Rounds(self.rules, self.questions, self.stated, needed, paths)]
        return next(one for one in self._kept if one.serve(needed))

    def _chosen_by(self, rounds: Rounds, sought: SoughtFacts, numbers: np.ndarray) -> Iterator[Instances]:
        """For each fact one instance that rests on less high facts only, the lowest there is."""
        chain = self.chains.get(sought.kind.relation)
        for written in self.rules.of(sought.kind.relation) if chain is None else chain.others:
            if not written.deep or not len(numbers):
                continue
            given = Given(written.head.args, sought.columns(numbers), len(numbers))
            rows = self.questions.ask(written.body, written.key, [given])
            heads = sought.locate(
                self.columns_of(written.head.args, written.key, rows.columns, rows.count), rows.count
            )
            highest = np.zeros(rows.count, np.int32)
            for place in written.deep:
                atom = written.atom(place)
                columns = self.columns_of(atom.args, written.key, rows.columns, rows.count)
                np.maximum(highest, rounds.heights(atom.relation, columns, rows.count), out=highest)
            fits = np.flatnonzero(highest + 1 == sought.heights[heads])
            proved, first = np.unique(heads[fits], return_index=True)
            if not len(proved):
                continue
            chosen = fits[first]
            premises = []
            for place in written.deep:
                atom = written.atom(place)
                columns = self.columns_of(
                    atom.args, written.key, [column[chosen] for column in rows.columns], len(chosen)
                )
                of = self.of(Kind(atom.relation))
                premises.append((of, of.number(columns, len(chosen))))
            yield Instances(written, heads[chosen], tuple(premises))
            numbers = numbers[~np.isin(numbers, proved)]

    # -- back --------------------------------------------------------------------------------------------

    def _expand_layer(self) -> bool:
        """Look one step further back; is there anything that was not looked at yet?"""
        spans = []
        for sought in list(self.sought.values()):
            if sought.expanded < len(sought):
                spans.append((sought, np.arange(sought.expanded, len(sought))))
                sought.expanded = len(sought)
        if not spans:
            return False
        layer: list[tuple[SoughtFacts, Instances]] = []
        self.layers.append(layer)
        for sought, numbers in spans:
            remaining = self.settle(sought, numbers)
            if not len(remaining):
                continue
            chain = self._chain_of(sought)
            own = self.rules.of(sought.kind.relation)
            for written in own if chain is None else chain.others:
                if written.deep and (instances := self._instances(sought, remaining, written)) is not None:
                    layer.append((sought, instances))
            if chain is not None and not sought.kind.is_external:
                self._follow(chain, sought, remaining)
        return True

    def _chain_of(self, sought: SoughtFacts) -> Chain | None:
        return self.chains.get(sought.kind.relation)

    def settle(self, sought: SoughtFacts, numbers: np.ndarray) -> np.ndarray:
        """Find the facts that are stated, or follow from stated ones alone; the numbers of the others."""
        relation = sought.kind.relation
        if relation not in self.rules.derived:
            sought.heights[numbers] = 0
            return numbers[:0]
        columns = sought.columns(numbers)
        table = self.stated.get(relation)
        if table is not None and len(table):
            is_stated = np.asarray(table.contains(columns, len(numbers)), np.bool_)
            sought.heights[numbers[is_stated]] = 0
            numbers = numbers[~is_stated]
        chain = self._chain_of(sought)
        for written in self.rules.of(relation) if chain is None else chain.others:
            if written.deep or not len(numbers):
                continue
            heads = tuple(dict.fromkeys(arg for arg in written.head.args if isinstance(arg, Variable)))
            given = Given(written.head.args, sought.columns(numbers), len(numbers))
            rows = self.questions.ask(written.body, heads, [given])
            columns = self.columns_of(written.head.args, heads, rows.columns, rows.count)
            proved = sought.locate(columns, rows.count)
            sought.heights[proved] = 1
            sought.shallow[proved] = written.number
            numbers = numbers[~np.isin(numbers, proved)]
        return numbers

    def _instances(self, sought: SoughtFacts, numbers: np.ndarray, written: WrittenRule) -> Instances | None:
        given = Given(written.head.args, sought.columns(numbers), len(numbers))
        rows = self.questions.ask(written.body, written.key, [given], most=self._room + 1)
        self._room -= rows.count
        if not rows.is_whole or self._room < 0:
            raise _TooManyInstances
        if not rows.count:
            return None
        heads = sought.locate(
            self.columns_of(written.head.args, written.key, rows.columns, rows.count), rows.count
        )
        premises = []
        for place in written.deep:
            atom = written.atom(place)
            columns = self.columns_of(atom.args, written.key, rows.columns, rows.count)
            of = self.of(Kind(atom.relation))
            premises.append((of, of.number(columns, rows.count)))
        return Instances(written, heads, tuple(premises))

    def columns_of(
        self,
        args: Sequence[AtomArg],
        variables: Sequence[Variable],
        columns: Sequence[np.ndarray],
        count: int,
    ) -> list[np.ndarray]:
        """The columns of an atom's facts, from those of its variables."""
        by_variable = dict(zip(variables, columns, strict=True))
        result = []
        for arg in args:
            if isinstance(arg, Constant):
                result.append(np.full(count, self.questions.dictionary.intern_constant(arg), np.uint32))
            else:
                assert isinstance(arg, Variable)
                result.append(by_variable[arg])
        return result

    # -- along chains --------------------------------------------------------------------------------------

    def _follow(self, chain: Chain, sought: SoughtFacts, numbers: np.ndarray) -> None:
        """Facts of a chain that may follow along it: how high they are then, or what that depends on."""
        height = self._same_height(chain)
        if height is not None:
            sought.heights[numbers] = height + 1
            return
        self._along.setdefault(chain.relation, []).append(numbers)
        self.gather(chain, sought.columns(numbers), len(numbers), Kind(chain.relation, True))

    def _same_height(self, chain: Chain) -> int | None:
        """How high all facts are that the chain leads along, if that is known without looking at them."""
        if any(written.deep for written in chain.others):
            return None
        if any(arc.relation in self.rules.derived for arc in chain.arcs if arc.relation != chain.relation):
            return None
        is_stated = len(self.stated.get(chain.relation, ())) > 0
        if is_stated and chain.others:
            return None
        return 0 if is_stated else 1

    def gather(
        self, chain: Chain, goals: Sequence[np.ndarray], count: int, own: Kind
    ) -> list[tuple[Arc, SoughtFacts, np.ndarray]]:
        """The facts along which the chain may lead to some of its own; those of `own` kind stand for it."""
        if chain.relation in self._is_gathered:
            return [(arc, sought, np.arange(len(sought))) for arc, sought in self._arcs_of(chain, own)]
        if count > _FEW_GOALS:
            self._is_gathered.add(chain.relation)
        between = None if count > _FEW_GOALS else self._between(chain, goals, count)
        result = []
        members: dict[str, tuple[SoughtFacts, np.ndarray]] = {}
        for arc, sought in self._arcs_of(chain, own):
            if arc.relation not in members:
                columns, rows = self._facts_between(chain, arc, between)
                members[arc.relation] = sought, np.unique(sought.number(columns, rows))
            result.append((arc, *members[arc.relation]))
        return result

    def _arcs_of(self, chain: Chain, own: Kind) -> list[tuple[Arc, SoughtFacts]]:
        return [
            (arc, self.of(own if arc.relation == chain.relation else Kind(arc.relation)))
            for arc in chain.arcs
        ]

    def _between(self, chain: Chain, goals: Sequence[np.ndarray], count: int) -> _Between:
        """The values with which facts along the chain can begin and end, by where in it they stand."""
        scheme = self.questions.relations[chain.relation]
        steps = {arc.start for arc in chain.arcs if arc.rule is not None}

        def reached(column: int) -> np.ndarray:
            other = [rows[0] for _, rows in scheme.expand({column: goals[column]}, count)]
            return np.unique(np.concatenate([goals[column], *other]))

        if not steps:
            begins = reached(0)
            return {None: (begins, begins if chain.kind == "chain" else reached(1))}
        between: _Between = {}
        first, last = np.unique(goals[0]), np.unique(goals[1])
        if 0 in steps:
            first = reached(1)
            between[0] = first, first
        if 1 in steps:
            last = reached(0)
            between[1] = last, last
        between[None] = first, last
        return between

    def _facts_between(
        self, chain: Chain, arc: Arc, between: _Between | None
    ) -> tuple[list[np.ndarray], int]:
        """The facts of an arc's relation that begin and end where they can."""
        attributes = self.rules.program.relations[arc.relation].attributes
        first, second = (Variable(f"@{name}", one.type) for name, one in zip("ab", attributes, strict=True))
        pieces = []
        if arc.relation != chain.relation:
            atom = Atom(arc.relation, (first, second), chain.implied[0].head.span)
            given = self._given(arc, (first, second), between)
            pieces.append(self.questions.ask((atom,), (first, second), given).columns)
        else:
            table = self.stated.get(arc.relation)
            if table is not None and len(table):
                columns = table.columns()
                kept = np.ones(len(table), np.bool_)
                limits = self._given(arc, (first, second), between)
                for column, limit in zip(columns, limits, strict=between is not None):
                    kept &= np.isin(column, limit.columns[0])
                pieces.append(tuple(np.ascontiguousarray(column[kept]) for column in columns))
            for written in chain.others:
                args = written.head.args
                variables = tuple(dict.fromkeys(arg for arg in args if isinstance(arg, Variable)))
                rows = self.questions.ask(
                    written.body, variables, self._given(arc, (args[0], args[1]), between)
                )
                pieces.append(tuple(self.columns_of(args, variables, rows.columns, rows.count)))
        if not pieces:
            return [np.zeros(0, np.uint32), np.zeros(0, np.uint32)], 0
        joined = [np.concatenate(parts) for parts in zip(*pieces, strict=True)]
        return joined, len(joined[0])

    @staticmethod
    def _given(arc: Arc, args: tuple[AtomArg, AtomArg], between: _Between | None) -> list[Given]:
        """What the two arguments of an arc's facts can be."""
        if between is None:
            return []
        begins, ends = between[None if arc.rule is None else arc.start]
        if arc.is_reversed:
            begins, ends = ends, begins
        return [Given((arg,), [ids], len(ids)) for arg, ids in zip(args, (begins, ends), strict=True)]

    def arcs(self, gathered: Sequence[tuple[Arc, SoughtFacts, np.ndarray]]) -> Arcs:
        """Facts along a chain as arcs; a label is the number of the arc's fact, and above it of the arc."""
        starts, ends, heights, labels = [], [], [], []
        for label, (arc, sought, numbers) in enumerate(gathered):
            numbers = numbers[sought.heights[numbers] < UNPROVED]
            first, second = sought.columns(numbers)
            if arc.is_reversed:
                first, second = second, first
            starts.append(place_of(arc.start, first))
            ends.append(place_of(arc.end, second))
            heights.append(sought.heights[numbers])
            labels.append((np.int64(label) << np.int64(_PLACE_BITS)) | numbers)
        return Arcs(*(np.concatenate(parts) for parts in (starts, ends, heights, labels)))

    @staticmethod
    def label(label: int) -> tuple[int, int]:
        """The number of the arc and of its fact."""
        return label >> _PLACE_BITS, label & ((1 << _PLACE_BITS) - 1)

    # -- forth -------------------------------------------------------------------------------------------

    def _relax(self) -> None:
        """Lower heights until no instance, and no walk along a chain, makes them lower."""
        is_changed = True
        while is_changed:
            is_changed = False
            for layer in reversed(self.layers):
                for sought, instances in layer:
                    heights = instances.heights()
                    lower = heights < sought.heights[instances.heads]
                    if lower.any():
                        np.minimum.at(sought.heights, instances.heads[lower], heights[lower])
                        is_changed = True
            for relation in self._along:
                is_changed |= self._relax_along(self.chains[relation])

    def _relax_along(self, chain: Chain) -> bool:
        own = Kind(chain.relation, True)
        gathered = [(arc, sought, np.arange(len(sought))) for arc, sought in self._arcs_of(chain, own)]
        state = hash(tuple(sought.heights.tobytes() for _, sought, _ in gathered))
        if self._relaxed.get(chain.relation) == state:
            return False
        self._relaxed[chain.relation] = state
        sought = self.of(Kind(chain.relation))
        goals = np.concatenate(self._along[chain.relation])
        arcs = self.arcs(gathered)
        is_changed = False
        for height in np.unique(arcs.heights).tolist():
            goals = goals[sought.heights[goals] > height + 1]
            if not len(goals):
                break
            first, second = sought.columns(goals)
            walks = find_walks(arcs.up_to(height), place_of(0, first), place_of(1, second))
            reached = goals[[walk is not None for walk in walks]]
            if len(reached):
                sought.heights[reached] = height + 1
                is_changed = True
        return is_changed
