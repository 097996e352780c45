"""`Materialisation`: a program, the facts that are stated for it, and all that follows from them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from gpuengine.errors import GpuEngineError
from gpuengine.evaluation.fixpoint import evaluate_plan
from gpuengine.evaluation.options import Options
from gpuengine.evaluation.placement.placement import Placement
from gpuengine.evaluation.progress import Progress
from gpuengine.evaluation.rules.context import Context
from gpuengine.evaluation.rules.database import Database
from gpuengine.evaluation.rules.evaluators import Evaluators
from gpuengine.kernels.contract import Backend
from gpuengine.kernels.cpu.backend import CPU
from gpuengine.loading import declared_in
from gpuengine.planning.plan import Plan
from gpuengine.planning.prepared import Prepared
from gpuengine.schemes.contract import Scheme
from gpuengine.schemes.table import Table
from gpuengine.schemes.union import Part, Union
from gpuengine.terms.dictionary import Dictionary


@dataclass(frozen=True, slots=True)
class Storage:
    """How a relation is stored: scheme, why that one, how many facts it has, and bytes of memory.

    `counter_nbytes` are those of its derivation counters, if these are kept.
    """

    scheme: str
    why: str
    facts: int
    nbytes: int
    counter_nbytes: int = 0


@dataclass(frozen=True, eq=False)
class Materialisation:
    """What is true between two changes; replaced whole by the next.

    `stated` has a table for each relation. `database` holds what follows from them, None before anything was
    derived; `wanted` are the relations that were to be (None: all), `is_behind` says that facts were stated
    since. `progress` tells how it was computed, and `anew_seconds` how long that took: updates keep both.
    `notes`, JSON, are what a language above this one has saved with it.

    `relations` has what readers find each relation stored in, None if nothing is materialised. The next
    materialisation has most of these schemes too, so that they may be read only as `States` allows.
    """

    prepared: Prepared
    stated: Mapping[str, Table]
    dictionary: Dictionary
    database: Database | None = None
    wanted: tuple[str, ...] | None = None
    is_behind: bool = False
    progress: Progress | None = None
    anew_seconds: float = 0.0
    notes: Mapping[str, Any] = field(default_factory=dict)
    relations: Mapping[str, Scheme] | None = field(init=False)

    def __post_init__(self) -> None:
        relations: dict[str, Scheme] | None = None
        if self.database is not None:
            relations = {name: self.database.tables[name] for name in self.prepared.program.relations}
        elif not any(rule.body for rule in self.prepared.program.rules) and not self.prepared.selects:
            relations = dict(self.stated)
        object.__setattr__(self, "relations", relations)

    @classmethod
    def empty(cls, prepared: Prepared, dictionary: Dictionary | None = None) -> Materialisation:
        """Nothing stated yet, and nothing derived; a dictionary may have terms already."""
        dictionary = Dictionary() if dictionary is None else dictionary
        dictionary.learn_types(prepared.program)
        relations = prepared.program.relations
        stated = {name: Table(name, relation.arity, CPU) for name, relation in relations.items()}
        return cls(prepared, stated, dictionary)

    @property
    def plan(self) -> Plan:
        """Strata and delta variants of what was wanted."""
        return self.prepared.plan(self.wanted)

    @property
    def host_nbytes(self) -> int:
        """Bytes of the host's memory that it holds."""
        kept = self.database.tables.values() if self.database is not None else ()
        schemes = {id(scheme): scheme for scheme in (*self.stated.values(), *kept)}
        return self.dictionary.nbytes + sum(scheme.host_nbytes for scheme in schemes.values())

    def required(self, relations: Iterable[str] | None = None) -> set[str]:
        """The given relations, or all, if they can be read; raises `GpuEngineError` if not."""
        declared = self.prepared.program.relations if relations is None else relations
        found = {declared_in(self.prepared.program, name).name for name in declared}
        if self.relations is None:
            raise GpuEngineError("nothing is materialised yet: call materialise() first")
        left_out = self.plan.left_out if relations is not None else ()
        missing = sorted(name for name in found if self.prepared.stored(name) in left_out)
        if missing:
            raise GpuEngineError(
                f"{missing[0]} was left out of the last materialisation: it was not among `wanted`\n"
                "  hint: call materialise() without `wanted`, or add it there"
            )
        return found

    def storage(
        self, schemes: Mapping[str, Scheme], counter_nbytes: Callable[[str], int]
    ) -> dict[str, Storage]:
        """How each relation is stored; `schemes` are what it is read from."""
        result = {}
        choices = self.progress.schemes if self.progress is not None else {}
        for name, stored in (self.relations or {}).items():
            facts, alias = len(schemes[name]), self.prepared.aliases.get(name)
            if alias is not None:
                why = f"it holds the facts of {alias.of}, and is stored there"
                result[name] = Storage("alias", why, facts, 0)
            else:
                why = choices[name].why if name in choices else ""
                result[name] = Storage(stored.kind, why, facts, stored.nbytes, counter_nbytes(name))
        return result

    def stating(self, relation: str, backend: Backend = CPU) -> tuple[Materialisation, Table]:
        """The next one, and a table of it on a backend that holds the facts stated for a relation, to add to.

        It is a copy if relations are read from the same table.
        """
        facts = self.stated[relation]
        facts.backend.bind_thread()
        backend.bind_thread()
        facts.move_to(backend)
        if self.database is None:
            return self, facts
        if self.database.tables[relation] is facts:
            shared, facts = facts, Table(relation, facts.arity, backend)
            facts.insert(shared.rows.device_columns(), len(shared))
        return replace(self, stated={**self.stated, relation: facts}, is_behind=True), facts


def evaluate(
    stated: Materialisation,
    options: Options,
    *,
    wanted: tuple[str, ...] | None = None,
    progress: Progress,
    stop: np.ndarray,
    idle: Callable[[], Iterable[Table]] = tuple,
) -> Materialisation:
    """What a program and its stated facts come to; the tables of these are not changed.

    Relations that no rule derives are those tables themselves. `idle` are tables of others, which may leave
    the device when there is no room on it.
    """
    started = time.perf_counter()
    prepared, facts = stated.prepared, stated.stated
    plan = prepared.plan(wanted)
    database = Database(prepared.program, stated.dictionary)
    database.evaluators = Evaluators(prepared.chooser(plan))
    aliased = {alias.of for name, alias in prepared.aliases.items() if len(facts[name])}
    for name, table in facts.items():
        if name in prepared.aliases:
            continue
        if name in plan.derived or name in aliased:
            table.backend.bind_thread()
            database.tables[name].insert(table.columns(), len(table))
        else:
            database.tables[name] = table
    for name, alias in prepared.aliases.items():
        columns = [facts[name].column(j) for j in alias.permutation]
        database.tables[alias.of].insert(columns, len(facts[name]))
    view_aliases(database, prepared)
    placement = Placement(
        options.accelerator, always=options.always, idle=lambda: (*database.all_tables(), *idle())
    )
    evaluate_plan(Context(plan, database, options, progress, placement, stop))
    view_aliases(database, prepared)
    return replace(
        stated,
        database=database,
        wanted=wanted,
        is_behind=False,
        progress=progress,
        anew_seconds=time.perf_counter() - started,
    )


def view_aliases(database: Database, prepared: Prepared) -> None:
    """Have relations that are others with their columns permuted read what those are stored in now."""
    for name, alias in prepared.aliases.items():
        scheme = database.tables[alias.of]
        database.tables[name] = Union(name, [Part(scheme, alias.permutation)], Table(name, scheme.arity, CPU))
