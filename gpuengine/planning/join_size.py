"""How large the join of some atoms is, and what it costs: the textbook estimator, wary of cycles.

The size of a join is the product of the sizes of its atoms, divided for each variable that several of
them mention by all its numbers of distinct values but the smallest (Garcia-Molina, Ullman, Widom: Database
Systems, 16.4). That is for values which are all as frequent, and have nothing to do with each other. Two
corrections, without which a join around a whole cycle looks cheaper than its two halves:

- A value that is frequent in one column mostly is so in another. With the *skew* of a column, how many times
  as many facts a fact shares its value with as if all were as frequent, two columns have at most
  √(skew · skew) times as many pairs (Cauchy and Schwarz), a column with itself exactly as many. We expect
  the most, and of the pairs the product of the skews.
- Where an atom closes a cycle, of the variables that it shares with atoms that are connected already the
  most selective counts, and of the others the square root.

Sets of atoms and of variables are bit masks here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from gpuengine.language.program import (
    Aggregate,
    Atom,
    Comparison,
    Constant,
    Functor,
    Literal,
    Pack,
    Rule,
    Variable,
)
from gpuengine.planning.order import EXHAUSTIVE_ATOMS, Statistics


def bits(mask: int) -> list[int]:
    """The single bits of a set, lowest first."""
    singles = []
    while mask:
        low = mask & -mask
        singles.append(low)
        mask ^= low
    return singles


@dataclass(frozen=True, slots=True)
class _Values:
    """How many values a variable can take, and how skewed they are."""

    count: float
    skew: float

    def narrowed(self, other: _Values) -> _Values:
        """Those that are in both."""
        return _Values(min(self.count, other.count), self.skew * other.skew)

    def selectivity(self, other: _Values) -> float:
        """By how much an equation of the two divides."""
        return max(max(self.count, other.count) / (self.skew * other.skew) ** 0.5, 1.0)


class JoinSizes:
    """Estimates for the subsets of `atoms`, the i-th of which is ``1 << i``; each is made once.

    `vertices` has the bit of every variable. Everything is taken from the statistics at construction.
    """

    def __init__(
        self, atoms: Sequence[Atom], vertices: Mapping[Variable, int], statistics: Statistics
    ) -> None:
        self._joins = {
            1 << i: _estimate(atom, vertices, statistics) for i, atom in enumerate(atoms)
        }  # size, and the values of each variable
        self._components: dict[int, tuple[int, ...]] = {
            bit: (sum(values),) for bit, (_, values) in self._joins.items()
        }
        self._sizes: dict[int, float] = {}
        self._costs: dict[int, float] = {}

    def size(self, atoms: int) -> float:
        """Expected bindings of all variables of a join: at least one, unless some relation is empty."""
        bindings = self._sizes.get(atoms)
        if bindings is None:
            size = self._join(atoms)[0]
            bindings = self._sizes[atoms] = max(size, 1.0) if size else 0.0
        return bindings

    def projected(self, atoms: int, variables: int) -> float:
        """Expected bindings of those of its variables that are in `variables`."""
        values = self._join(atoms)[1]
        return min(self.size(atoms), prod(one.count for bit, one in values.items() if bit & variables))

    def cost(self, atoms: int) -> float:
        """The bindings, intermediate and final, of the cheapest left-deep order.

        By dynamic programming over the subsets, O(2^n n), up to `EXHAUSTIVE_ATOMS`; beyond, the atoms that
        leave the smallest join are taken away last to first.
        """
        bindings = self._costs.get(atoms)
        if bindings is None:
            bindings = self.size(atoms)
            if atoms & (atoms - 1):
                rests = [atoms ^ last for last in bits(atoms)]
                if len(rests) > EXHAUSTIVE_ATOMS:
                    rests = [min(rests, key=self.size)]
                bindings += min(self.cost(rest) for rest in rests)
            self._costs[atoms] = bindings
        return bindings

    def _join(self, atoms: int) -> tuple[float, Mapping[int, _Values]]:
        """The size, which may be below one, and how many values each variable can take.

        Dividing by the larger of two numbers of values, and keeping the smaller one, for one atom after the
        other divides by all of them but the smallest.
        """
        joined = self._joins.get(atoms)
        if joined is None:
            low = atoms & -atoms
            size, values = self._join(atoms ^ low)
            more, other = self._joins[low]
            size, values = size * more, dict(values)
            for component in self._connected(atoms ^ low):
                shared = [values[bit].selectivity(other[bit]) for bit in other if bit & component]
                shared.sort(reverse=True)
                size /= prod(shared[:1]) * prod(shared[1:]) ** 0.5
            for bit, one in other.items():
                values[bit] = one.narrowed(values[bit]) if bit in values else one
            joined = self._joins[atoms] = (size, values)
        return joined

    def _connected(self, atoms: int) -> tuple[int, ...]:
        """The variables of each connected component of some atoms."""
        components = self._components.get(atoms)
        if components is None:
            low = atoms & -atoms
            merged = self._components[low][0]
            apart = []
            for component in self._connected(atoms ^ low):
                if component & merged:
                    merged |= component
                else:
                    apart.append(component)
            components = self._components[atoms] = (*apart, merged)
        return components


class _NoSkew:
    """Statistics as if all values were as frequent."""

    def __init__(self, statistics: Statistics) -> None:
        self.count = statistics.count
        self.distinct = statistics.distinct

    def skew(self, relation: str, column: int) -> float:
        return 1.0


def join_cost(rule: Rule, statistics: Statistics) -> float:
    """What it costs to join all atoms of a body, for the facts that the head has; see `JoinSizes.cost`.

    A pipeline goes on with other facts once it has found one. If a fact is expected to be found many times,
    however frequent its values are, it so costs less. That is not so where a body computes.
    """
    atoms = [part for part in rule.body if isinstance(part, Atom)]
    variables = dict.fromkeys(arg for atom in atoms for arg in atom.args if isinstance(arg, Variable))
    vertices = {variable: 1 << i for i, variable in enumerate(variables)}
    everything = (1 << len(atoms)) - 1
    cost = JoinSizes(atoms, vertices, statistics).cost(everything)
    if any(_computes(part) for part in rule.body):
        return cost
    plain = JoinSizes(atoms, vertices, _NoSkew(statistics))
    wanted = {arg for arg in rule.head.args if isinstance(arg, Variable) and arg in vertices}
    facts = plain.projected(everything, sum(vertices[variable] for variable in wanted))
    covers = [1 << i for i, atom in enumerate(atoms) if wanted <= {*atom.args}]
    facts = min([facts, *(plain.size(atom) for atom in covers)])
    return min(cost, facts + cost * facts / max(plain.size(everything), facts, 1.0))


def _computes(literal: Literal) -> bool:
    if isinstance(literal, Comparison):
        return any(isinstance(side, Functor | Pack) for side in (literal.left, literal.right))
    return isinstance(literal, Aggregate)


def _estimate(
    atom: Atom, vertices: Mapping[Variable, int], statistics: Statistics
) -> tuple[float, Mapping[int, _Values]]:
    """The bindings that one atom has, and how many values each of its variables takes in them."""
    count = statistics.count(atom.relation)
    columns: dict[int, list[_Values]] = {}
    size = count
    for column, arg in enumerate(atom.args):
        distinct = max(statistics.distinct(atom.relation, column), 1.0)
        if isinstance(arg, Constant):
            size /= distinct
        elif isinstance(arg, Variable):
            skew = max(statistics.skew(atom.relation, column), 1.0)
            columns.setdefault(vertices[arg], []).append(_Values(distinct, skew))
    for choices in columns.values():
        choices.sort(key=lambda values: values.count)
        size /= prod(values.count for values in choices[1:])
    if count > 0.0:
        size = max(size, 1.0)
    values = {bit: replace(one[0], count=min(one[0].count, max(size, 1.0))) for bit, one in columns.items()}
    # Wildcards leave fewer bindings than facts. With no atom above the product of its values, no join is.
    return min(size, prod(one.count for one in values.values())), values
