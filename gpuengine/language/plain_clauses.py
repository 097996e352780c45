"""Clauses that need no inference: atoms over variables and strings, each variable of one declared type.

Rules that programs write (ontologies, say) are of this kind, and come by the thousand. What is not plain,
or is wrong, is left to `inference` and `lowering`, which say the same of what is.
"""

from __future__ import annotations

from gpuengine.language.components import Scope
from gpuengine.language.declarations import Declarations
from gpuengine.language.lowering import LoweredRule
from gpuengine.language.normalise import Plain
from gpuengine.language.program import SYMBOL, Atom, AtomArg, Constant, Kind, Rule, Type, Variable, Wildcard
from gpuengine.language.source import SourceMap
from gpuengine.language.syntax import Atom as AtomSyntax
from gpuengine.language.syntax import Clause, Str, Var, Wild
from gpuengine.language.type_environment import UNKNOWN

_WILDCARD = Wildcard()


class PlainClause:
    """One clause on its way to a rule; `rule` gives None as soon as it turns out not to be plain."""

    def __init__(self, declarations: Declarations, scope: Scope, sources: SourceMap) -> None:
        self._declarations = declarations
        self._scope = scope
        self._sources = sources
        self._variables: dict[str, Variable] = {}
        self._places: dict[str, tuple[int, int]] = {}

    def rule(self, clause: Clause, head: AtomSyntax, body: list[Plain]) -> LoweredRule | None:
        """The core rule of one head and one body of a clause."""
        for arg in head.args:
            if isinstance(arg, Var):
                self._places.setdefault(arg.name, (arg.start, arg.end))
        atoms = [self._atom(part, reads=True) if isinstance(part, AtomSyntax) else None for part in body]
        core_head = self._atom(head, reads=False)
        if core_head is None or None in atoms:
            return None
        span = self._sources.span(clause.start, clause.end)
        text = self._sources.text(clause.start, clause.end)
        rule = Rule(core_head, tuple(atom for atom in atoms if atom is not None), span, text)
        return LoweredRule(rule, clause.start, clause.end, self._places)

    def _atom(self, atom: AtomSyntax, *, reads: bool) -> Atom | None:
        """An atom; only one that is read binds variables, or has wildcards."""
        relations = self._declarations.relations
        full = self._scope.resolve(atom.name.text, relations)
        if full is None or len(atom.args) != relations[full].arity:
            return None
        args: list[AtomArg] = []
        for arg, attribute in zip(atom.args, relations[full].attributes, strict=True):
            if isinstance(arg, Var):
                variable = self._variable(arg, attribute.type, reads=reads)
                if variable is None:
                    return None
                args.append(variable)
            elif isinstance(arg, Str) and attribute.type.kind is Kind.SYMBOL:
                args.append(Constant(arg.value, SYMBOL))
            elif isinstance(arg, Wild) and reads:
                args.append(_WILDCARD)
            else:
                return None
        return Atom(full, tuple(args), self._sources.span(atom.start, atom.end))

    def _variable(self, var: Var, declared: Type, *, reads: bool) -> Variable | None:
        if declared is UNKNOWN:
            return None
        is_root = declared.name == declared.space
        type_ = self._declarations.environment.roots[declared.space] if is_root else declared
        variable = self._variables.get(var.name)
        if variable is not None:
            return variable if variable.type == type_ else None
        if not reads:
            return None
        self._places.setdefault(var.name, (var.start, var.end))
        variable = self._variables[var.name] = Variable(var.name, type_)
        return variable
