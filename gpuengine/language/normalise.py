"""Bodies to disjunctive normal form, and the bound on nesting that lets later passes recurse.

    p(x) :- a(x), (b(x) ; !(c(x), x < 3)).

becomes the conjunctions ``a(x), b(x)``, ``a(x), !c(x)`` and ``a(x), x >= 3``.
"""

from __future__ import annotations

from gpuengine.language.syntax import (
    Agg,
    Arg,
    Atom,
    Bool,
    BranchValue,
    Call,
    Cast,
    Clause,
    Compare,
    Conj,
    Disj,
    Merge,
    Not,
    Record,
    Term,
)

MAX_DEPTH = 150
MAX_DISJUNCTS = 4096
NEGATED = {
    "=": "!=",
    "!=": "=",
    "<": ">=",
    "<=": ">",
    ">": "<=",
    ">=": "<",
    "match": "!match",
    "contains": "!contains",
    "!match": "match",
    "!contains": "contains",
}

Plain = Atom | Not | Compare | Bool  # a Not here always holds an Atom


class TooManyDisjuncts(Exception):
    """The normal form has more than `MAX_DISJUNCTS` conjunctions."""


def disjuncts(term: Term, positive: bool = True) -> list[list[Plain]]:
    """The conjunctions whose disjunction is `term` (or its negation)."""
    if isinstance(term, Not):
        return disjuncts(term.term, not positive)
    if isinstance(term, Conj | Disj):
        parts = [disjuncts(part, positive) for part in term.terms]
        if isinstance(term, Disj) == positive:
            return _bounded([conjunction for part in parts for conjunction in part])
        product: list[list[Plain]] = [[]]
        for part in parts:
            if len(product) * len(part) > MAX_DISJUNCTS:
                raise TooManyDisjuncts
            if len(part) == 1:
                for conjunction in product:
                    conjunction.extend(part[0])
            else:
                product = [left + right for left in product for right in part]
        return product
    if positive:
        return [[term]]
    if isinstance(term, Atom):
        return [[Not(term, term.start, term.end)]]
    if isinstance(term, Bool):
        return [[Bool(not term.value, term.start, term.end)]]
    return [[Compare(NEGATED[term.op], term.left, term.right, term.start, term.end)]]


def _bounded(conjunctions: list[list[Plain]]) -> list[list[Plain]]:
    if len(conjunctions) > MAX_DISJUNCTS:
        raise TooManyDisjuncts
    return conjunctions


def too_deep(root: Clause | Term) -> bool:
    """Is anything nested more than `MAX_DEPTH` deep? Does not recurse itself."""
    stack: list[tuple[Clause | Term | Arg, int]] = [(root, 0)]
    while stack:
        node, depth = stack.pop()
        if depth > MAX_DEPTH:
            return True
        stack.extend((child, depth + 1) for child in _children(node))
    return False


def _children(node: Clause | Term | Arg) -> list[Term | Arg]:
    if isinstance(node, Clause):
        return [*node.heads, *(part for part in (node.dominating, node.body) if part is not None)]
    if isinstance(node, Atom | Call | Record | BranchValue):
        return list(node.args)
    if isinstance(node, Conj | Disj):
        return list(node.terms)
    if isinstance(node, Compare):
        return [node.left, node.right]
    if isinstance(node, Not):
        return [node.term]
    if isinstance(node, Cast | Merge):
        return [node.arg]
    if isinstance(node, Agg):
        return [node.body] if node.target is None else [node.target, node.body]
    return []
