"""Ends a recursion through aggregates whose values get better for ever.

As long as neither keys nor bindings of bodies come, a round goes on only as the values that the last one
moved move others (`planning.growth`). After more rounds than there are values that moved, one of them has
moved itself, by a chain of steps; if all of these expand, it will for ever.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gpuengine.errors import EvaluationError
from gpuengine.evaluation.driver.relation_selector import RelationSelector
from gpuengine.language.program import Rule
from gpuengine.planning.growth import Growth, growth_of
from gpuengine.planning.selection import Selection
from gpuengine.schemes.contract import Scheme

_FIRST_LOOK = 1000
"""Rounds after which it is first asked; then after twice as many each time, as asking looks at all keys."""
_PATIENCE = 100_000
"""So many rounds for each value that moves are waited for one that may come closer to an end."""


class Divergence:
    """Told of all rounds of a stratum, it ends them by an error if they would not end.

    Facts that others subsume, but not by a better value, go and may come again: nothing is said of those.
    """

    def __init__(
        self,
        rules: Sequence[Rule],
        selections: Mapping[str, Selection],
        selectors: Mapping[str, RelationSelector],
    ) -> None:
        chosen = [selections[name] for name in selectors]
        merges = {one.relation: one.folds for one in chosen if one.folds}
        is_known = all(one.folds or one.choices for one in chosen)
        found = growth_of(rules if is_known else (), merges)
        self._merges = merges
        self._selectors = selectors
        self._rules = found.rules
        self._factor = 1 if found.growth is Growth.EXPANDS else _PATIENCE
        self._is_possible = found.growth is not Growth.ENDS
        self._rounds = self._next = 0
        self._known = -1
        self._starts: dict[str, int] = {}

    def note(self, rounds: int, schemes: Sequence[Scheme]) -> None:
        """So many rounds more, after which `schemes` are what the relations of the stratum hold."""
        if not self._is_possible:
            return
        self._rounds += rounds
        if self._rounds >= self._next:
            self._look(schemes)

    def _look(self, schemes: Sequence[Scheme]) -> None:
        known = sum(selector.known for selector in self._selectors.values())
        known += sum(len(scheme) for scheme in schemes if scheme.name not in self._selectors)
        is_held = any(selector.is_holding for selector in self._selectors.values())
        if known != self._known or is_held:
            self._known, self._rounds, self._next = known, 0, _FIRST_LOOK
            self._starts = {name: len(selector.table) for name, selector in self._selectors.items()}
            return
        moved = sum(
            len(self._merges[name]) * self._selectors[name].moved_since(start)
            for name, start in self._starts.items()
            if name in self._merges
        )
        if self._rounds > self._factor * moved:
            self._refuse(moved)
        self._next = 2 * self._rounds

    def _refuse(self, moved: int) -> None:
        rule = self._rules[0]
        name = rule.head.relation
        ops = "/".join(merge.op for merge in self._merges[name])
        values = "a value" if moved == 1 else f"{moved:,} values"
        is_proven = self._factor == 1
        what = "gets better for ever" if is_proven else "has not come to an end"
        lines = [
            f"the {ops} of {name} {what}: {self._rounds:,} rounds went by in which {values} moved "
            "and no key came",
            *(f"  by the rule: {one.text}" for one in self._rules),
            "  hint: the facts lead around a cycle, so that a value is derived from itself; leave the cycle "
            "out, or bound what is derived, as min(v, 1000) does",
        ]
        raise EvaluationError("\n".join(lines))
