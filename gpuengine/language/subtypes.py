"""Subtypes of the variables of one clause, once it is known how each is represented.

A variable's type is the greatest one below all its uses in positive atoms, records and casts; the head then
asks for it, and must ask for no less.  Constants and computed values fit any subtype of their representation,
and so does everything that is negated.
"""

from __future__ import annotations

from typing import NamedTuple

from gpuengine.language import codes
from gpuengine.language.diagnostics import Reporter
from gpuengine.language.program import NUMBER, Type
from gpuengine.language.scoping import VariableInfo
from gpuengine.language.syntax import Cast, Var
from gpuengine.language.type_environment import TypeEnvironment


class Sink(NamedTuple):
    """`node` is used where `expected` is declared; its type is `given`, or else that of `variable`."""

    node: Var | Cast
    variable: VariableInfo | None
    given: Type | None
    expected: Type


def join(first: VariableInfo, second: VariableInfo) -> None:
    """Two variables are equal: their bounds are met together."""
    left, right = _representative(first), _representative(second)
    if left is not right:
        left.group = right


def _representative(info: VariableInfo) -> VariableInfo:
    while info.group is not None:
        info = info.group
    return info


def assign_types(
    variables: list[VariableInfo], sinks: list[Sink], environment: TypeEnvironment, reporter: Reporter
) -> bool:
    """Set each variable's type; False if something was reported."""
    groups: dict[int, list[VariableInfo]] = {}
    for info in variables:
        groups.setdefault(id(_representative(info)), []).append(info)
    results = [_meet(members, environment, reporter) for members in groups.values()]
    if not all(results):
        return False
    bounded = {
        id(info) for members in groups.values() if any(info.bounds for info in members) for info in members
    }
    fits = True
    for sink in () if environment.legacy else sinks:
        type_ = sink.given
        if sink.variable is not None and id(sink.variable) in bounded:
            type_ = sink.variable.type
        if type_ is not None and not environment.is_subtype(type_, sink.expected):
            fits = False
            _report(sink, type_, reporter)
    return fits


def _meet(members: list[VariableInfo], environment: TypeEnvironment, reporter: Reporter) -> bool:
    root = members[0].cell.find().type or NUMBER
    type_: Type | None = root
    bounds = [bound for info in members for bound in info.bounds if bound.name != bound.space]
    for bound in bounds:
        type_ = None if type_ is None else environment.meet(type_, bound)
    for info in members:
        info.type = type_ or root
    if type_ is not None:
        return True
    first = members[0]
    names = " and ".join(dict.fromkeys(bound.name for bound in bounds))
    message = f"the variable {first.name.partition('@')[0]} can't be {names} at the same time"
    hint = "relabel one of them with as(.., Type)"
    reporter.error(codes.NO_COMMON_SUBTYPE, message, first.start, first.end, hint)
    return False


def _report(sink: Sink, type_: Type, reporter: Reporter) -> None:
    node, expected = sink.node, sink.expected.name
    if isinstance(node, Var):
        message = f"the variable {node.name} has the type {type_.name}, which is not a subtype of {expected}"
        hint = f"relabel it: as({node.name}, {expected})"
    else:
        message = f"the type {type_.name} is not a subtype of {expected}"
        hint = f"cast to {expected}"
    reporter.error(codes.NOT_A_SUBTYPE, message, node.start, node.end, hint)
