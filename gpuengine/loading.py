"""Facts and programs as users give them: read, checked, and made columns of ids."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from gpuengine.language.program import Constant, Relation, Rule
from gpuengine.maintenance.stated import Facts
from gpuengine.terms.dictionary import Dictionary

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(slots=True)
class Skipped:
    """Bad rows that were left out of a relation: how many, and the first few described."""

    rows: int = 0
    first_errors: list[str] = field(default_factory=list)


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


def read_rows(
    data: Any,
    relation: Relation,
    dictionary: Dictionary,
    on_error: Literal["fail", "skip"],
    params: Mapping[str, str],
    threads: int,
) -> tuple[pa.Table, Skipped]:
    """The rows of a path or of anything tabular, of the types that the relation declares."""
    from gpuengine.io import from_tabular, read_facts

    if not isinstance(data, str | os.PathLike):
        check = dictionary.bad_values
        return from_tabular(data, relation.attributes, relation=relation.name, check=check), Skipped()
    facts = read_facts(
        Path(data),
        relation.attributes,
        params,
        relation=relation.name,
        on_error=on_error,
        threads=threads,
        check=dictionary.bad_values,
    )
    return facts.table, Skipped(facts.skipped, list(facts.first_errors))


def encode_rows(table: pa.Table, relation: Relation, dictionary: Dictionary, *, intern: bool) -> Facts:
    """Rows as columns of ids; without `intern`, those with a term that nobody knows are left out."""
    rows = int(table.num_rows)
    spaces = [attribute.type.space for attribute in relation.attributes]
    if intern:
        return [dictionary.encode(space, table.column(j)) for j, space in enumerate(spaces)], rows
    known = np.ones(rows, np.bool_)
    columns = []
    for j, space in enumerate(spaces):
        ids, found = dictionary.find(space, table.column(j))
        columns.append(ids)
        known &= found
    return [column[known] for column in columns], int(np.count_nonzero(known))


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
