"""The plain-Datalog subset that the workloads are written in, read for the peers.

Deliberately separate from `gpuengine.language`: a peer must not depend on the engine it is compared
with, and a reading error there must show up as a disagreement of sizes.  The subset: ``.decl`` with
number columns, ``.input`` (with an optional ``filename=``), ``.printsize``, rules with one head, positive
atoms, comparisons, variables, ``_`` and integers.  Anything else is a `RuleError`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ANONYMOUS = "_"
_COMPARISON = re.compile(r"^(\w+)\s*(!=|<=|>=|=|<|>)\s*(\w+)$")
_ATOM = re.compile(r"^(\w+)\s*\(([^()]*)\)$")
_TERM = re.compile(r"-?\w+")
_BODY_ITEM = re.compile(r"\s*(\w+\s*\([^()]*\)|[^,()]+)")
_DECL = re.compile(r"^\.decl\s+(\w+)\s*\(([^()]*)\)\s*$")
_INPUT = re.compile(r"^\.input\s+(\w+)\s*(?:\((.*)\))?\s*$")
_FILENAME = re.compile(r'filename\s*=\s*"([^"]*)"')


class RuleError(ValueError):
    """The program is outside the subset that peers can be given."""


@dataclass(frozen=True, slots=True)
class Atom:
    """``name(terms)``; a term is a variable, ``_`` or an integer literal, as written."""

    name: str
    terms: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """``left operator right`` over variables and integers, Soufflé's operator names."""

    left: str
    operator: str
    right: str


@dataclass(frozen=True, slots=True)
class Rule:
    """``head :- atoms, comparisons.``"""

    head: Atom
    atoms: tuple[Atom, ...]
    comparisons: tuple[Comparison, ...]


@dataclass(frozen=True, slots=True)
class Rules:
    """A program: arities, input files by relation, rules in order, relations whose size is asked."""

    arity: dict[str, int]
    inputs: dict[str, str]
    rules: tuple[Rule, ...]
    printed: tuple[str, ...]

    @property
    def derived(self) -> frozenset[str]:
        """Relations with at least one rule (they may have input facts as well)."""
        return frozenset(rule.head.name for rule in self.rules)

    def strata(self) -> list[tuple[frozenset[str], list[Rule]]]:
        """Derived relations as strongly connected components in evaluation order, with their rules."""
        reads = {
            name: {a.name for r in self.rules if r.head.name == name for a in r.atoms} & self.derived
            for name in sorted(self.derived)
        }
        components = _components(reads)
        return [(c, [r for r in self.rules if r.head.name in c]) for c in components]


def is_variable(term: str) -> bool:
    """Whether a term is a named variable (neither ``_`` nor an integer)."""
    return term != ANONYMOUS and not term.lstrip("-").isdigit()


def read_rules(path: Path) -> Rules:
    """Read a workload program; raises `RuleError` outside the subset."""
    return parse_rules(path.read_text(encoding="utf-8"))


def parse_rules(text: str) -> Rules:
    """Parse program text; one directive or rule a line, ``//`` comments."""
    arity: dict[str, int] = {}
    inputs: dict[str, str] = {}
    rules: list[Rule] = []
    printed: list[str] = []
    for raw in text.splitlines():
        line = raw.split("//", 1)[0].strip()
        if not line:
            continue
        if line.startswith(".decl"):
            name, columns = _match(_DECL, line)
            arity[name] = len(columns.split(","))
        elif line.startswith(".input"):
            name, options = _match(_INPUT, line)
            filename = _FILENAME.search(options or "")
            inputs[name] = filename.group(1) if filename else f"{name}.facts"
        elif line.startswith(".printsize"):
            printed.append(line.split()[1])
        else:
            rules.append(_parse_rule(line))
    for rule in rules:
        for atom in (rule.head, *rule.atoms):
            if arity.get(atom.name) != len(atom.terms):
                raise RuleError(f"{atom.name}/{len(atom.terms)} is not declared")
    return Rules(arity, inputs, tuple(rules), tuple(printed))


def _match(pattern: re.Pattern[str], line: str) -> tuple[str, ...]:
    match = pattern.match(line)
    if match is None:
        raise RuleError(f"outside the peers' subset: {line}")
    return tuple(match.groups())


def _parse_rule(line: str) -> Rule:
    if not line.endswith(".") or ":-" not in line:
        raise RuleError(f"outside the peers' subset: {line}")
    head, body = line[:-1].split(":-", 1)
    atoms: list[Atom] = []
    comparisons: list[Comparison] = []
    for item in (part.strip() for part in _BODY_ITEM.findall(body)):
        if not item:
            continue
        compared = _COMPARISON.match(item)
        if compared:
            comparisons.append(Comparison(*compared.groups()))
        else:
            atoms.append(_parse_atom(item))
    return Rule(_parse_atom(head.strip()), tuple(atoms), tuple(comparisons))


def _parse_atom(text: str) -> Atom:
    match = _ATOM.match(text)
    terms = tuple(t.strip() for t in match.group(2).split(",")) if match else ()
    if match is None or not all(map(_TERM.fullmatch, terms)):
        raise RuleError(f"outside the peers' subset: {text}")
    return Atom(match.group(1), terms)


def _components(reads: dict[str, set[str]]) -> list[frozenset[str]]:
    """Strongly connected components, dependencies first (programs are small: reachability will do)."""
    reach = {name: set(targets) for name, targets in reads.items()}
    for middle in reads:
        for name in reads:
            if middle in reach[name]:
                reach[name] |= reach[middle]
    components = {frozenset({n} | {m for m in reach[n] if n in reach[m]}) for n in reads}
    # A component comes after every component it reaches, hence has strictly more reachable relations
    # (itself counted), which makes that number an evaluation order.
    size = {c: len(set().union(*(reach[n] for n in c)) | c) for c in components}
    return sorted(components, key=lambda c: (size[c], sorted(c)))
