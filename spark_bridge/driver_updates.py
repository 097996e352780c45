"""Updates of saved materialisations by an engine on the driver, which maintains what changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from gpuengine.errors import Interrupted
from gpuengine.evaluation.interruptible import run_interruptibly
from gpuengine.evaluation.materialisation import Materialisation, view_aliases
from gpuengine.evaluation.options import Options
from gpuengine.evaluation.progress import Progress
from gpuengine.evaluation.rules.database import Database
from gpuengine.evaluation.rules.evaluators import Evaluators
from gpuengine.kernels.cpu.backend import CPU
from gpuengine.maintenance.delta import Delta, Deltas
from gpuengine.maintenance.updater import Updated, Updater
from gpuengine.planning.prepared import Prepared
from gpuengine.schemes.contract import Scheme
from gpuengine.schemes.table import Table
from gpuengine.spark_bridge.carriers import Carriers
from gpuengine.spark_bridge.tasks import CarriedProgram, Results

if TYPE_CHECKING:
    import pyarrow as pa

Batches = Iterable["pa.Table | pa.RecordBatch"]

_ANEW_SECONDS = 60.0
"""As if computing anew took so long: maintaining is given up only if it drags on."""


@dataclass(frozen=True)
class Piece:
    """Carriers to add to what is saved of a relation, or to save in place of it; None: no facts."""

    table: pa.Table | None
    replaces: bool


@dataclass(frozen=True)
class DriverUpdate:
    """What an update changes in the facts that were given, and in all relations."""

    stated: Mapping[str, Piece]
    relations: Mapping[str, Piece]


class DriverState:
    """All relations of a materialisation, in tables on the driver; good for one update."""

    def __init__(
        self,
        carried: Prepared,
        carriers: Carriers,
        stated: Mapping[str, Batches],
        derived: Mapping[str, Batches],
    ) -> None:
        """`stated` are the facts that were given, `derived` all facts of the relations that have rules."""
        prepared = replace(carried, schemes={})
        self._program = CarriedProgram(prepared, carriers)
        empty = Materialisation.empty(prepared)
        database = Database(prepared.program, empty.dictionary)
        database.evaluators = Evaluators(prepared.chooser())
        for name, table in empty.stated.items():
            self._program.insert(table, stated.get(name, ()), empty.dictionary)
            database.tables[name] = table
        for name, batches in derived.items():
            table = database.tables[name] = Table(name, prepared.program.relations[name].arity, CPU)
            self._program.insert(table, batches, empty.dictionary)
        view_aliases(database, prepared)
        self._facts = replace(empty, database=database, progress=Progress(), anew_seconds=_ANEW_SECONDS)

    def update(self, plus: Mapping[str, Batches], minus: Mapping[str, Batches]) -> DriverUpdate:
        """State facts, and state others no longer, with all that follows. Ctrl-C raises `Interrupted`."""
        deltas = {name: self._delta(name, plus, minus) for name in plus.keys() | minus.keys()}
        new = {name: _rest(delta.plus, self._facts.stated[name]) for name, delta in deltas.items()}
        after, changed = self._updated(deltas)
        assert after.database is not None
        stated = {
            name: self._piece(new[name], after.stated[name], replaces=name in minus)
            for name in deltas
            if name in minus or len(new[name])
        }
        relations = {
            name: self._piece(delta.plus, after.database.tables[name], replaces=len(delta.minus) > 0)
            for name, delta in changed.items()
            if len(delta.minus) or len(delta.plus)
        }
        return DriverUpdate(stated, relations)

    def _delta(self, name: str, plus: Mapping[str, Batches], minus: Mapping[str, Batches]) -> Delta:
        sides = []
        for given in (minus, plus):
            facts = Table(name, self._facts.stated[name].arity, CPU)
            self._program.insert(facts, given.get(name, ()), self._facts.dictionary)
            sides.append((facts.columns(), len(facts)))
        return Delta.listed(name, self._facts.stated[name].arity, *sides)

    def _updated(self, deltas: Deltas) -> Updated:
        updater, progress = Updater(Options.read(modules=False)), Progress()
        outcomes: list[Updated] = []
        late = run_interruptibly(
            lambda: outcomes.append(updater.update(self._facts, self._facts.prepared, deltas, progress)),
            updater.stop,
            progress,
            None,
        )
        if late is not None:
            raise Interrupted("interrupted; nothing was changed") from late
        return outcomes[0]

    def _piece(self, gained: Table, whole: Scheme, *, replaces: bool) -> Piece:
        facts = whole if replaces else gained
        results = Results(self._program, {whole.name: facts}, self._facts.dictionary)
        return Piece(results.table(whole.name) if len(facts) else None, replaces)


def _rest(facts: Table, known: Table) -> Table:
    """The facts that are not among the known ones."""
    columns, count = facts.columns(), len(facts)
    is_new = ~known.contains(columns, count) if count else np.zeros(0, np.bool_)
    rest = Table(facts.name, facts.arity, CPU)
    rest.insert([column[is_new] for column in columns], int(is_new.sum()))
    return rest
