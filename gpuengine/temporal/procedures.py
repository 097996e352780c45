"""Procedures 1 to 3 of the paper: naïve, semi-naïve and optimised semi-naïve materialisation.

After round k of each the relations represent T^k(D): every rule of a round reads what was there when the
round began, and what all of them derive is coalesced at its end.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from gpuengine.errors import EvaluationError
from gpuengine.kernels.timeline import INFINITY, LARGEST, MINUS_INFINITY, Merged
from gpuengine.limits import charge
from gpuengine.limits import check as check_memory
from gpuengine.limits import current as current_limits
from gpuengine.temporal.compiled import CompiledLiteral, CompiledRule, compile_rule
from gpuengine.temporal.evaluation import Derived, World, derive, derive_new, ends_of, holds_anywhere
from gpuengine.temporal.propagation import is_backward, is_forward
from gpuengine.temporal.spelling import range_text
from gpuengine.temporal.strata import head_predicate, recursive_predicates
from gpuengine.temporal.syntax import Relational, Rule

Procedure = Literal["naive", "seminaive", "optimised"]
PROCEDURES: tuple[Procedure, ...] = ("naive", "seminaive", "optimised")
Log = Callable[[str, np.ndarray, np.ndarray, np.ndarray], None]
"""Told of lists that change: the predicate, its atoms, and where their lists were before."""


@dataclass(frozen=True, slots=True)
class Round:
    """One round: how long it took, what is stored after it, how many facts were new, which rules ran."""

    number: int
    seconds: float
    facts: int
    new: int
    instances: int
    rules: int


@dataclass(frozen=True, slots=True)
class Dropped:
    """A rule that Procedure 3 did not go on with, from the end of a round."""

    round: int
    rule: str
    why: str


@dataclass
class Progress:
    """What was done, as it is done.

    `timeless` are predicates that were derived as ordinary Datalog before.
    """

    procedure: Procedure
    rounds: list[Round] = field(default_factory=list)
    dropped: list[Dropped] = field(default_factory=list)
    rule_seconds: dict[int, float] = field(default_factory=dict)
    is_fixpoint: bool = False
    timeless: list[str] = field(default_factory=list)
    watch: Callable[[Round], None] | None = None


def run_rules(
    rules: Sequence[tuple[int, Rule]],
    world: World,
    progress: Progress,
    *,
    rounds: int | None,
    log: Log | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> bool:
    """Apply numbered rules without Bottom heads round by round; True if that ended in a fixpoint.

    The delta to begin with is that of the relations. What changes is told to `log`, and kept readable for it.
    """
    return _Run(rules, world, progress, log).perform(rounds, stop)


def check_fits(name: str, merged: Merged) -> None:
    """Raise if a time that was put in is too large to go on with."""
    if merged.largest >= LARGEST:
        raise EvaluationError(
            f"a time of {name} no longer fits 64 bits\n"
            "  hint: bound the time with --horizon, or the rounds with --rounds"
        )


class _Run:
    def __init__(
        self, rules: Sequence[tuple[int, Rule]], world: World, progress: Progress, log: Log | None
    ) -> None:
        self._world = world
        self._progress = progress
        self._log = log
        self._all = [compiled for number, rule in rules for compiled in compile_rule(rule, number)]
        self._active = self._all
        plain = [rule for _, rule in rules]
        self._recursive = recursive_predicates(plain)
        self._flag = False
        self._is_first = True
        self._ends: dict[int, int | None] = {}
        self._first_new, self._last_new = INFINITY + 1, MINUS_INFINITY - 1

    def perform(self, rounds: int | None, stop: Callable[[], bool]) -> bool:
        done = 0
        while rounds is None or done < rounds:
            done += 1
            started = time.perf_counter()
            before = self._world.instances
            derived = self._apply()
            rules = len({compiled.number for compiled in self._active})
            new = self._coalesce(derived)
            if not new:
                self._note(started, 0, before, rules)
                return True
            if self._progress.procedure == "optimised":
                self._drop_rules()
            self._note(started, new, before, rules)
            if stop():
                return False
        return False

    def _apply(self) -> dict[str, list[Derived]]:
        """Line 3: N, by predicate."""
        function = derive if self._progress.procedure == "naive" else derive_new
        derived: dict[str, list[Derived]] = {}
        seconds = self._progress.rule_seconds
        for compiled in self._active:
            assert isinstance(compiled.head, Relational)
            started = time.perf_counter()
            # Definition 3 has no instance of a body without atoms, but it holds from the first round on.
            apply = derive if self._is_first and not compiled.atoms else function
            self._limit(compiled)
            for part in apply(compiled, self._world):
                derived.setdefault(compiled.head.predicate, []).append(part)
                check_memory(f"facts of {compiled.head.predicate}")
            seconds[compiled.number] = seconds.get(compiled.number, 0.0) + time.perf_counter() - started
        self._is_first = False
        return derived

    @staticmethod
    def _limit(compiled: CompiledRule) -> None:
        """Have whoever runs out of memory say by which rule."""
        if (limits := current_limits()) is not None:
            limits.doing = lambda: f"deriving by: {compiled.rule}"

    def _coalesce(self, derived: dict[str, list[Derived]]) -> int:
        """Lines 4 and 5: C and the delta; how many facts are new."""
        relations = self._world.relations
        for relation in relations.values():
            relation.settle()
        self._first_new, self._last_new = INFINITY + 1, MINUS_INFINITY - 1
        new = 0
        for name in list(derived):
            parts = derived.pop(name)
            charge(sum(array.nbytes for part in parts for array in part), f"facts of {name}")
            columns = parts[0] if len(parts) == 1 else tuple(map(np.concatenate, zip(*parts, strict=True)))
            merged = relations[name].merge(*columns, keep_old=self._log is not None)
            check_fits(name, merged)
            new += len(merged.rows)
            self._first_new = min(self._first_new, merged.first_new)
            self._last_new = max(self._last_new, merged.last_new)
            if self._log is not None:
                self._log(name, merged.rows, merged.old_starts, merged.old_counts)
        return new

    def _note(self, started: float, new: int, instances: int, rules: int) -> None:
        progress = self._progress
        facts = sum(len(relation) for relation in self._world.relations.values())
        made = Round(
            len(progress.rounds) + 1,
            time.perf_counter() - started,
            facts,
            new,
            self._world.instances - instances,
            rules,
        )
        progress.rounds.append(made)
        if progress.watch is not None:
            progress.watch(made)

    # Procedure 3.

    def _drop_rules(self) -> None:
        """Lines 7 to 15."""
        if not self._flag:
            relations = self._world.relations
            if any(len(relations[name].delta) for name in relations if name not in self._recursive):
                return
            self._flag = True
            self._drop_complete()
        self._drop_passed()

    def _drop_complete(self) -> None:
        """Lines 8 to 10: the recursive fragment, without rules that can't apply."""
        kept = []
        for compiled in self._active:
            name = head_predicate(compiled.rule)
            if name not in self._recursive:
                self._drop(compiled, f"{name} is not recursive, and complete")
                continue
            empty = next(
                (one for one in self._settled(compiled) if not holds_anywhere(one, compiled, self._world)),
                None,
            )
            if empty is not None:
                self._drop(compiled, f"{empty.metric} holds nowhere, and is complete")
            else:
                kept.append(compiled)
        self._active = kept

    def _settled(self, compiled: CompiledRule) -> Iterator[CompiledLiteral]:
        """S_r: the literals all of whose predicates are not recursive."""
        for literal in compiled.literals:
            names = [compiled.atoms[k].predicate for k in literal.atoms]
            if names and not any(name in self._recursive for name in names):
                yield literal

    def _drop_passed(self) -> None:
        """Lines 11 to 15, and their mirror: rules whose last (first) time the new facts have passed."""
        rules = [compiled.rule for compiled in self._active]
        is_forward_only = all(map(is_forward, rules))
        if not is_forward_only and not all(map(is_backward, rules)):
            return
        kept = []
        for compiled in self._active:
            last = self._last_time(compiled, is_forward_only)
            if last is None or (self._first_new <= last if is_forward_only else self._last_new >= last):
                kept.append(compiled)
                continue
            at = range_text(self._world.encoding.decode(last, last))
            word = "after" if is_forward_only else "before"
            self._drop(compiled, f"all new facts hold {word} t_r, {at}")
        self._active = kept

    def _last_time(self, compiled: CompiledRule, forward: bool) -> int | None:
        """t_r, the last time (the first, backward) at which all settled literals may hold.

        None without any.
        """
        if id(compiled) not in self._ends:
            spans = [ends_of(literal, compiled, self._world) for literal in self._settled(compiled)]
            ends = [high for _, high in spans] if forward else [-low for low, _ in spans]
            self._ends[id(compiled)] = None if not ends else min(ends) if forward else -min(ends)
        return self._ends[id(compiled)]

    def _drop(self, compiled: CompiledRule, why: str) -> None:
        entry = Dropped(len(self._progress.rounds) + 1, str(compiled.rule), why)
        if entry not in self._progress.dropped:
            self._progress.dropped.append(entry)
