"""The memory budget: foresee running out, and say which rule and sizes did it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import NoReturn

from gpuengine.errors import MemoryBudgetError
from gpuengine.limits import default_memory, show_size
from gpuengine.schemes.contract import Scheme

ROW_BYTES = 4
"""What a value of a row takes in a table at least."""
_TABLE_ROW_BYTES = 2 * ROW_BYTES
"""What a row of two columns takes in a table at least."""


class Budget:
    """How much host memory the tables of one evaluation may take.

    This foresees by the sizes that are known. What the process really holds is watched by `gpuengine.limits`.
    """

    def __init__(self, limit: int | None = None) -> None:
        self._given = limit

    @cached_property
    def limit(self) -> int:
        """In bytes; most of what is free if none was given."""
        return default_memory() if self._given is None else self._given

    def check(
        self, tables: Iterable[Scheme], growing: Scheme, rule: str, others: Mapping[str, int] | None = None
    ) -> None:
        """Raise if the tables are over the limit; `growing` and `rule` are what is being derived.

        `others` are bytes, by name, of what is kept besides.
        """
        sizes = {table.name: table.host_nbytes for table in tables} | dict(others or {})
        total = sum(sizes.values())
        if total > self.limit:
            largest = sorted(sizes, key=lambda name: -sizes[name])[:3]
            shown = ", ".join(f"{name} {show_size(sizes[name])}" for name in largest)
            limit, taken = show_size(self.limit), show_size(total)
            raise MemoryBudgetError(
                f"out of the memory budget of {limit}: tables take {taken} ({shown})\n"
                f"  while {growing.name} has {len(growing):,} facts, deriving by: {rule}\n"
                "  hint: raise it with --memory, make the rule more selective, or output less"
            )

    def check_closure(self, name: str, pairs: float) -> None:
        """Raise if a closure of about so many pairs is far too large for a table, before it is derived."""
        if pairs * _TABLE_ROW_BYTES > 2 * self.limit:
            raise MemoryBudgetError(
                f"{name} was asked for as a table, but has about {pairs:,.0f} facts: they take "
                f"{show_size(pairs * _TABLE_ROW_BYTES)} or more, and the memory budget is "
                f"{show_size(self.limit)}\n"
                f"  hint: leave out {name}=table, so that it becomes a closure, or raise it with --memory"
            )

    def refuse_sets(self, names: str, needed: int) -> NoReturn:
        """Say that even the compact form of a closure does not fit."""
        raise MemoryBudgetError(
            f"out of the memory budget of {show_size(self.limit)}: what the nodes of {names} reach takes "
            f"{show_size(needed)} or more, kept as a closure\n"
            "  hint: raise it with --memory, or make the relation smaller"
        )

    def check_answers(self, rows: int, columns: int) -> None:
        """Raise if so many answers of a query are more than fit; they are collected, then made distinct."""
        if 8 * columns * rows > self.limit:
            raise MemoryBudgetError(
                f"out of the memory budget of {show_size(self.limit)}: "
                f"the query has more than {rows:,} answers\n"
                "  hint: bind more of its variables, or raise the budget with --memory"
            )

    def check_listing(self, name: str, facts: int, bytes_each: int) -> None:
        """Raise if the facts of a relation that is kept compactly do not fit, before they are listed."""
        if facts * bytes_each > self.limit:
            raise MemoryBudgetError(
                f"{name} has {facts:,} facts: listed at once they take {show_size(facts * bytes_each)}, "
                f"more than the memory budget of {show_size(self.limit)}\n"
                "  hint: read them in batches(), ask for some of them with a query, or write them to a file"
            )
