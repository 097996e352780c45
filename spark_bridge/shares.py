"""How a recursion is evaluated by tasks that hold a share of its facts each: its rules, over *copies*.

A relation that is shared out is kept in copies. Each has all of its facts: shared out by the value in a
column, or by the whole row, or held whole by every task. In a body all atoms that read copies shared out by a
column have one variable there, so each task finds the instances that its values of the variable have, and no
others. Where no variable stands in all atoms, some are joined first, into a relation that is shared out too::

    sg(x, y) :- parent(x, p), sg(p, q), parent(y, q).       if parent is shared out, too:

    sg.1(x, q) :- parent by 2(x, p), sg by 1(p, q).         p says which task
    sg(x, y)   :- sg.1 by 2(x, q), parent by 2(y, q).       q says which task
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from gpuengine.errors import Span
from gpuengine.language.program import (
    Atom,
    Attribute,
    Literal,
    Relation,
    Rule,
    Variable,
    literal_variables,
)
from gpuengine.planning.plan import body_relations

BY_ROW, EVERYWHERE = -1, -2
"""In place of a column: shared out by the whole row, or held whole by every task."""

_NOWHERE = Span("", 0, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class Copy:
    """The facts of a relation, shared out by the values in a `column`, `BY_ROW`, or held `EVERYWHERE`."""

    relation: str
    column: int

    @property
    def name(self) -> str:
        """Its name as a relation; none of a program is called so."""
        if self.column == EVERYWHERE:
            return f"{self.relation} everywhere"
        return f"{self.relation} by {'row' if self.column == BY_ROW else self.column + 1}"


def derived(relation: str) -> str:
    """The name of the relation of what a task derives for all."""
    return f"{relation} derived"


@dataclass(frozen=True)
class Shares:
    """`rules` read copies and derive what is to be shared out; `relations` are all that they mention.

    `copies` are those of each relation that is shared out, the one first from which all its facts are read.
    `growing` are the relations that rules derive: those of the recursion, and those that were added.
    """

    rules: tuple[Rule, ...]
    relations: Mapping[str, Relation]
    copies: Mapping[str, tuple[Copy, ...]]
    growing: tuple[str, ...]
    sent: tuple[str, ...]


def share_out(
    rules: Sequence[Rule], relations: Mapping[str, Relation], members: Sequence[str], shared: Collection[str]
) -> Shares:
    """The rules of a recursion over copies.

    `members` are its relations, `shared` others that are shared out as well; they stand in atoms only. All
    others that the rules read are to be sent to every task.
    """
    return _Sharing(relations, members, shared).run(rules)


def choose_shared(rules: Sequence[Rule], lower: Mapping[str, float], most: float) -> list[str] | None:
    """Which of the `lower` relations to share out, by their sizes, so that at most `most` facts are sent.

    What is negated or aggregated has to be sent; None if that is too much.
    """
    inside = {
        name
        for rule in rules
        for part in rule.body
        if not isinstance(part, Atom)
        for name in body_relations([part])
    }
    left = most - sum(lower[name] for name in inside)
    if left < 0:
        return None
    shared = []
    for name in sorted(lower.keys() - inside, key=lambda name: (lower[name], name)):
        left -= lower[name]
        if left < 0:
            shared.append(name)
    return shared


class _Sharing:
    def __init__(
        self, relations: Mapping[str, Relation], members: Sequence[str], shared: Collection[str]
    ) -> None:
        self.relations = dict(relations)
        self.growing = list(members)
        self.shared = {*members, *shared}
        self.copies: dict[str, dict[int, Copy]] = {name: {} for name in (*members, *shared)}
        self.local: list[tuple[Rule, dict[int, int] | None]] = []

    def run(self, rules: Sequence[Rule]) -> Shares:
        waiting = list(rules)
        while waiting:
            waiting += self._take(self._with_lone_atoms(waiting.pop(0)))
        # Who may read any copy comes last: it takes one that others need.
        made = [self._over_copies(rule, places) for rule, places in self.local if places is not None]
        made += [self._over_any(rule) for rule, places in self.local if places is None]
        for name in self.growing:
            if not self.copies[name]:
                self._copy(name, BY_ROW)
        copies = {
            name: tuple(sorted(each.values(), key=lambda copy: copy.column == EVERYWHERE))
            for name, each in self.copies.items()
            if each
        }
        result = tuple(replace(rule, head=self._derived(rule.head)) for rule in made)
        read = {name for rule in rules for name in body_relations(rule.body)} - self.shared
        mentioned = {copy.name: copy.relation for each in copies.values() for copy in each}
        mentioned |= {derived(name): name for name in copies}
        declared = {
            local: replace(self.relations[name], name=local, qualifiers=frozenset())
            for local, name in mentioned.items()
        }
        declared |= {name: self.relations[name] for name in sorted(read)}
        return Shares(result, declared, copies, tuple(self.growing), tuple(sorted(read)))

    def _take(self, rule: Rule) -> list[Rule]:
        """Note a rule if it can be evaluated as it is, else give rules that do the same."""
        at = self._shared_atoms(rule.body)
        if len(at) <= 1:
            self.local.append((rule, None))
            return []
        places = self._one_place(rule.body, at)
        if places is not None:
            for position, place in places.items():
                self._copy(_atom(rule.body[position]).relation, place)
            self.local.append((rule, places))
            return []
        return self._joined_first(rule, at)

    def _shared_atoms(self, body: Sequence[Literal]) -> list[int]:
        return [j for j, part in enumerate(body) if isinstance(part, Atom) and part.relation in self.shared]

    def _with_lone_atoms(self, rule: Rule) -> Rule:
        """Atoms without a variable have nothing to share out by: every task has all their facts."""
        body = tuple(
            self._everywhere(part)
            if isinstance(part, Atom) and part.relation in self.shared and not literal_variables(part)
            else part
            for part in rule.body
        )
        return replace(rule, body=body)

    def _everywhere(self, atom: Atom) -> Atom:
        return replace(atom, relation=self._copy(atom.relation, EVERYWHERE).name)

    def _copy(self, relation: str, column: int) -> Copy:
        return self.copies[relation].setdefault(column, Copy(relation, column))

    def _one_place(self, body: Sequence[Literal], at: Sequence[int]) -> dict[int, int] | None:
        """For atoms with a variable in common, the columns where; those that need the fewest new copies."""
        common = set.intersection(*(set(literal_variables(body[position])) for position in at))
        choices = [
            {position: _atom(body[position]).args.index(variable) for position in at}
            for variable in _in_order(body, common)
        ]

        def new(places: Mapping[int, int]) -> int:
            wanted = {(_atom(body[position]).relation, place) for position, place in places.items()}
            return sum(place not in self.copies[name] for name, place in wanted)

        return min(choices, key=new, default=None)

    def _joined_first(self, rule: Rule, at: Sequence[int]) -> list[Rule]:
        """The rule in two, the first of which joins some of its atoms; or over all facts of one of them."""
        body = rule.body
        groups: dict[tuple[int, ...], None] = {}
        for variable in _in_order(body, set().union(*(literal_variables(body[j]) for j in at))):
            groups[tuple(j for j in at if variable in literal_variables(body[j]))] = None
        groups.update(dict.fromkeys((j,) for j in at))
        largest = sorted(groups, key=len, reverse=True)
        for group in largest:
            way = self._way(body, group, [j for j in at if j not in group])
            if way is not None:
                return self._split(rule, sorted({*group, *way}))
        # Nothing leads from some of them to the others.
        apart = next(j for j in at if j not in largest[0])
        return [replace(rule, body=(*body[:apart], self._everywhere(_atom(body[apart])), *body[apart + 1 :]))]

    def _way(self, body: Sequence[Literal], group: Sequence[int], others: Sequence[int]) -> list[int] | None:
        """The fewest atoms that have to be joined with a group for it to share a variable with another one.

        For a single atom that has one in common already there is nothing to do first.
        """
        wanted = set().union(*(literal_variables(body[j]) for j in others))
        known = set().union(*(literal_variables(body[j]) for j in group))
        if known & wanted:
            return [] if len(group) > 1 else None
        sent = [
            j for j, part in enumerate(body) if isinstance(part, Atom) and j not in group and j not in others
        ]
        ways: list[tuple[list[int], set[Variable]]] = [([], known)]
        seen = set(known)
        while ways:
            way, reached = ways.pop(0)
            for j in sent:
                variables = set(literal_variables(body[j]))
                if j in way or not variables & reached:
                    continue
                if variables & wanted:
                    return [*way, j]
                if not variables <= seen:
                    seen |= variables
                    ways.append(([*way, j], reached | variables))
        return None

    def _split(self, rule: Rule, first: Sequence[int]) -> list[Rule]:
        """The atoms at the positions as a rule of their own, and the rule over its head."""
        taken = [rule.body[j] for j in first]
        rest = [part for j, part in enumerate(rule.body) if j not in first]
        needed = set().union(literal_variables(rule.head), *(literal_variables(part) for part in rest))
        kept = _in_order(taken, needed)
        number = 1 + sum(name.startswith(f"{rule.head.relation}.") for name in self.growing)
        name = f"{rule.head.relation}.{number}"
        attributes = tuple(Attribute(f"a{j}", variable.type) for j, variable in enumerate(kept))
        self.relations[name] = Relation(name, attributes, frozenset(), _NOWHERE)
        self.growing.append(name)
        self.shared.add(name)
        self.copies[name] = {}
        head = Atom(name, tuple(kept), _NOWHERE)
        body = list(rest)
        body.insert(first[0], head)
        return [replace(rule, head=head, body=tuple(taken)), replace(rule, body=tuple(body))]

    def _over_copies(self, rule: Rule, places: Mapping[int, int]) -> Rule:
        body = list(rule.body)
        for position, place in places.items():
            atom = _atom(body[position])
            body[position] = replace(atom, relation=self._copy(atom.relation, place).name)
        return replace(rule, body=tuple(body))

    def _over_any(self, rule: Rule) -> Rule:
        """At most one atom reads what is shared out: any copy will do that is not everywhere."""
        places = {}
        for position in self._shared_atoms(rule.body):
            made = [
                column for column in self.copies[_atom(rule.body[position]).relation] if column != EVERYWHERE
            ]
            places[position] = made[0] if made else BY_ROW
        return self._over_copies(rule, places)

    def _derived(self, head: Atom) -> Atom:
        return replace(head, relation=derived(head.relation))


def _atom(part: Literal) -> Atom:
    assert isinstance(part, Atom)
    return part


def _in_order(body: Sequence[Literal], wanted: Collection[Variable]) -> list[Variable]:
    """The variables among those wanted, in the order in which atoms mention them."""
    mentioned = [
        arg for part in body if isinstance(part, Atom) for arg in part.args if isinstance(arg, Variable)
    ]
    return [variable for variable in dict.fromkeys(mentioned) if variable in wanted]
