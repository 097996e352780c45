"""What a question has besides its body: values for parameters, and the variables that are asked for.

path($start, x), !edge($start, x)               with start=1
x, z : path(x, y), edge(y, z)                   y is not asked for
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from gpuengine.errors import GpuEngineError
from gpuengine.language import parse_query
from gpuengine.language.program import Program, Rule, Variable

_PARAMETER = re.compile(r'"(?:\\.|[^"\\\n])*"|//[^\n]*|/\*.*?\*/|\$([A-Za-z_]\w*)', re.DOTALL)
_ASKED = re.compile(r"\s*(?:\?-)?\s*([A-Za-z_?]\w*(?:\s*,\s*[A-Za-z_?]\w*)*)\s*:(?![-=])")


def parse_question(text: str, program: Program, parameters: Mapping[str, Any] | None = None) -> Rule:
    """The rule of a query whose head lists the variables asked for; see the module.

    Raises `ProgramErrors` for what is wrong in the body, `GpuEngineError` for the rest.
    """
    body = with_values(text, parameters or {})
    asked = _ASKED.match(body)
    if asked is None:
        return parse_query(body, program)
    rule = parse_query(" " * asked.end() + body[asked.end() :], program)
    known = {arg.name: arg for arg in rule.head.args if isinstance(arg, Variable)}
    names = list(dict.fromkeys(part.strip() for part in asked[1].split(",")))
    for name in names:
        if name not in known:
            raise GpuEngineError(
                f"the query asks for {name}, which its body does not name\n"
                f"  hint: it names {', '.join(known) or 'no variable'}"
            )
    return replace(rule, head=replace(rule.head, args=tuple(known[name] for name in names)))


def with_values(text: str, parameters: Mapping[str, Any]) -> str:
    """A query with values in the place of its parameters; `GpuEngineError` if one of them is not used."""
    used: set[str] = set()

    def value(match: re.Match[str]) -> str:
        name = match[1]
        if name is None or name not in parameters:
            return match[0]
        used.add(name)
        return _spelled(name, parameters[name])

    replaced = _PARAMETER.sub(value, text)
    unused = [name for name in parameters if name not in used]
    if unused:
        raise GpuEngineError(
            f"the query has no parameter ${unused[0]}\n  hint: write ${unused[0]} where its value belongs"
        )
    return replaced


def _spelled(name: str, value: Any) -> str:
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return '"' + escaped.replace("\n", "\\n").replace("\t", "\\t").replace("\r", "\\r") + '"'
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, int | float) and not isinstance(value, bool) and value == value:
        spelled = f"{value:.17f}" if isinstance(value, float) and "e" in repr(value) else repr(value)
        return f"({spelled})" if value < 0 else spelled
    raise GpuEngineError(
        f"the parameter ${name} can't be {value!r}: it is a number or a text\n"
        "  hint: records are written in the query"
    )
