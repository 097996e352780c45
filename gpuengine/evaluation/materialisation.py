"""All that follows from given facts: a prepared program from its tables to a database."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from gpuengine.evaluation.accelerator import Accelerator
from gpuengine.evaluation.budget import Budget
from gpuengine.evaluation.database import Database
from gpuengine.evaluation.fixpoint import Fixpoint
from gpuengine.evaluation.placement import Placement
from gpuengine.evaluation.progress import Progress
from gpuengine.kernels.cpu.backend import CPU
from gpuengine.language.program import Program
from gpuengine.planning.prepared import Prepared
from gpuengine.planning.sharing import Alias
from gpuengine.schemes.contract import Scheme
from gpuengine.schemes.table import Table
from gpuengine.schemes.union import Part, Union
from gpuengine.terms.dictionary import Dictionary


@dataclass(frozen=True, slots=True)
class Setting:
    """With what to evaluate: `memory` in bytes (None: most of what is free), `always` on the accelerator."""

    threads: int
    memory: int | None
    accelerator: Accelerator
    always: bool = False
    modules: bool = True


def evaluate(
    prepared: Prepared,
    loaded: Mapping[str, Table],
    dictionary: Dictionary,
    setting: Setting,
    *,
    wanted: tuple[str, ...] | None = None,
    progress: Progress,
    stop: np.ndarray,
    idle: Callable[[], Iterable[Table]] = tuple,
) -> Database:
    """All that follows from the loaded facts, by the relation; the tables of `loaded` are not changed.

    Relations that no rule derives are those tables themselves. `idle` are tables of others, which may leave
    the device when there is no room on it.
    """
    plan = prepared.plan(wanted)
    derived = {name for stratum in plan.strata for name in stratum.relations}
    database = Database(prepared.program, dictionary)
    database.evaluators = prepared.choose_evaluators(plan)
    aliased = {alias.of for name, alias in prepared.aliases.items() if len(loaded[name])}
    for name, facts in loaded.items():
        if name in prepared.aliases:
            continue
        if name in derived or name in aliased:
            facts.backend.bind_thread()
            database.tables[name].insert(facts.columns(), len(facts))
        else:
            database.tables[name] = facts
    for name, alias in prepared.aliases.items():
        table = database.tables[alias.of]
        table.insert([loaded[name].column(j) for j in alias.permutation], len(loaded[name]))
        database.tables[name] = alias_view(name, alias, table)
    placement = Placement(
        setting.accelerator, always=setting.always, idle=lambda: (*database.all_tables(), *idle())
    )
    Fixpoint(
        plan,
        database,
        threads=setting.threads,
        budget=Budget(setting.memory),
        progress=progress,
        limits=_size_limits(prepared.program),
        placement=placement,
        modules=setting.modules,
        stop=stop,
    ).run()
    return database


def alias_view(name: str, alias: Alias, scheme: Scheme) -> Scheme:
    """A relation that is another one with its columns permuted."""
    return Union(name, [Part(scheme, alias.permutation)], Table(name, scheme.arity, CPU))


def _size_limits(program: Program) -> dict[str, int]:
    return {d.relation: int(d.params["n"]) for d in program.directives if d.kind == "limitsize"}
