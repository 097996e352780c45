"""Facts and programs as users give them: read, checked, and made columns of ids."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Mapping, Sequence
from contextvars import copy_context
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from gpuengine.errors import DataError, GpuEngineError
from gpuengine.language.program import Constant, Program, Relation, Rule
from gpuengine.terms.dictionary import Dictionary

if TYPE_CHECKING:
    import pyarrow as pa

Facts = tuple[list[np.ndarray], int]
"""Columns of ids and how many rows they have."""
_MANY_ROWS = 1 << 17
"""Fewer are not worth threads."""


@dataclass(slots=True)
class Skipped:
    """Bad rows that were left out of a relation: how many, and the first few described."""

    rows: int = 0
    first_errors: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class EncodedFacts:
    """Facts as columns of ids of the engine's own dictionary, as `Engine.load` and `Update` take them."""

    columns: list[np.ndarray]
    rows: int


def as_source(program: str | os.PathLike[str]) -> str | Path:
    """A path if it is one or looks like one (one line that ends in .dl or names a file), else text."""
    if not isinstance(program, str):
        return Path(program)
    if "\n" not in program and (program.strip().endswith(".dl") or (program and _is_file(program))):
        return Path(program)
    return program


def _is_file(name: str) -> bool:
    try:
        return Path(name).is_file()
    except (OSError, ValueError):  # such as a name that is too long for one
        return False


def as_directories(given: str | os.PathLike[str] | Iterable[str | os.PathLike[str]]) -> list[Path]:
    """Directories as users give them: one, or several."""
    if isinstance(given, str | os.PathLike):
        return [Path(given)]
    if not isinstance(given, Iterable):
        raise GpuEngineError(f"include_dirs: {given!r} is no path of a directory, nor several of them")
    return [Path(directory) for directory in given]


def as_macros(given: Mapping[str, str | int] | None) -> dict[str, str]:
    """Macros as users give them, by name; a number stands for its digits."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise GpuEngineError(f"macros go by name, as macros={{'N': '10'}}, not {given!r}")
    for name, value in given.items():
        if not isinstance(name, str) or not isinstance(value, str | int) or isinstance(value, bool):
            raise GpuEngineError(f"macros: {name!r}: {value!r} is not a str, as in macros={{'N': '10'}}")
    return {name: str(value) for name, value in given.items()}


def as_names(names: str | Iterable[str]) -> Iterable[str]:
    """Names of relations as users give them: one, or several."""
    if not isinstance(names, Iterable):
        raise GpuEngineError(f"wanted: {names!r} is no name of a relation, nor several of them")
    return (names,) if isinstance(names, str) else names


def declared_in(program: Program, name: str) -> Relation:
    """A relation of a program, by the name that a user gives."""
    if not isinstance(name, str):
        raise GpuEngineError(f"the name of a relation is a str, not {type(name).__name__}")
    if name not in program.relations:
        near = difflib.get_close_matches(name, program.relations, 1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise GpuEngineError(f"no relation {name!r} in the program{hint}")
    return program.relations[name]


def check_arguments(data: Any, on_error: str, params: Mapping[str, Any] | None) -> None:
    """Raise `DataError` for what can't be said of data: `params` are those of files."""
    if on_error not in ("fail", "skip"):
        raise DataError(f"on_error={on_error!r} is not known\n  hint: on_error='fail' or on_error='skip'")
    if params is None:
        return
    if not isinstance(params, Mapping):
        raise DataError(
            f"params is a mapping of parameters of .input to their values, not {type(params).__name__}"
        )
    if params and not isinstance(data, str | os.PathLike):
        raise DataError(
            f"params ({', '.join(map(str, params))}) say how a file is read, "
            f"and {type(data).__name__} is none\n  hint: leave them out, and change the data itself"
        )
    for key, value in params.items():
        if not isinstance(key, str) or not isinstance(value, str | bool):
            raise DataError(f"params: {key!r}: {value!r} is not a str, as in params={{'delimiter': ','}}")


def check_on_device(relation: str, nulls: Any, dates: str | None) -> None:
    """Raise `DataError` for what is said of data on a device, where it can't be done."""
    if not (isinstance(nulls, str) and nulls == "fail") or dates is not None:
        raise DataError(
            f"{relation}: nulls= and dates= are for data on the host\n"
            "  hint: df.dropna(), df.fillna(value) and astype() do it there, df.to_arrow() brings it here"
        )


def _as_text(params: Mapping[str, Any] | None) -> dict[str, str]:
    """Parameters as a program writes them."""
    return {k: str(v).lower() if isinstance(v, bool) else v for k, v in (params or {}).items()}


def read_rows(
    data: Any,
    relation: Relation,
    dictionary: Dictionary,
    on_error: Literal["fail", "skip"],
    params: Mapping[str, Any] | None,
    threads: int,
    nulls: Any = "fail",
    dates: str | None = None,
) -> tuple[pa.Table, Skipped]:
    """The rows of a path or of anything tabular, of the types that the relation declares."""
    from gpuengine.io import from_tabular, read_facts
    from gpuengine.io.admission import Admission

    check_arguments(data, on_error, params)
    admission = Admission(nulls, dates)
    if not isinstance(data, str | os.PathLike):
        table = from_tabular(
            data, relation.attributes, relation=relation.name, terms=dictionary, admission=admission
        )
        return table, Skipped()
    facts = read_facts(
        Path(data),
        relation.attributes,
        _as_text(params),
        relation=relation.name,
        on_error=on_error,
        threads=threads,
        terms=dictionary,
        admission=admission,
    )
    return facts.table, Skipped(facts.skipped, list(facts.first_errors))


def encode_rows(
    table: pa.Table, relation: Relation, dictionary: Dictionary, *, intern: bool, threads: int = 1
) -> Facts:
    """Rows as columns of ids; without `intern`, those with a term that nobody knows are left out."""
    rows = int(table.num_rows)
    spaces = [attribute.type.space for attribute in relation.attributes]
    if intern:
        return _encode_columns(table, spaces, dictionary, threads), rows
    mask = np.ones(rows, np.bool_)
    columns = []
    for j, space in enumerate(spaces):
        ids, is_known = dictionary.find(space, table.column(j))
        columns.append(ids)
        mask &= is_known
    return [column[mask] for column in columns], int(np.count_nonzero(mask))


def _encode_columns(
    table: pa.Table, spaces: Sequence[str], dictionary: Dictionary, threads: int
) -> list[np.ndarray]:
    """The ids of all columns; large ones of text side by side, if there are several."""

    def encode(column: int) -> np.ndarray:
        return dictionary.encode(spaces[column], table.column(column))

    if threads < 2 or table.num_rows < _MANY_ROWS or spaces.count("symbol") < 2:
        return [encode(column) for column in range(len(spaces))]
    from concurrent.futures import ThreadPoolExecutor

    limited = [copy_context() for _ in spaces]
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(lambda column: limited[column].run(encode, column), range(len(spaces))))


def encode_rule_facts(rules: Iterable[Rule], dictionary: Dictionary) -> dict[str, Facts]:
    """The rules without bodies, by relation, as columns of ids."""
    rows: dict[str, list[list[int]]] = {}
    for rule in rules:
        if not rule.body:
            ids = [dictionary.intern_constant(a) for a in rule.head.args if isinstance(a, Constant)]
            rows.setdefault(rule.head.relation, []).append(ids)
    result = {}
    for name, facts in rows.items():
        matrix = np.array(facts, np.uint32).reshape(len(facts), -1)
        result[name] = list(np.ascontiguousarray(matrix.T)), len(facts)
    return result
