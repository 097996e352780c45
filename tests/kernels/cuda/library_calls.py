"""Hold the calls that a source file makes of CuPy and RMM against the installed libraries, without a GPU.

What a name stands for is known from imports and annotations only: a method called on a value whose type is
not annotated is an error by itself, so that nothing goes unchecked.
"""

from __future__ import annotations

import ast
import inspect
import re
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

LIBRARIES = ("cupy", "cupyx", "rmm")


@dataclass(frozen=True)
class Instance:
    """A value of a library's class."""

    of: Any


@dataclass
class Findings:
    """What is wrong, and the calls that were held against a signature."""

    errors: list[str] = field(default_factory=list)
    checked: set[str] = field(default_factory=set)


def check_source(source: str) -> Findings:
    """Check every attribute and call of a library in a module's source."""
    checker = _Checker()
    checker.visit(ast.parse(source))
    return checker.findings


class _Checker(ast.NodeVisitor):
    """One walk through a module; `scopes` hold what names stand for, the innermost last."""

    def __init__(self) -> None:
        self.findings = Findings()
        self.scopes: list[dict[str, Any]] = [{}]

    def complain(self, node: ast.AST, message: str) -> None:
        self.findings.errors.append(f"line {getattr(node, 'lineno', '?')}: {message}")

    # --- what names stand for ---

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            root = alias.name.partition(".")[0]
            if root in LIBRARIES:
                import_module(alias.name)
                self.scopes[-1][alias.asname or root] = import_module(alias.name if alias.asname else root)
            else:
                self.scopes[-1][alias.asname or root] = None

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        of_library = (node.module or "").partition(".")[0] in LIBRARIES
        for alias in node.names:
            value = getattr(import_module(node.module), alias.name, None) if of_library else None
            if of_library and value is None:
                self.complain(node, f"{node.module} has no {alias.name}")
            self.scopes[-1][alias.asname or alias.name] = value

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self.scopes[-1][node.name] = None
        self._inside({"self": None}, node.body)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        given = {one.arg: self._annotated(one.annotation) for one in arguments if one.annotation}
        self._inside(given, [*filter(None, [node.returns]), *node.body])

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self.generic_visit(node)
        # An attribute of `self` is known in the whole class, a name in its function.
        scope = self.scopes[-1] if isinstance(node.target, ast.Name) else self.scopes[-2]
        scope[ast.unparse(node.target)] = self._annotated(node.annotation)

    def _inside(self, names: dict[str, Any], body: list[Any]) -> None:
        self.scopes.append(names)
        for node in body:
            self.visit(node)
        self.scopes.pop()

    def _annotated(self, annotation: ast.expr) -> Any:
        found = self._resolve(annotation)
        return Instance(found) if isinstance(found, type) else None

    def _look_up(self, name: str) -> tuple[bool, Any]:
        for scope in reversed(self.scopes):
            if name in scope:
                return True, scope[name]
        return False, None

    # --- attributes and calls ---

    def visit_Attribute(self, node: ast.Attribute) -> None:
        self._resolve(node)
        if not isinstance(node.value, ast.Attribute):
            self.visit(node.value)

    def visit_Call(self, node: ast.Call) -> None:
        self.generic_visit(node)
        called = self._resolve(node.func, quiet=True)
        if called is None:
            return
        name = ast.unparse(node.func)
        given: list[Any] = list(node.args)
        if isinstance(called, Instance):
            called, given = called.of.__call__, [None, *given]
        elif isinstance(node.func, ast.Attribute):
            owner = self._resolve(node.func.value, quiet=True)
            if isinstance(owner, Instance):
                given = [None, *given]
        try:
            signature_of(called).bind(*given, **{str(word.arg): None for word in node.keywords})
        except TypeError as error:
            self.complain(node, f"{name}: {error}")
        self.findings.checked.add(name)

    def _resolve(self, node: ast.expr, quiet: bool = False) -> Any:
        """The library's object or `Instance` that an expression is; None if it has to do with none."""
        known, value = self._look_up(ast.unparse(node))
        if known:
            return value
        if isinstance(node, ast.Subscript):
            array = self._resolve(node.value, quiet)
            return array if isinstance(array, Instance) else None
        if not isinstance(node, ast.Attribute):
            return None
        owner = self._resolve(node.value, quiet)
        if owner is None:
            if not quiet and isinstance(node.value, ast.Name) and not self._look_up(node.value.id)[0]:
                self.complain(node, f"nobody knows what {node.value.id} is: annotate it")
            elif not quiet and isinstance(node.value, ast.Call | ast.Attribute | ast.Subscript):
                self._complain_of_unknown(node)
            return None
        if not hasattr(owner.of if isinstance(owner, Instance) else owner, node.attr):
            if not quiet:
                self.complain(node, f"{ast.unparse(node.value)} has no {node.attr}")
            return None
        found = getattr(owner.of if isinstance(owner, Instance) else owner, node.attr)
        return found if not isinstance(owner, Instance) or callable(found) else None

    def _complain_of_unknown(self, node: ast.Attribute) -> None:
        """An attribute of what a library's call or attribute gave, which has no annotated type."""
        root: ast.expr = node.value
        while isinstance(root, ast.Call | ast.Attribute | ast.Subscript):
            root = root.func if isinstance(root, ast.Call) else root.value
        if self._look_up(ast.unparse(root))[1] is not None:
            self.complain(node, f"nobody knows what {ast.unparse(node.value)} is: annotate it")


def signature_of(called: Any) -> inspect.Signature:
    """The signature of a function, method or class, from its docstring where it is compiled code."""
    try:
        return inspect.signature(called)
    except ValueError:
        return _documented_signature(called)


def _documented_signature(called: Any) -> inspect.Signature:
    """Cython's first line of a docstring: ``Class.name(self, int size, *, str path=None) -> type``."""
    line = (called.__doc__ or "").partition("\n")[0]
    found = re.match(r"[\w.]+\((.*)\)(\s*->.*)?$", line)
    if found is None:
        raise TypeError(f"{called!r} does not say what it takes")
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    parameters = []
    for part in re.split(r",(?![^(\[]*[)\]])", found[1]):
        declaration, has_default, _ = part.strip().partition("=")
        if declaration == "*":
            kind = inspect.Parameter.KEYWORD_ONLY
        elif declaration:
            # The name is the last word; what stands before it is its C type.
            name = declaration.rpartition(" ")[2]
            stars = name.count("*")
            of_name = {1: inspect.Parameter.VAR_POSITIONAL, 2: inspect.Parameter.VAR_KEYWORD}.get(stars, kind)
            default = None if has_default else inspect.Parameter.empty
            parameters.append(inspect.Parameter(name.lstrip("*"), of_name, default=default))
            kind = inspect.Parameter.KEYWORD_ONLY if stars == 1 else kind
    return inspect.Signature(parameters)
