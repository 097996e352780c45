"""What a question has besides its body: values for parameters, and the variables that are asked for.

path($start, x), !edge($start, x)               with start=1
x, z : path(x, y), edge(y, z)                   y is not asked for
x : path(1, x); path(x, 1)                      alternatives
x, n : edge(x, _), n = count : { path(x, _) }   aggregates, as in rules
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from gpuengine.errors import GpuEngineError
from gpuengine.language.program import Program, Rule

_MICROSECOND = timedelta(microseconds=1)
_PARAMETER = re.compile(r'"(?:\\.|[^"\\\n])*"|//[^\n]*|/\*.*?\*/|\$([A-Za-z_]\w*)', re.DOTALL)
_NAME = re.compile(r"[A-Za-z_?]\w*")
_ASKED = re.compile(r"\s*(?:\?-)?\s*([A-Za-z_?]\w*(?:\s*,\s*[A-Za-z_?]\w*)*)\s*:(?![-=])")


def parse_question(text: str, program: Program, parameters: Mapping[str, Any] | None = None) -> list[Rule]:
    """The rules of a query, one for each alternative, whose heads list the variables asked for.

    Raises `ProgramErrors` for what is wrong in the query, `GpuEngineError` for parameters that are.
    """
    from gpuengine.language.query import Asked, compile_alternatives

    body = with_values(text, parameters or {})
    asked = _ASKED.match(body)
    if asked is None:
        return compile_alternatives(body, program)
    names = {
        one[0]: Asked(one[0], asked.start(1) + one.start(), asked.start(1) + one.end())
        for one in reversed(list(_NAME.finditer(asked[1])))
    }
    return compile_alternatives(body, program, begins=asked.end(), asked=list(reversed(names.values())))


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
    value = _number(value)
    if isinstance(value, int | float) and value == value:
        spelled = f"{value:.17f}" if isinstance(value, float) and "e" in repr(value) else repr(value)
        return f"({spelled})" if value < 0 else spelled
    raise GpuEngineError(
        f"the parameter ${name} can't be {value!r}: it is a number, a text, a date or a time\n"
        "  hint: records are written in the query, and decimals are whole numbers of their last digit"
    )


def _number(value: Any) -> Any:
    """What a date, a time or a boolean is in a column that is declared so; other values as they are."""
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, datetime):
        return (value - datetime(1970, 1, 1, tzinfo=None if value.tzinfo is None else UTC)) // _MICROSECOND
    if isinstance(value, date):
        return (value - date(1970, 1, 1)).days
    if isinstance(value, time) and value.tzinfo is None:
        return (datetime.combine(date(1970, 1, 1), value) - datetime(1970, 1, 1)) // _MICROSECOND
    return value
