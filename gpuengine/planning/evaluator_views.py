"""By what the rules of a plan will be evaluated, and the hypertrees of those evaluated over nodes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from gpuengine.language.program import Atom, BodyOrder, Literal, Rule, Variable
from gpuengine.planning.evaluators import Choice, Chooser, Evaluator, rule_names
from gpuengine.planning.hypertree import Decomposition, Node
from gpuengine.planning.node_rules import NodeRules
from gpuengine.planning.order import Statistics
from gpuengine.planning.plan import Plan, Stratum, Variant, describe
from gpuengine.planning.scheme_views import SchemeView
from gpuengine.planning.step_views import Measured, VariantView, view_variant
from gpuengine.planning.strata import delta_variants


@dataclass(frozen=True, slots=True)
class NodeView:
    """A node of a hypertree; nodes are numbered from 1 in preorder, and `parent` 0 means the root.

    `atom` is what the rule over the nodes reads: the relation that holds the node's instantiations, or the
    atom itself if there is no other. `variables` are χ, of which `kept` are stored and `shared` are also in
    the node above; `atoms` are λ and `filters` what else is evaluated there. `rows` and `cost` are expected.
    If the node is made as another one, `same_as` names that, or its rule, and there are no `variants`.
    """

    number: int
    parent: int
    relation: str
    atom: str
    variables: tuple[str, ...]
    kept: tuple[str, ...]
    shared: tuple[str, ...]
    atoms: tuple[str, ...]
    filters: tuple[str, ...]
    rows: float
    cost: float
    same_as: str
    variants: tuple[VariantView, ...]


@dataclass(frozen=True, slots=True)
class HypertreeView:
    """`over` is the rule over the nodes, evaluated for the new facts of `deltas`; once if there are none.

    If the nodes are those of another rule of the clause, `shared_with` names that, and `nodes` are there.
    """

    width: int
    over: str
    deltas: tuple[str, ...]
    shared_with: str
    nodes: tuple[NodeView, ...]


class EvaluatorViews:
    """Chooses for the rules of a plan as a run does, if asked in the order of the strata.

    What is described once is referred to afterwards.
    """

    def __init__(
        self,
        plan: Plan,
        chooser: Chooser | None,
        statistics: Statistics,
        schemes: Mapping[str, SchemeView],
        measured: Measured | None = None,
    ) -> None:
        self._program = plan.program
        self._names = rule_names(plan.program.rules)
        self._chooser = chooser or Chooser(plan.program.rules, {})
        self._chosen: dict[Rule, Choice] = {}
        self._statistics = statistics
        self._schemes = schemes
        self._measured = measured
        self._is_limited = any(directive.kind == "limitsize" for directive in plan.program.directives)
        self._described: dict[int, str] = {}
        self._made_for: dict[str, str] = {}

    def name(self, rule: Rule) -> str:
        """``path:2`` for the second rule of path."""
        return self._names[rule]

    def choose(self, rule: Rule, stratum: Stratum) -> Choice:
        """By what a run evaluates a rule, if its statistics are the same."""
        if self._is_limited:
            return Choice(Evaluator.JOIN, "the program has a .limitsize")
        if rule not in self._chosen:
            self._chosen[rule] = self._chooser.choose(rule, stratum.relations, self._statistics, self._chosen)
        return self._chosen[rule]

    def variants(self, rule: Rule, choice: Choice, given: Iterable[Variant]) -> tuple[VariantView, ...]:
        """The join plans of a rule; none if it is evaluated over nodes."""
        if choice.node_rules is not None:
            return ()
        if choice.evaluator is Evaluator.WRITTEN:
            written = replace(rule, order=BodyOrder.WRITTEN)
            given = [replace(variant, rule=written) for variant in given]
        return self._views(given)

    def hypertree(self, rule: Rule, choice: Choice, stratum: Stratum) -> HypertreeView | None:
        """The nodes over which a rule is evaluated, if it is."""
        made = choice.node_rules
        if made is None:
            return None
        over = made.over[rule]
        recursive = {one.head.relation for one in made.nodes if delta_variants(one, stratum.relations)}
        members = {*stratum.relations, *recursive}
        deltas = dict.fromkeys(
            part.relation for part in over.body if isinstance(part, Atom) and part.relation in members
        )
        described = self._described.setdefault(id(made), self.name(rule))
        is_first = described == self.name(rule)
        return HypertreeView(
            made.decomposition.width,
            _told(over),
            tuple(deltas),
            "" if is_first else described,
            self._nodes(made, stratum) if is_first else (),
        )

    def _nodes(self, made: NodeRules, stratum: Stratum) -> tuple[NodeView, ...]:
        parents = _parents(made.decomposition)
        order = _variables(made.body)
        own = {rule.head.relation for rule in made.nodes}
        first: dict[str, int] = {}
        views = []
        for number, part in enumerate(made.parts, 1):
            above = made.parts[parents[number] - 1].node.variables if parents[number] else frozenset()
            relation, node = part.atom.relation, part.node
            variants: list[Variant] = []
            same_as = self._made_for.get(relation, "")
            if part.rule is not None and not same_as:
                if first.setdefault(relation, number) == number:
                    rule = replace(part.rule, head=part.atom)
                    variants = delta_variants(rule, stratum.relations) or [Variant(rule, None, frozenset())]
                else:
                    same_as = f"node {first[relation]}"
            views.append(
                NodeView(
                    number,
                    parents[number],
                    relation,
                    describe(part.atom),
                    _shown(v for v in order if v in node.variables),
                    _shown(v for v in order if v in part.atom.args),
                    _shown(v for v in order if v in node.variables & above),
                    tuple(describe(made.body[at]) for at in node.atoms),
                    tuple(describe(literal) for literal in part.filters),
                    node.rows,
                    node.cost,
                    same_as,
                    self._views(variants),
                )
            )
        described = self._described[id(made)]
        self._made_for |= {name: described for name in own if name not in self._made_for}
        return tuple(views)

    def _views(self, variants: Iterable[Variant]) -> tuple[VariantView, ...]:
        return tuple(
            view_variant(variant, self._program, self._statistics, self._schemes, self._measured)
            for variant in variants
        )


def _parents(decomposition: Decomposition) -> dict[int, int]:
    """By number of a node that of the one above, 0 for the root."""
    parents: dict[int, int] = {}

    def visit(node: Node, above: int) -> None:
        number = len(parents) + 1
        parents[number] = above
        for child in node.children:
            visit(child, number)

    visit(decomposition.root, 0)
    return parents


def _variables(body: Iterable[Literal]) -> list[Variable]:
    """The variables of the atoms, in the order in which they are first mentioned."""
    atoms = [part for part in body if isinstance(part, Atom)]
    return list(dict.fromkeys(arg for atom in atoms for arg in atom.args if isinstance(arg, Variable)))


def _shown(variables: Iterable[Variable]) -> tuple[str, ...]:
    return tuple(variable.name.partition("@")[0] or "_" for variable in variables)


def _told(rule: Rule) -> str:
    return f"{describe(rule.head)} :- {', '.join(describe(part) for part in rule.body)}."
