"""What rules derive from a materialisation, at once or relative to a delta (Definitions 1 and 3).

An instance of a rule has, for each literal, a maximal interval in which it holds. Relative to a delta only
instances count in which some literal holds in an interval that the old facts do not entail. These are found
by the first such literal: it reads NEW intervals, those before it OLD ones, those after it ALL. A literal is
NEW
only where one of its atoms is in the delta, so that atom drives the join.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise

import numpy as np

from gpuengine.kernels.timeline import INFINITY, MINUS_INFINITY, NO_ROW, Choice, Reader, Runs, Shift, Timeline
from gpuengine.limits import room
from gpuengine.temporal.compiled import Always, Chained, CompiledLiteral, CompiledRule, Leaf, Shifted, Tree
from gpuengine.temporal.encoding import Encoding
from gpuengine.temporal.joins import is_plain, matches
from gpuengine.temporal.relations import TIMELINE, TemporalRelation
from gpuengine.temporal.spelling import number_of
from gpuengine.temporal.syntax import Comparison, Constant, Relational, Term, Variable
from gpuengine.terms.dictionary import Dictionary
from gpuengine.terms.text import single

Derived = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Numbers of head atoms, and the ends of intervals."""
_ALWAYS = Runs(
    np.zeros(1, np.int64),
    np.ones(1, np.int64),
    np.array([MINUS_INFINITY], np.int64),
    np.array([INFINITY], np.int64),
    np.zeros(1, np.uint8),
)
_INTERVALS_AT_ONCE = 1 << 20
_FEWEST_AT_ONCE = 1 << 14
"""Matches are taken in pieces whose atoms have about so many intervals, fewer where memory is short."""
_WORK_BYTES = 128
"""About what an interval takes while it is met with others, and what follows is made of it."""
_FEW = 256
"""So many atoms are looked at first to see whether anything holds at all."""


@dataclass
class World:
    """What rules read: relations, terms, the unit of time, and the horizon (encoded) facts are cut to."""

    relations: dict[str, TemporalRelation]
    dictionary: Dictionary
    encoding: Encoding
    horizon: tuple[int, int] = (MINUS_INFINITY, INFINITY)
    instances: int = 0
    timeline: Timeline = TIMELINE
    _ranks: np.ndarray | None = field(default=None, repr=False)

    def use_encoding(self, encoding: Encoding) -> None:
        """Have times in another unit; those of the relations are whoever's asks."""
        low, high = (np.array([end], np.int64) for end in self.horizon)
        low, high = encoding.rescaled(low, high, self.encoding)
        self.horizon = int(low[0]), int(high[0])
        self.encoding = encoding

    def find_constant(self, text: str) -> int | None:
        ids, is_interned = self.dictionary.find_text(single(text))
        return int(ids[0]) if is_interned[0] else None

    def ranks(self) -> np.ndarray:
        """For each term its place among the numbers, equal ones alike; -1 for what is no number."""
        bound = self.dictionary.bound("symbol")
        if self._ranks is None or len(self._ranks) != bound:
            texts = self.dictionary.strings(np.arange(bound, dtype=np.uint32)).to_pylist()
            numbers: list[Fraction | None] = [number_of(text) for text in texts]
            order = {value: rank for rank, value in enumerate(sorted({n for n in numbers if n is not None}))}
            self._ranks = np.array([-1 if n is None else order[n] for n in numbers], np.int64)
        return self._ranks


def derive(compiled: CompiledRule, world: World) -> Iterator[Derived]:
    """r[D]: what the rule derives from everything."""
    if not all(len(world.relations[atom.predicate]) for atom in compiled.atoms):
        return
    for batch in _everything(compiled, world):
        yield from _head(compiled, world, batch)


def _everything(compiled: CompiledRule, world: World, at_first: int | None = None) -> Iterator[_Batch]:
    """All matches of a body, with when it holds for each; driven by the atom of the smallest relation.

    With `at_first` so many atoms drive the first batch, and more and more the next ones.
    """
    for driver, rows, columns in _all_matches(compiled, world, at_first):
        if columns:
            columns[driver] = rows[columns[driver]]
        for piece in _pieces(compiled, world, columns):
            batch = _Batch(compiled, world, [column[piece] for column in columns])
            for literal in compiled.literals:
                batch.meet(batch.reader(literal, Choice.ALL))
            if not compiled.literals:
                batch.meet(Reader(_ALWAYS, np.zeros(batch.count, np.uint32)))
            batch.exclude_negated()
            yield batch


def _pieces(compiled: CompiledRule, world: World, columns: Sequence[np.ndarray]) -> Iterator[slice]:
    """Stretches of matches, in order: all of them, or as many at a time as fit memory."""
    if not columns:
        yield slice(None)
        return
    intervals = np.zeros(len(columns[0]), np.int64)
    for atom, column in zip(compiled.atoms, columns, strict=True):
        intervals += world.relations[atom.predicate].runs.counts[column]
    total = int(intervals.sum())
    if total <= _FEWEST_AT_ONCE:
        yield slice(None)
        return
    memory = room()
    most = _INTERVALS_AT_ONCE if memory is None else min(_INTERVALS_AT_ONCE, memory // _WORK_BYTES)
    most = max(most, _FEWEST_AT_ONCE)
    targets = np.arange(most, total, most)
    cuts = np.searchsorted(np.cumsum(intervals), targets, "right")
    for begin, end in pairwise(np.unique([0, *cuts.tolist(), len(intervals)]).tolist()):
        yield slice(begin, end)


def _all_matches(
    compiled: CompiledRule, world: World, at_first: int | None
) -> Iterator[tuple[int, np.ndarray, list[np.ndarray]]]:
    """The atom that drives, its rows, and matches as `matches` gives them."""
    if not compiled.atoms:
        yield 0, np.zeros(0, np.uint32), []
        return
    sizes = [world.relations[atom.predicate].atoms for atom in compiled.atoms]
    driver = sizes.index(min(sizes))
    relation = world.relations[compiled.atoms[driver].predicate]
    every = np.flatnonzero(relation.runs.counts[: relation.pool.rows]).astype(np.uint32)
    begin, size = 0, at_first or len(every)
    while begin < len(every):
        rows = every[begin : begin + size]
        for columns in matches(compiled.atoms, world.relations, driver, rows, world.find_constant):
            yield driver, rows, columns
        begin, size = begin + size, 8 * size


def derive_new(compiled: CompiledRule, world: World) -> Iterator[Derived]:
    """r[D ⋮ Δ]: what the rule derives from instances that need the delta."""
    relations = [world.relations[atom.predicate] for atom in compiled.atoms]
    if not all(len(relation) for relation in relations):
        return
    for position, literal in enumerate(compiled.literals):
        earlier = compiled.literals[:position]
        if any(relations[k].is_all_new for before in earlier for k in before.atoms):
            return  # what comes before has no old interval
        for place, driver in enumerate(literal.atoms):
            if len(relations[driver].delta):
                yield from _derive_from(compiled, world, position, place)


def _derive_from(compiled: CompiledRule, world: World, position: int, place: int) -> Iterator[Derived]:
    """The instances whose first NEW literal is at `position`, and its first atom in the delta at `place`."""
    literal = compiled.literals[position]
    driver = literal.atoms[place]
    relations = [world.relations[atom.predicate] for atom in compiled.atoms]
    rows = relations[driver].delta
    marked: Runs | None = None
    kept = _numbers(0)
    if len(literal.atoms) == 1 and not isinstance(literal.tree, Leaf):
        # When the literal holds is found before the join, and only where it is new something is joined.
        marked = _marked(
            literal, world, [rows if k == driver else rows[:0] for k in range(len(relations))], relations
        )
        kept = np.flatnonzero(world.timeline.with_new(marked)).astype(np.uint32)
        rows = rows[kept]
    for columns in matches(compiled.atoms, world.relations, driver, rows, world.find_constant):
        places = columns[driver]
        columns[driver] = rows[places]
        for piece in _pieces(compiled, world, columns):
            batch = _Batch(compiled, world, [column[piece] for column in columns], places[piece])
            if marked is not None:
                batch.meet(Reader(marked, kept[batch.places], Choice.NEW))
            else:
                for other in literal.atoms[:place]:
                    batch.keep(~relations[other].in_delta(batch.columns[other]))
                batch.meet(batch.reader(literal, Choice.NEW))
            for number, other_literal in enumerate(compiled.literals):
                if number != position:
                    batch.meet(batch.reader(other_literal, Choice.OLD if number < position else Choice.ALL))
            batch.exclude_negated()
            yield from _head(compiled, world, batch)


class _Batch:
    """Matches of a rule's atoms, and when all literals met so far hold: a row for each match.

    `places` are where the atoms that drive the join are among those that drive it.
    """

    def __init__(
        self,
        compiled: CompiledRule,
        world: World,
        columns: list[np.ndarray],
        places: np.ndarray | None = None,
    ) -> None:
        self._compiled = compiled
        self._world = world
        self.columns = columns
        self.places = places if places is not None else np.zeros(0, np.uint32)
        self.count = len(columns[0]) if columns else 1
        self.holding: Reader | None = None
        for comparison in compiled.comparisons:
            self.keep(self._compare(comparison))

    def keep(self, mask: np.ndarray) -> None:
        """Go on with some of the matches."""
        if mask.all():
            return
        self.columns = [column[mask] for column in self.columns]
        if len(self.places):
            self.places = self.places[mask]
        self.count = int(np.count_nonzero(mask))
        if self.holding is not None:
            self.holding = Reader(self.holding.runs, self.holding.rows[mask], self.holding.choice)

    def meet(self, reader: Reader) -> None:
        """Intersect with a literal; matches that hold at no time are dropped."""
        if self.holding is None:
            self.holding = reader
            return
        timeline = self._world.timeline
        runs = timeline.intersect(self.holding, reader)
        self.holding = Reader(runs, _numbers(self.count))
        self.keep(timeline.holding(runs))

    def reader(self, literal: CompiledLiteral, choice: Choice) -> Reader:
        """When a literal holds, for each match."""
        relations = [self._world.relations[atom.predicate] for atom in self._compiled.atoms]
        tree = literal.tree
        if isinstance(tree, Leaf):
            return Reader(relations[tree.atom].runs, self.columns[tree.atom], choice)
        if isinstance(tree, Always):
            return Reader(_ALWAYS, np.zeros(self.count, np.uint32))
        columns: Sequence[np.ndarray] = self.columns
        rows = _numbers(self.count)
        if len(literal.atoms) == 1 and self.count > relations[literal.atoms[0]].atoms:
            # Fewer atoms than matches: once for each atom.
            atom = literal.atoms[0]
            rows = self.columns[atom]
            columns = [_numbers(relations[atom].atoms) if k == atom else rows for k in range(len(relations))]
        has_delta = any(len(relations[atom].delta) for atom in literal.atoms)
        if choice is Choice.ALL or (choice is Choice.OLD and not has_delta):
            return Reader(_evaluate(tree, self._world, relations, columns, Choice.ALL), rows)
        return Reader(_marked(literal, self._world, columns, relations), rows, choice)

    def terms(self, terms: Sequence[Term]) -> list[np.ndarray]:
        """A column of ids for each term."""
        return [self._term(term) for term in terms]

    def _term(self, term: Term) -> np.ndarray:
        if isinstance(term, Constant):
            number = self._world.dictionary.encode_text(single(term.text))
            return np.full(self.count, number[0], np.uint32)
        for atom, column in zip(self._compiled.atoms, self.columns, strict=True):
            if term in atom.terms:
                relation = self._world.relations[atom.predicate]
                return relation.column(atom.terms.index(term), column)
        raise AssertionError(f"{term} is bound by no atom")

    def _compare(self, comparison: Comparison) -> np.ndarray:
        left, right = self._term(comparison.left), self._term(comparison.right)
        if comparison.operator in ("=", "!="):
            equal = left == right
            return equal if comparison.operator == "=" else ~equal
        ranks = self._world.ranks()
        a, b = ranks[left], ranks[right]
        ordered = {
            "<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b,
        }[comparison.operator]  # fmt: skip
        return ordered & (a >= 0) & (b >= 0)

    def exclude_negated(self) -> None:
        """Only when no negated metric atom holds."""
        for tree in self._compiled.negated:
            self._exclude(tree, self._compiled.looked_up)

    def _exclude(self, tree: Tree, looked_up: Sequence[Relational]) -> None:
        relations = [self._world.relations[atom.predicate] for atom in looked_up]
        columns = []
        for atom, relation in zip(looked_up, relations, strict=True):
            numbers, is_interned = relation.find(self.terms(atom.terms), self.count)
            columns.append(np.where(is_interned, numbers, np.uint32(NO_ROW)).astype(np.uint32))
        if isinstance(tree, Leaf):
            reader = Reader(relations[tree.atom].runs, columns[tree.atom])
        elif isinstance(tree, Always):
            reader = Reader(_ALWAYS, np.zeros(self.count, np.uint32))
        else:
            reader = Reader(
                _evaluate(tree, self._world, relations, columns, Choice.ALL), _numbers(self.count)
            )
        self.meet(Reader(self._world.timeline.complement(reader), _numbers(self.count)))


def _head(compiled: CompiledRule, world: World, batch: _Batch) -> Iterator[Derived]:
    """What the head says of the matches."""
    assert batch.holding is not None
    world.instances += batch.count
    if not batch.count or not isinstance(compiled.head, Relational):
        return
    holding = batch.holding
    for shift, range in compiled.head_shifts:
        runs = world.timeline.shift(holding, shift, *world.encoding.range(range))
        holding = Reader(runs, _numbers(batch.count))
    head = world.relations[compiled.head.predicate]
    numbers = head.intern(batch.terms(compiled.head.terms), batch.count)
    derived = world.timeline.emit(holding, numbers, head.runs, *world.horizon)
    if len(derived[0]):
        yield derived


def answers(
    compiled: CompiledRule, world: World, at_first: int | None = None
) -> Iterator[tuple[_Batch, Runs]]:
    """The matches of a body that hold at some time, and these times, a row for each.

    `at_first` is for those who may not want all: see `_everything`.
    """
    if not all(len(world.relations[atom.predicate]) for atom in compiled.atoms):
        return
    for batch in _everything(compiled, world, at_first):
        batch.meet(Reader(_ALWAYS, np.zeros(batch.count, np.uint32)))
        assert batch.holding is not None
        if batch.count:
            everything = Reader(_ALWAYS, np.zeros(batch.count, np.uint32))
            yield batch, world.timeline.fetched(world.timeline.intersect(batch.holding, everything))


def holds_anywhere(literal: CompiledLiteral, compiled: CompiledRule, world: World) -> bool:
    """Does some match of a literal hold at some time? Diamonds hold wherever what they are of does."""
    tree = literal.tree
    while isinstance(tree, Shifted) and tree.shift in (Shift.DIAMOND_MINUS, Shift.DIAMOND_PLUS):
        tree = tree.operand
    atoms = [compiled.atoms[k] for k in literal.atoms]
    if not all(len(world.relations[atom.predicate]) for atom in atoms):
        return False
    if isinstance(tree, Leaf) and is_plain(atoms[0]):
        return True
    return next(answers(_alone(literal, compiled), world, _FEW), None) is not None


def ends_of(literal: CompiledLiteral, compiled: CompiledRule, world: World) -> tuple[int, int]:
    """The first and the last encoded time at which a literal that holds somewhere holds for any match."""
    least, most = INFINITY + 1, MINUS_INFINITY - 1
    for _, runs in answers(_alone(literal, compiled), world):
        least, most = min(least, int(runs.lower.min())), max(most, int(runs.upper.max()))
    return least, most


def _alone(literal: CompiledLiteral, compiled: CompiledRule) -> CompiledRule:
    """A rule with nothing but the literal in its body."""
    atoms = tuple(compiled.atoms[k] for k in literal.atoms)
    return CompiledRule(compiled.rule, 0, atoms, (_renumbered(literal),), (), (), (), compiled.head)


def _renumbered(literal: CompiledLiteral) -> CompiledLiteral:
    first = literal.atoms[0] if literal.atoms else 0

    def moved(tree: Tree) -> Tree:
        if isinstance(tree, Leaf):
            return Leaf(tree.atom - first)
        if isinstance(tree, Shifted):
            return Shifted(tree.shift, tree.range, moved(tree.operand))
        if isinstance(tree, Chained):
            return Chained(tree.chain, tree.range, moved(tree.left), moved(tree.right))
        return tree

    return CompiledLiteral(moved(literal.tree), tuple(k - first for k in literal.atoms), literal.metric)


def _marked(
    literal: CompiledLiteral,
    world: World,
    columns: Sequence[np.ndarray],
    relations: Sequence[TemporalRelation],
) -> Runs:
    """When a literal holds, a row for each entry, with what the old facts do not entail flagged."""
    runs = _evaluate(literal.tree, world, relations, columns, Choice.ALL)
    if any(relations[atom].is_all_new for atom in literal.atoms):
        world.timeline.mark_all(runs)
        return runs
    world.timeline.mark_new(runs, _evaluate(literal.tree, world, relations, columns, Choice.OLD))
    return runs


def _evaluate(
    tree: Tree,
    world: World,
    relations: Sequence[TemporalRelation],
    columns: Sequence[np.ndarray],
    choice: Choice,
) -> Runs:
    """The intervals of a tree that is more than a leaf, a row for each entry of the columns."""
    assert isinstance(tree, Shifted | Chained)
    p, q = world.encoding.range(tree.range)

    def operand(inner: Tree) -> Reader:
        if isinstance(inner, Leaf):
            return Reader(relations[inner.atom].runs, columns[inner.atom], choice)
        count = _width(tree, columns)
        if isinstance(inner, Always):
            return Reader(_ALWAYS, np.zeros(count, np.uint32))
        runs = _evaluate(inner, world, relations, columns, choice)
        return Reader(runs, _numbers(len(runs)))

    if isinstance(tree, Shifted):
        return world.timeline.shift(operand(tree.operand), tree.shift, p, q)
    return world.timeline.chain(operand(tree.left), operand(tree.right), tree.chain, p, q)


def _width(tree: Tree, columns: Sequence[np.ndarray]) -> int:
    """How many entries the columns of a tree's atoms have."""
    if isinstance(tree, Leaf):
        return len(columns[tree.atom])
    if isinstance(tree, Shifted):
        return _width(tree.operand, columns)
    if isinstance(tree, Chained):
        width = _width(tree.left, columns) if not isinstance(tree.left, Always) else -1
        return width if width >= 0 else _width(tree.right, columns)
    return -1


_arange = np.arange(1 << 12, dtype=np.uint32)


def _numbers(count: int) -> np.ndarray:
    """0, 1, ... as row numbers; a view of an array that is kept."""
    global _arange
    kept = _arange
    if count > len(kept):
        kept = _arange = np.arange(max(count, 2 * len(kept)), dtype=np.uint32)
    return kept[:count]


def substitutions(batch: _Batch, variables: Sequence[Variable]) -> list[np.ndarray]:
    """The ids of variables, for each match."""
    return batch.terms(variables)


def collect(
    result: TemporalRelation,
    batch: _Batch,
    variables: Sequence[Variable],
    runs: Runs,
    within: tuple[int, int] = (MINUS_INFINITY, INFINITY),
) -> None:
    """Put the answers of a batch that lie `within` these encoded ends into a relation of the variables."""
    atoms = np.repeat(result.intern(substitutions(batch, variables), batch.count), runs.counts)
    lower, upper = np.maximum(runs.lower, within[0]), np.minimum(runs.upper, within[1])
    inside = lower <= upper
    result.merge(atoms[inside], lower[inside], upper[inside])
