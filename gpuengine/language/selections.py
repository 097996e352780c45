"""Relations that do not keep all that is derived: by aggregates in heads, choice-domain or subsumption."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TypeGuard

from gpuengine.language import codes
from gpuengine.language.diagnostics import Reporter
from gpuengine.language.functors import INTEGRAL, NUMERIC, ORDERED
from gpuengine.language.lowering import LoweredRule
from gpuengine.language.program import Atom, Comparison, Kind, Literal, Merge, Relation, Variable
from gpuengine.language.syntax import Atom as AtomSyntax
from gpuengine.language.syntax import Call, Compare, Int, Var, Wild
from gpuengine.language.syntax import Merge as MergeSyntax

_OPS = ("min", "max", "sum", "count", "bor", "band")
_QUANTIFIERS = {"any": "max", "all": "min"}
_KINDS = {
    "min": ORDERED,
    "max": ORDERED,
    "bor": INTEGRAL,
    "band": INTEGRAL,
    "sum": NUMERIC,
    "count": INTEGRAL,
}
_COUNTED = "@counted"


def unmerged(head: AtomSyntax, reporter: Reporter) -> tuple[AtomSyntax, list[Compare], Merge | None]:
    """A head without its aggregate, what it takes that the body must bind, and what it says."""
    merges = [(place, arg) for place, arg in enumerate(head.args) if isinstance(arg, MergeSyntax)]
    if not merges:
        return head, [], None
    for _, arg in merges:
        if arg.op not in _OPS and arg.op not in _QUANTIFIERS:
            message = f"{arg.op} can't stand in a head: what it gives may go up and down again"
            hint = f"aggregate what is complete, in the body: x = {arg.op} .. : {{ .. }}"
            reporter.error(codes.MERGE, message, arg.start, arg.end, hint)
    if len(merges) > 1:
        second = merges[1][1]
        message = "a head has one aggregate: which of two facts would be better by both?"
        hint = "say which fact is better with a subsumption, p(x, a, b) <= p(x, c, d) :- .."
        reporter.error(codes.MERGE, message, second.start, second.end, hint)
    place, first = merges[0]
    args = [arg.arg if isinstance(arg, MergeSyntax) else arg for arg in head.args]
    bound: list[Compare] = []
    value, start, end = first.arg, first.start, first.end
    if first.op == "count":
        args[place] = Int(1, "", start, end)
        if not isinstance(value, Wild):
            bound.append(Compare("=", Var(_COUNTED, start, end), value, start, end))
    elif first.op in _QUANTIFIERS:
        at_least = Call("max", [value, Int(0, "", start, end)], start, end)
        args[place] = Call("min", [at_least, Int(1, "", start, end)], start, end)
    op = _QUANTIFIERS.get(first.op, first.op)
    return AtomSyntax(head.name, args, head.start, head.end), bound, Merge(place, op)


def uncounted(lowered: LoweredRule) -> LoweredRule:
    """The rule without the equation that has a variable bound which an atom binds anyway."""
    rule = lowered.rule
    if rule.merge is None or rule.merge.op != "count":
        return lowered
    read = {arg for part in rule.body if isinstance(part, Atom) for arg in part.args}
    body = tuple(part for part in rule.body if not (_is_counted(part) and part.right in read))
    return lowered._replace(rule=replace(rule, body=body))


def _is_counted(part: Literal) -> TypeGuard[Comparison]:
    return isinstance(part, Comparison) and isinstance(part.left, Variable) and part.left.name == _COUNTED


def report_selections(
    rules: Iterable[LoweredRule], relations: Mapping[str, Relation], reporter: Reporter
) -> None:
    """Report relations for which it is not said, or said twice, which of their facts stay."""
    ways: dict[str, dict[str, LoweredRule | None]] = {
        name: {"a choice-domain": None} for name, relation in relations.items() if relation.choices
    }
    for name, relation in relations.items():
        if relation.lattice:
            ways.setdefault(name, {})["attributes of lattices"] = None
    merges: dict[str, tuple[Merge, LoweredRule]] = {}
    for lowered in rules:
        rule, name = lowered.rule, lowered.rule.head.relation
        if rule.merge is not None:
            ways.setdefault(name, {}).setdefault("aggregates in heads", lowered)
            _report_merge(lowered, merges, relations[name], reporter)
        if rule.subsumes:
            ways.setdefault(name, {}).setdefault("a subsumption", lowered)
            _report_subsumption(lowered, reporter)
    for name, selections in ways.items():
        relation = relations[name]
        for qualifier in ("eqrel", "inline"):
            if qualifier in relation.qualifiers:
                selections = {f"the qualifier {qualifier}": None, **selections}
        places = [lowered for lowered in selections.values() if lowered is not None]
        if len(selections) > 1:
            start, end = reporter.sources.positions(relation.span)
            if places:
                start, end = places[0].start, places[0].end
            message = f"{name} has {' and '.join(selections)}: which of its facts stay?"
            reporter.error(codes.SELECTION, message, start, end, "leave one of them out")


def _report_merge(
    lowered: LoweredRule,
    merges: dict[str, tuple[Merge, LoweredRule]],
    relation: Relation,
    reporter: Reporter,
) -> None:
    merge = lowered.rule.merge
    assert merge is not None
    attribute = relation.attributes[merge.column]
    kinds = _KINDS.get(merge.op, ORDERED)
    if attribute.type.kind not in kinds:
        message = (
            f"{attribute.name} of {relation.name} is a {attribute.type.kind.value}: it has no {merge.op}"
        )
        hint = f"it may be a {' or '.join(kind.value for kind in Kind if kind in kinds)}"
        reporter.error(codes.MERGE, message, lowered.start, lowered.end, hint)
    earlier, first = merges.setdefault(relation.name, (merge, lowered))
    if earlier != merge:
        attribute = relation.attributes[earlier.column]
        message = f"another rule of {relation.name} keeps the {earlier.op} of {attribute.name}"
        notes = [f"that rule is at {first.rule.span}"]
        hint = "a relation keeps one value for each key: all its rules must agree on which"
        reporter.error(codes.MERGE, message, lowered.start, lowered.end, hint, notes)


def _report_subsumption(lowered: LoweredRule, reporter: Reporter) -> None:
    rule = lowered.rule
    atoms = [part for part in rule.body if isinstance(part, Atom)]
    others = {atom.relation for atom in atoms[:2]} - {rule.head.relation}
    for other in sorted(others):
        message = f"a fact of {rule.head.relation} can't be subsumed by one of {other}"
        hint = "both atoms are of one relation"
        reporter.error(codes.SUBSUMPTION, message, lowered.start, lowered.end, hint)
    again = [atom for atom in atoms[2:] if atom.relation == rule.head.relation]
    if again:
        message = f"the body of a subsumption can't read {rule.head.relation} again"
        hint = "compare the two facts by their values, and by relations that are complete before"
        reporter.error(codes.SUBSUMPTION, message, *reporter.sources.positions(again[0].span), hint)
