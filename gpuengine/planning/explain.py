"""A plan as text that someone new to semi-naive evaluation can follow."""

from __future__ import annotations

from collections.abc import Iterator

from gpuengine.planning.evaluator_views import HypertreeView, NodeView
from gpuengine.planning.explanation import (
    ASSUMED_DERIVED,
    ASSUMED_INPUT,
    Explanation,
    RelationView,
    RuleView,
    StratumView,
)
from gpuengine.planning.step_views import RuleMeasured, StepView, VariantView

_LEGEND = {
    "drive": "its facts start the rule, one binding each",
    "probe": "find the matching facts by an index on the columns that are bound",
    "check": "every column is bound: is the fact there?",
    "exists": "is there any matching fact?",
    "scan": "read every fact, for every binding so far: a product",
    "compute": "compare, or compute a value",
    "aggregate": "evaluate a body of its own for each group",
}


def explain(explanation: Explanation) -> str:
    """The whole plan, strata bottom-up."""
    return "\n".join(_lines(explanation)) + "\n"


def _lines(explanation: Explanation) -> Iterator[str]:
    yield f"Plan of {explanation.program}"
    yield from _sizes(explanation)
    yield ""
    yield "Relations"
    width = max((len(_signature(r)) for r in explanation.relations), default=0)
    for relation in explanation.relations:
        yield f"  {_signature(relation):{width}}  {_origin(relation)}"
        if relation.scheme != "table" or relation.why:
            yield f"  {'':{width}}  stored as {relation.scheme}: {relation.why}"
    for stratum in explanation.strata:
        yield ""
        yield from _stratum(stratum, explanation.program)
    if not explanation.strata:
        yield ""
        yield "No rules to evaluate: every relation holds the facts it is given."
    yield ""
    if explanation.dropped:
        yield "Dropped rules (not evaluated)"
        for rule in explanation.dropped:
            yield f"  {place(rule.where, explanation.program)}: {rule.text}"
            yield f"    {rule.why}"
    else:
        yield "Dropped rules: none"
    used = {step.access for step in _all_steps(explanation)}
    if used:
        yield ""
        yield "How a step reads"
        for access, meaning in _LEGEND.items():
            if access in used:
                yield f"  {access:9}  {meaning}"


def _sizes(explanation: Explanation) -> Iterator[str]:
    derived = f"derived relations are assumed to hold {ASSUMED_DERIVED:,.0f} facts"
    if explanation.statistics == "measured":
        yield "The program was evaluated: sizes, schemes and times are measured, orders those used last, with"
        yield "what they expected when they were chosen. Bindings of a step were counted afterwards."
        return
    if explanation.statistics == "loaded":
        yield f"Estimates come from the loaded facts; {derived} before they are evaluated."
    else:
        yield f"No facts were loaded: each input is assumed to hold {ASSUMED_INPUT:,.0f} facts, and"
        yield f"{derived}. Give -F DIR for estimates from your facts."
    yield "Estimates of a delta rule are for all its rounds together. A run orders each rule, and chooses"
    yield "what evaluates it, by what its relations hold at that time, so both can be others."


def _signature(relation: RelationView) -> str:
    return f"{relation.name}({', '.join(relation.columns)})"


def _origin(relation: RelationView) -> str:
    count = f"{relation.facts:,.0f} fact{'' if relation.facts == 1 else 's'}"
    assumed = f"about {relation.facts:,.0f} facts assumed"
    origin = {
        "input": f"input, {count if relation.known else assumed}",
        "program": f"facts in the program, {count}",
        "derived": f"derived, {count}" if relation.known else "derived",
        "empty": "no facts and no rules: empty",
    }[relation.origin]
    return ", ".join([origin, *relation.outputs])


def place(where: str, program: str) -> str:
    """``line 8``, or ``file:8`` for another file than the program's own."""
    file, line, _ = where.rsplit(":", 2)
    return f"line {line}" if file == program else f"{file}:{line}"


def _stratum(stratum: StratumView, program: str) -> Iterator[str]:
    kind = "recursive: repeated until a round derives nothing new" if stratum.recursive else "evaluated once"
    yield f"Stratum {stratum.number}: {', '.join(stratum.relations)}  ({kind})"
    for rule in stratum.rules:
        yield f"  {rule.name}, {place(rule.where, program)}: {rule.text}"
        if rule.measured is not None:
            yield f"    measured: {spent(rule.measured)}"
        if rule.implied_by and (rule.measured is None or not rule.measured.evaluations):
            yield f"    {_implied(rule.implied_by)}"
        if rule.evaluator:
            yield from _evaluator(rule)
        if rule.hypertree is not None:
            yield from _hypertree(rule.hypertree)
        for variant in rule.variants:
            yield f"    {_when(variant)}: {variant.reason}"
            yield from _steps(variant.steps, "      ", at_most=variant.at_most)
        if rule.split is not None:
            yield f"    a run may join {rule.split.joins} first and keep {rule.split.relation}:"
            costs = f"{rounded(rule.split.cost_before)} bindings become {rounded(rule.split.cost_after)}"
            yield f"      {costs} if the sizes are as estimated"
    if stratum.indexes:
        yield f"  indexes: {'; '.join(stratum.indexes)}"


def spent(measured: RuleMeasured) -> str:
    """What a rule cost in a run."""
    times = "once" if measured.evaluations == 1 else f"{measured.evaluations:,} times"
    return (
        f"{measured.seconds * 1000:,.1f} ms, evaluated {times}, {measured.candidates:,} candidates, "
        f"{measured.derived:,} derived, {measured.duplicates:,} duplicates"
    )


def measured_bindings(step: StepView, *, at_most: bool) -> str:
    """How many bindings there were after a step; empty if nobody counted."""
    return "" if step.measured is None else f"{'at most ' if at_most else ''}{step.measured:,}"


def _implied(scheme: str) -> str:
    chosen, undecided, _ = scheme.partition(" or table")
    return f"not evaluated{' if it becomes a ' + chosen if undecided else ''}: the {chosen} implies it"


def _evaluator(rule: RuleView) -> Iterator[str]:
    by = {"join": "a join plan", "written": "a join plan, as written", "hypertree": "a hypertree"}
    width = f" of width {rule.hypertree.width}" if rule.hypertree is not None else ""
    yield f"    by {by[rule.evaluator]}{width}" + (f": {rule.why}" if rule.why else "")
    if rule.join_cost or rule.hypertree is not None:
        yield f"      {costs(rule)}"


def costs(rule: RuleView) -> str:
    """The expected bindings that were compared."""
    join, tree = f"~{rounded(rule.join_cost)}", f"~{rounded(rule.tree_cost)}"
    if rule.hypertree is not None:
        return f"{tree} bindings expected, {join} by join plans"
    return f"{join} bindings expected" + (f", {tree} by a hypertree" if rule.tree_cost else "")


def _hypertree(hypertree: HypertreeView) -> Iterator[str]:
    if hypertree.shared_with:
        yield f"      shares the nodes of {hypertree.shared_with}"
    depths: dict[int, int] = {}
    for node in hypertree.nodes:
        depths[node.number] = depths.get(node.parent, 0) + 1
        yield from _node(node, "  " * (depths[node.number] + 2))
    when = "once, when the stratum begins"
    if hypertree.deltas:
        when = f"each round, for the new facts of {', '.join(hypertree.deltas)}"
    yield f"      over the nodes: {hypertree.over}"
    how = ": read from the node"
    if len(hypertree.nodes) != 1:
        how = ": reduced by semi-joins along the tree where that pays off, then joined"
    yield f"        {when}{'' if hypertree.shared_with else how}"


def _node(node: NodeView, indent: str) -> Iterator[str]:
    above = f", below node {node.parent} by {', '.join(node.shared) or 'no variable'}" if node.parent else ""
    yield f"{indent}node {node.number}{above}: {node.atom}  ~{rounded(node.rows)} rows"
    kept = "all kept" if node.kept == node.variables else f"kept: {', '.join(node.kept) or 'none'}"
    yield f"{indent}  variables χ: {', '.join(node.variables) or 'none'}; {kept}"
    yield f"{indent}  atoms λ: {', '.join(node.atoms)}" + "".join(f"; {part}" for part in node.filters)
    if node.same_as:
        yield f"{indent}  made as for {node.same_as}"
    for variant in node.variants:
        yield f"{indent}  {_when(variant)}: {variant.reason}"
        yield from _steps(variant.steps, f"{indent}    ", at_most=variant.at_most)


def _when(variant: VariantView) -> str:
    if variant.delta is None:
        return "once, when the stratum begins"
    return f"each round, for the new facts of {variant.delta}"


def _steps(steps: tuple[StepView, ...], indent: str, *, at_most: bool = False) -> Iterator[str]:
    width = max((len(_what(step)) for step in steps), default=0)
    for number, step in enumerate(steps, 1):
        there = measured_bindings(step, at_most=at_most)
        there = f", {there} measured" if there else ""
        expected = f"~{rounded(step.estimate)} bindings{there}"
        yield f"{indent}{number}. {step.access:9} {_what(step):{width}}  {expected}"
        if step.rivals:
            rivals = ", ".join(step.rivals)
            yield f"{indent}   or {rivals}: for each binding the one with fewest matches is read"
        yield from _steps(step.inner, indent + "     ")


def _what(step: StepView) -> str:
    domain = {"new": " [new]", "old": " [old]"}.get(step.domain, "")
    by = f"  by ({', '.join(step.columns)})" if step.access in ("probe", "exists") and step.columns else ""
    scheme = f"  ({step.scheme}{': lists all its facts' if step.enumerates else ''})" if step.scheme else ""
    return f"{step.literal}{domain}{by}{scheme}"


def rounded(number: float) -> str:
    """Three digits are more than an estimate deserves."""
    for unit, scale in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if number >= scale:
            return f"{number / scale:.3g} {unit}"
    return f"{number:.3g}" if number else "0"


def _all_steps(explanation: Explanation) -> Iterator[StepView]:
    for stratum in explanation.strata:
        for rule in stratum.rules:
            for variant in rule.all_variants:
                yield from _with_inner(variant.steps)


def _with_inner(steps: tuple[StepView, ...]) -> Iterator[StepView]:
    for step in steps:
        yield step
        yield from _with_inner(step.inner)
