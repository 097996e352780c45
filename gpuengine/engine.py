"""`Engine`: a program, its facts, and its materialisation."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from gpuengine.answering import answer
from gpuengine.errors import GpuEngineError, Interrupted, StoreError
from gpuengine.evaluation.accelerator import find_accelerator
from gpuengine.evaluation.budget import Budget, parse_size
from gpuengine.evaluation.database import Database
from gpuengine.evaluation.failures import device_failures
from gpuengine.evaluation.interruptible import Watcher, run_interruptibly
from gpuengine.evaluation.materialisation import Setting, alias_view, evaluate
from gpuengine.evaluation.progress import Progress
from gpuengine.evaluation.thresholds import Thresholds
from gpuengine.kernels.contract import Backend, DeviceMemoryError
from gpuengine.kernels.cpu import evaluation_kernels
from gpuengine.kernels.cpu.backend import CPU
from gpuengine.kernels.cpu.jit import load_in_background
from gpuengine.language import parse_query
from gpuengine.language.editing import ProgramText
from gpuengine.language.program import Attribute, Program, Relation, Rule, Variable
from gpuengine.loading import Skipped, as_source, encode_rows, encode_rule_facts, read_rows
from gpuengine.maintenance.persistence import Durable, snapshot_of
from gpuengine.maintenance.stated import Facts
from gpuengine.maintenance.transaction import Update
from gpuengine.maintenance.updater import Subscriber, Updater
from gpuengine.planning.evaluators import check_evaluated
from gpuengine.planning.plan import Plan
from gpuengine.planning.prepared import Prepared, prepare
from gpuengine.planning.sharing import Alias, resolve
from gpuengine.planning.strata import body_relations
from gpuengine.relation import RelationView
from gpuengine.schemes.contract import Scheme
from gpuengine.schemes.table import Table
from gpuengine.terms.dictionary import Dictionary

if TYPE_CHECKING:
    from gpuengine.maintenance.store import Store


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


class Engine:
    """Holds a checked program, the facts loaded into it, and what follows from them.

    Life-cycle: made from a program (errors raise `ProgramErrors`, nothing is half made); `load` adds
    facts; `materialise` computes every consequence; ``engine[name]`` reads a relation. `update` then changes
    facts and rules, and what follows from them with them; `save` and `gpuengine.open` keep all of it on disk.
    Loading after materialising is allowed: the results stay as they were until the next `materialise` or
    `update`. A failed or interrupted operation leaves the engine as it was before.

    A `ProgramText` is a program whose facts are restored from elsewhere.

    `schemes` say how relations are stored, as ``{"path": "closure"}``: ``table``, ``closure``,
    ``equivalence``, ``union`` or ``auto`` (the default), by the shape of their rules and the facts; ``*`` is
    all relations. `evaluators` say by what rules are evaluated, by relation or, as ``{"path:2": "join"}``, by
    rule: ``join`` plans, a ``hypertree`` of the body, joins in the order ``written``, or ``auto`` (the
    default), a hypertree for a body with a cycle where that is expected to cost less. `modules` off evaluates
    transitivity on tables rule by rule. `counting` has updates keep for each fact by how many rule instances
    it is derived: that takes memory and, to begin with, time, and makes deletions overdelete less.

    `backend` says where rules run: ``"cpu"``; ``"cuda"``, on a GPU (number `device`, using up to
    `device_memory` of it); or ``"auto"``, on a GPU if there is one and the data is large enough. A `Backend`
    object is used as ``auto`` uses a GPU. `thresholds` say what is large enough.
    """

    def __init__(
        self,
        program: str | os.PathLike[str] | ProgramText,
        *,
        threads: int | None = None,
        memory: str | int | None = None,
        backend: str | Backend = "auto",
        device: int = 0,
        device_memory: str | int | None = None,
        thresholds: Thresholds | None = None,
        schemes: Mapping[str, str] | None = None,
        evaluators: Mapping[str, str] | None = None,
        modules: bool = True,
        counting: bool = False,
        include_dirs: Sequence[os.PathLike[str]] = (),
        macros: Mapping[str, str] | None = None,
    ) -> None:
        load_in_background(evaluation_kernels())
        device_bytes = parse_size(device_memory) if device_memory is not None else None
        self.accelerator = find_accelerator(backend, device, device_bytes, thresholds)
        self._always_accelerate = backend == "cuda"
        self.threads = threads or len(os.sched_getaffinity(0))
        self.memory = parse_size(memory) if memory is not None else None
        text = program
        if not isinstance(text, ProgramText):
            directories = [Path(directory) for directory in include_dirs]
            text = ProgramText.read(as_source(text), include_dirs=directories, macros=macros)
        self.asked_schemes = dict(schemes or {})
        self.asked_evaluators = dict(evaluators or {})
        self.prepared = self.prepare(text)
        self.modules = modules
        self.counting = counting
        self.dictionary = Dictionary(self.program)
        self.progress: Progress | None = None
        self.skipped: dict[str, Skipped] = {}
        self.loaded = {name: Table(name, r.arity, CPU) for name, r in self.program.relations.items()}
        self.database: Database | None = None
        self.has_pending = False
        self.anew_seconds = 0.0
        self.wanted: tuple[str, ...] | None = None
        self._left_out: frozenset[str] = frozenset()
        self._updater = Updater(self)
        self._store: Store | None = None
        if not isinstance(program, ProgramText):
            check_evaluated(self.program, self.source, self.prepared.evaluators)
            for name, facts in self.encode_rule_facts(self.program.rules).items():
                self.loaded[name].insert(*facts)

    @property
    def text(self) -> ProgramText:
        """The program as text, and how it was edited since."""
        return self.prepared.text

    @property
    def source(self) -> Program:
        """The program as it was written."""
        return self.prepared.source

    @property
    def program(self) -> Program:
        """The program as it is evaluated."""
        return self.prepared.program

    @property
    def aliases(self) -> Mapping[str, Alias]:
        """Relations that are stored as others."""
        return self.prepared.aliases

    def prepare(self, text: ProgramText) -> Prepared:
        """A program made ready, with the schemes and evaluators that were asked for."""
        return prepare(text, self.asked_schemes, self.asked_evaluators)

    @property
    def backend(self) -> str:
        """The name of the accelerator if one has been opened, else ``cpu``."""
        return self.accelerator.backend.name if self.accelerator.backend is not None else CPU.name

    @property
    def relations(self) -> Mapping[str, Relation]:
        """The declared relations by name."""
        return self.program.relations

    def load(
        self,
        relation: str,
        data: Any,
        *,
        on_error: Literal["fail", "skip"] = "fail",
        params: Mapping[str, str] | None = None,
    ) -> int:
        """Add facts to a relation; returns how many rows were read.

        `data` is a path (file, directory or glob; text, Parquet or Arrow by extension) or anything
        tabular: Arrow, pandas, Polars, NumPy, a list of tuples, any object with the Arrow PyCapsule
        protocol, CuPy, cuDF, any array with `__cuda_array_interface__` or DLPack. Raises `DataError` and
        loads nothing if something does not fit; with ``on_error="skip"`` bad rows of files are left out
        and counted in `skipped`. What was materialised stays as it is until the next `materialise` or
        `update`.
        """
        from gpuengine.io.arrow_device import unpacked
        from gpuengine.io.device import is_on_device

        declared = self.declared(relation)
        if (
            not isinstance(data, str | os.PathLike)
            and declared.arity
            and is_on_device(data := unpacked(data))
        ):
            return self._load_from_device(declared, data)
        columns, rows = self.encode_facts(declared, data, on_error=on_error, params=params)
        self._own_facts(relation).insert(columns, rows)
        return rows

    def encode_facts(
        self,
        declared: Relation,
        data: Any,
        *,
        on_error: Literal["fail", "skip"] = "fail",
        params: Mapping[str, str] | None = None,
        intern: bool = True,
    ) -> Facts:
        """Facts given as to `load` as columns of ids; without `intern`, those with unknown terms left out."""
        table, skipped = read_rows(data, declared, self.dictionary, on_error, params or {}, self.threads)
        if skipped.rows:
            known = self.skipped.setdefault(declared.name, Skipped())
            known.rows += skipped.rows
            known.first_errors += skipped.first_errors
        return encode_rows(table, declared, self.dictionary, intern=intern)

    def encode_rule_facts(self, rules: Iterable[Rule]) -> dict[str, Facts]:
        """Those of the rules that are facts, by relation, as columns of ids."""
        return encode_rule_facts(rules, self.dictionary)

    def learn_types(self, program: Program) -> None:
        """Know the types that came with rules."""
        self.dictionary.learn_types(program)

    def as_source(self, program: str | os.PathLike[str]) -> str | Path:
        """A program or rules given as text or as a path."""
        return as_source(program)

    def plan(self, wanted: Iterable[str] | None = None) -> Plan:
        """Strata and delta variants; with `wanted`, only what those relations depend on."""
        return self.prepared.plan(wanted)

    def materialise(self, *, wanted: Iterable[str] | None = None, watch: Watcher | None = None) -> Engine:
        """Compute all consequences of the loaded facts; returns the engine.

        `wanted` limits the work to the relations named and what they depend on. `watch` is called
        about ten times a second with the progress. Ctrl-C stops within a second, raises
        `Interrupted`, and leaves the earlier results in place.
        """
        names = None if wanted is None else tuple(self.declared(name).name for name in wanted)
        if self._updater.durable is not None:
            self._updater.compute_anew(names, watch)
            return self
        stop, progress = np.zeros(1, np.int64), Progress()
        found: list[Database] = []
        late = run_interruptibly(
            lambda: found.append(self.evaluate(self.prepared, self.loaded, names, progress, stop)),
            stop,
            progress,
            watch,
        )
        if late is not None:
            raise Interrupted("interrupted; nothing was changed") from late
        self._updater.forget()
        self.adopt(self.prepared, self.loaded, found[0], names)
        return self

    def evaluate(
        self,
        prepared: Prepared,
        loaded: Mapping[str, Table],
        wanted: tuple[str, ...] | None,
        progress: Progress,
        stop: np.ndarray,
    ) -> Database:
        """All that follows from the given facts; changes nothing of the engine but its `progress`."""
        earlier = self.database.tables if self.database is not None else {}
        database = evaluate(
            prepared,
            loaded,
            self.dictionary,
            Setting(self.threads, self.memory, self.accelerator, self._always_accelerate, self.modules),
            wanted=wanted,
            progress=progress,
            stop=stop,
            idle=lambda: [table for table in earlier.values() if isinstance(table, Table)],
        )
        self.progress = progress
        self.anew_seconds = progress.seconds
        return database

    def adopt(
        self,
        prepared: Prepared,
        loaded: dict[str, Table] | None = None,
        database: Database | None = None,
        wanted: tuple[str, ...] | None = None,
    ) -> None:
        """Go on with another program, or with all that a materialisation is: facts, and what was wanted."""
        is_same = prepared is self.prepared and database is None
        self.prepared = prepared
        self.loaded = self.loaded if loaded is None else loaded
        if database is not None:
            self.database = database
            self.wanted = wanted
            self.has_pending = False
        assert self.database is not None
        for name, alias in self.aliases.items():
            self.database.tables[name] = alias_view(name, alias, self.database.tables[alias.of])
        if is_same:
            return
        plan = prepared.plan(self.wanted)
        self._left_out = frozenset(rule.head.relation for rule in plan.dropped if rule.body)

    def update(self, *, watch: Watcher | None = None) -> Update:
        """Begin a transaction: ``with engine.update() as u: u.insert("edge", table)``.

        When the block ends, everything that was asked for happens, or, if something fails, nothing.
        An engine that has not materialised yet does so then. `watch` is called as by `materialise`.
        """
        if self._store is not None and self._store.read_only:
            raise StoreError(
                f"{self._store.path} was opened read-only\n  hint: open it without read_only to change it"
            )
        return Update(self, self._updater, watch)

    def save(self, path: str | os.PathLike[str], *, replace: bool = False) -> None:
        """Write a knowledge base that `gpuengine.open` goes on with: a directory, new or empty.

        With `replace`, one that is there already is replaced; until that is done it stays what it was.
        """
        from gpuengine.maintenance.store import Store

        if self.database is None or self.has_pending:
            self.materialise(wanted=self.wanted)
        assert self.database is not None
        hidden = self._updater.maintainer().hidden
        Store.create(
            path,
            snapshot_of(self, self.prepared, self.loaded, self.database, hidden, self.wanted),
            replace=replace,
        )

    def attach(self, store: Store) -> None:
        """Have every update written to a store, which has what the engine has, from now on."""
        self._store = store
        if not store.read_only:
            self._updater.durable = Durable(store, self)

    def close(self) -> None:
        """Let go of the knowledge base that the engine was opened from; others may write to it then."""
        if self._store is not None:
            self._store.close()

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def subscribe(self, relation: str, callback: Subscriber) -> Callable[[], None]:
        """Call `callback` with each `RelationChange` of a relation that an update makes, after it is done.

        Call what is returned to end that. An error that a callback raises comes out of the update's `with`
        block, but the update has happened.
        """
        self.declared(relation)
        return self._updater.subscribe(relation, callback)

    @property
    def storage(self) -> Mapping[str, Storage]:
        """How each relation of the last materialisation is stored, why, and in how many bytes."""
        result = {}
        schemes = self.progress.schemes if self.progress is not None else {}
        for name, scheme in self._tables().items():
            if name in self.aliases:
                why = f"it holds the facts of {self.aliases[name].of}, and is stored there"
                result[name] = Storage("alias", why, len(scheme), 0)
            elif name in self.program.relations:
                choice = schemes.get(name)
                why = choice.why if choice is not None else ""
                counters = self._updater.counter_nbytes(name)
                result[name] = Storage(scheme.kind, why, len(scheme), scheme.nbytes, counters)
        return result

    def __getitem__(self, relation: str) -> RelationView:
        """The facts of a relation: of the last materialisation, or as loaded if it has no rules."""
        declared = self.declared(relation)
        self._require({relation})
        scheme = self._tables()[relation]
        return RelationView(relation, declared.attributes, scheme, self.dictionary, Budget(self.memory))

    def query(self, text: str) -> RelationView:
        """The answers of a conjunctive query such as ``path(1, x), !edge(1, x)`` over the materialisation.

        One column for each named variable, in order of first appearance; distinct rows. A query
        without variables has one row of no columns if it holds, none if not.
        """
        rule = resolve(parse_query(text, self.program), self.aliases)
        self._require(body_relations(rule.body))
        tables = self._tables()
        attributes = [Attribute(arg.name, arg.type) for arg in rule.head.args if isinstance(arg, Variable)]
        database = Database(self.program, self.dictionary)
        database.tables.update(tables)
        answers = answer(rule, database, Budget(self.memory), text)
        return RelationView("?", attributes, answers, self.dictionary, Budget(self.memory))

    def _tables(self) -> Mapping[str, Scheme]:
        if self.database is not None:
            return self.database.tables
        if any(rule.body for rule in self.program.rules):
            raise GpuEngineError("nothing is materialised yet: call materialise() first")
        return self.loaded

    def _require(self, relations: set[str]) -> None:
        missing = sorted(name for name in relations if self.prepared.stored(name) in self._left_out)
        if missing:
            raise GpuEngineError(
                f"{missing[0]} was left out of the last materialisation: it was not among `wanted`\n"
                "  hint: call materialise() without `wanted`, or add it there"
            )

    def _load_from_device(self, relation: Relation, data: Any) -> int:
        """Add facts that others have on a device; on the host if the device has no room for the table."""
        from gpuengine.exchange.incoming import incoming_facts

        name = relation.name
        with device_failures(lambda: f"loading {name}", lambda: [self.loaded[name]]):
            facts = incoming_facts(data, relation.attributes, name, self.dictionary, self.accelerator.open())
            try:
                self._own_facts(name, facts.backend).insert(facts.columns, facts.rows)
            except DeviceMemoryError:
                self._own_facts(name).insert(facts.on_host(), facts.rows)
            facts.let_go()
        return facts.rows

    def _own_facts(self, relation: str, backend: Backend = CPU) -> Table:
        """The loaded facts, to add to: a copy if the last materialisation reads the same table."""
        facts = self.loaded[relation]
        self.has_pending = self.database is not None
        facts.backend.bind_thread()
        backend.bind_thread()
        facts.move_to(backend)
        if self.database is not None and self.database.tables[relation] is facts:
            facts = Table(relation, facts.arity, backend)
            shared = self.loaded[relation]
            facts.insert(shared.rows.device_columns(), len(shared))
            self.loaded[relation] = facts
        return facts

    def declared(self, name: str, program: Program | None = None) -> Relation:
        """A relation of the program, or of one that is about to replace it."""
        relations = (program or self.program).relations
        if name not in relations:
            near = difflib.get_close_matches(name, relations, 1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise GpuEngineError(f"no relation {name!r} in the program{hint}")
        return relations[name]
