"""Proofs as trees of text."""

from __future__ import annotations

from gpuengine.explaining.proof import (
    Absence,
    Condition,
    Derivation,
    FactPremise,
    Group,
    Premise,
    Proof,
    Step,
)

_SHOWN_BINDINGS = 8


def tell(proof: Proof, depth: int | None = None) -> str:
    """A tree for each goal; a step that was told before is referred to by its number."""
    if not proof.holds:
        return f"{proof.query} does not hold\n"
    teller = _Teller(proof, depth)
    for goal in proof.goals:
        if goal in proof.others:
            teller.all_derivations(goal)
        else:
            teller.goal(goal)
    if proof.count > len(proof.goals):
        teller.lines.append(f"… {proof.count - len(proof.goals):,} more of {proof.count:,} answers")
    return "\n".join(teller.lines) + "\n"


def told_derivation(one: Derivation) -> str:
    """How a fact follows, in a line; nothing of what it rests on."""
    if one.kind == "stated":
        return f"stated, {one.place}" if one.place else "stated"
    bindings = [f"{name} = {value}" for name, value in list(one.bindings.items())[:_SHOWN_BINDINGS]]
    if len(one.bindings) > _SHOWN_BINDINGS:
        bindings.append("…")
    where = "; ".join(part for part in (one.place or "", ", ".join(bindings)) if part)
    if one.kind == "rule":
        return f"by {one.rule}  ({where})"
    many = f"along {len(one.premises):,} fact{'s' if len(one.premises) != 1 else ''}"
    return f"{many} by {one.rule}  ({where})"


def told_premise(premise: Premise) -> str:
    """What holds without a step of its own, in a line."""
    if isinstance(premise, Absence):
        return f"there is no {premise.pattern}"
    if isinstance(premise, Condition):
        return (
            f"{premise.values}"
            if premise.values == premise.literal
            else f"{premise.values}   as {premise.literal}"
        )
    assert isinstance(premise, Group)
    columns = ", ".join(premise.columns)
    rows = ", ".join(f"({', '.join(map(str, row))})" for row in premise.rows)
    more = ", …" if premise.count > len(premise.rows) else ""
    many = (
        f"{'at least ' if premise.at_least else ''}{premise.count:,} row{'s' if premise.count != 1 else ''}"
    )
    shown = f": ({columns}) = {rows}{more}" if premise.rows and premise.columns else ""
    return f"{premise.value} from {many}{shown}   as {premise.literal}"


class _Teller:
    def __init__(self, proof: Proof, depth: int | None) -> None:
        self._proof = proof
        self._depth = depth
        self._told: dict[int, int] = {}
        self._references = _shared(proof)
        self.lines: list[str] = []

    def goal(self, goal: int) -> None:
        self._tree([(goal, None, "", "", 0)])

    def all_derivations(self, goal: int) -> None:
        fact = self._proof.steps[goal].fact
        derivations = self._proof.others[goal]
        more = " or more" if goal in self._proof.cut else ""
        self.lines.append(f"{fact}  in {len(derivations):,}{more} way{'s' if len(derivations) != 1 else ''}")
        for number, derivation in enumerate(derivations, 1):
            self.lines.append(f" {number}. {told_derivation(derivation)}")
            if self._depth is None or self._depth > 0:
                self._premises(derivation, "    ", 1)

    def _premises(self, derivation: Derivation, indent: str, level: int) -> None:
        last = len(derivation.premises) - 1
        for at, premise in enumerate(derivation.premises):
            branch, below = ("└─ ", "   ") if at == last else ("├─ ", "│  ")
            if isinstance(premise, FactPremise):
                self._tree([(premise.step, premise, indent + branch, indent + below, level)])
            else:
                self.lines.append(f"{indent}{branch}{told_premise(premise)}")

    def _tree(self, todo: list[tuple[int, FactPremise | None, str, str, int]]) -> None:
        """Depth first, without recursion: proofs can be deep."""
        pending: list[tuple[int, FactPremise | None, str, str, int] | str] = list(todo)
        while pending:
            one = pending.pop()
            if isinstance(one, str):
                self.lines.append(one)
                continue
            number, premise, first, indent, level = one
            step = self._proof.steps[number]
            self.lines.append(first + self._line(number, step, premise))
            if number in self._told and step.derivation.premises:
                continue
            self._told.setdefault(number, len(self._told))
            premises = step.derivation.premises
            if not premises:
                continue
            if self._depth is not None and level >= self._depth:
                self.lines.append(f"{indent}└─ …")
                continue
            below: list[tuple[int, FactPremise | None, str, str, int] | str] = []
            for at, part in enumerate(premises):
                branch, further = ("└─ ", "   ") if at == len(premises) - 1 else ("├─ ", "│  ")
                if isinstance(part, FactPremise):
                    below.append((part.step, part, indent + branch, indent + further, level + 1))
                else:
                    below.append(f"{indent}{branch}{told_premise(part)}")
            pending += reversed(below)

    def _line(self, number: int, step: Step, premise: FactPremise | None) -> str:
        backwards = " backwards" if premise is not None and premise.reversed else ""
        is_derived = bool(step.derivation.premises)
        if number in self._told and is_derived:
            return f"{step.fact}{backwards}  as told in #{number}"
        mark = f"  #{number}" if is_derived and number in self._references else ""
        return f"{step.fact}{backwards}{mark}  {told_derivation(step.derivation)}"


def _shared(proof: Proof) -> set[int]:
    """The steps that more than one other rests on."""
    seen: set[int] = set(proof.goals)
    shared: set[int] = set()
    derivations = [step.derivation for step in proof.steps]
    for all in proof.others.values():
        derivations += all
    for derivation in derivations:
        for step in dict.fromkeys(derivation.steps):
            (shared if step in seen else seen).add(step)
    return shared
