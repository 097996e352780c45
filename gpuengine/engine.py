"""`Engine`: a program, its facts, and its materialisation."""

from __future__ import annotations

import difflib
import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from gpuengine.errors import GpuEngineError, Interrupted
from gpuengine.evaluation.accelerator import find_accelerator
from gpuengine.evaluation.body import compile_body
from gpuengine.evaluation.budget import Budget, parse_size
from gpuengine.evaluation.database import Database
from gpuengine.evaluation.failures import device_failures
from gpuengine.evaluation.fixpoint import Fixpoint
from gpuengine.evaluation.placement import Placement
from gpuengine.evaluation.progress import Progress
from gpuengine.evaluation.thresholds import Thresholds
from gpuengine.kernels.contract import Backend, DeviceMemoryError
from gpuengine.kernels.cpu import evaluation_kernels
from gpuengine.kernels.cpu.backend import CPU
from gpuengine.kernels.cpu.jit import load_in_background
from gpuengine.kernels.position_sets import PoolFull
from gpuengine.language import parse_program, parse_query
from gpuengine.language.program import Atom, Attribute, Constant, Program, Relation, Rule, Variable
from gpuengine.planning.order import order_body
from gpuengine.planning.passes import rewrite
from gpuengine.planning.plan import Plan
from gpuengine.planning.schemes import plan_schemes, read_overrides, tables_only
from gpuengine.planning.sharing import Alias, resolve, share_equal_relations
from gpuengine.planning.strata import body_relations, make_plan
from gpuengine.relation import RelationView
from gpuengine.schemes.contract import Scheme
from gpuengine.schemes.table import Table
from gpuengine.schemes.union import Part, Union, tables_in
from gpuengine.terms.dictionary import Dictionary

Watcher = Callable[[Progress], None]
_WATCH_SECONDS = 0.1


@dataclass(slots=True)
class Skipped:
    """Bad rows that `Engine.load` left out of a relation: how many, and the first few described."""

    rows: int = 0
    first_errors: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Storage:
    """How a relation is stored: scheme, why that one, how many facts it has, and bytes of memory."""

    scheme: str
    why: str
    facts: int
    nbytes: int


class Engine:
    """Holds a checked program, the facts loaded into it, and what follows from them.

    Life-cycle: made from a program (errors raise `ProgramErrors`, nothing is half made); `load` adds
    facts; `materialise` computes every consequence; ``engine[name]`` reads a relation. Loading
    after materialising is allowed: the results stay as they were until the next `materialise`.
    A failed or interrupted operation leaves the engine as it was before.

    `schemes` say how relations are stored, as ``{"path": "closure"}``: ``table``, ``closure``,
    ``equivalence``, ``union`` or ``auto`` (the default), by the shape of their rules and the facts; ``*`` is
    all relations. `modules` off evaluates transitivity on tables rule by rule.

    `backend` says where rules run: ``"cpu"``; ``"cuda"``, on a GPU (number `device`, using up to
    `device_memory` of it); or ``"auto"``, on a GPU if there is one and the data is large enough. A `Backend`
    object is used as ``auto`` uses a GPU. `thresholds` say what is large enough.
    """

    def __init__(
        self,
        program: str | os.PathLike[str],
        *,
        threads: int | None = None,
        memory: str | int | None = None,
        backend: str | Backend = "auto",
        device: int = 0,
        device_memory: str | int | None = None,
        thresholds: Thresholds | None = None,
        schemes: Mapping[str, str] | None = None,
        modules: bool = True,
        include_dirs: Sequence[os.PathLike[str]] = (),
        macros: Mapping[str, str] | None = None,
    ) -> None:
        load_in_background(evaluation_kernels())
        device_bytes = parse_size(device_memory) if device_memory is not None else None
        self.accelerator = find_accelerator(backend, device, device_bytes, thresholds)
        self._always_accelerate = backend == "cuda"
        self.threads = threads or len(os.sched_getaffinity(0))
        self.memory = parse_size(memory) if memory is not None else None
        source = _as_source(program)
        self.source = parse_program(source, include_dirs=[Path(d) for d in include_dirs], macros=macros)
        rewritten = rewrite(self.source)
        overrides = read_overrides(rewritten, schemes)
        self.program: Program
        self.aliases: Mapping[str, Alias]
        self.program, self.aliases = share_equal_relations(rewritten, tables_only(rewritten, overrides))
        self._schemes = plan_schemes(self.program, overrides, self.aliases)
        self._modules = modules
        self.dictionary = Dictionary(self.program)
        self.progress: Progress | None = None
        self.skipped: dict[str, Skipped] = {}
        self._facts = {name: Table(name, r.arity, CPU) for name, r in self.program.relations.items()}
        self._load_program_facts()
        self._result: Database | None = None
        self._left_out: frozenset[str] = frozenset()

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
        and counted in `skipped`.
        """
        from gpuengine.io import from_tabular, read_facts
        from gpuengine.io.arrow_device import unpacked
        from gpuengine.io.device import is_on_device

        declared = self._relation(relation)
        if isinstance(data, str | os.PathLike):
            facts = read_facts(
                Path(data),
                declared.attributes,
                params or {},
                relation=relation,
                on_error=on_error,
                threads=self.threads,
                check=self.dictionary.bad_values,
            )
            table = facts.table
            if facts.skipped:
                skipped = self.skipped.setdefault(relation, Skipped())
                skipped.rows += facts.skipped
                skipped.first_errors += facts.first_errors
        elif declared.arity and is_on_device(data := unpacked(data)):
            return self._load_from_device(declared, data)
        else:
            check = self.dictionary.bad_values
            table = from_tabular(data, declared.attributes, relation=relation, check=check)
        columns = [
            self.dictionary.encode(attribute.type.space, table.column(j))
            for j, attribute in enumerate(declared.attributes)
        ]
        self._own_facts(relation).insert(columns, table.num_rows)
        return int(table.num_rows)

    @property
    def loaded(self) -> Mapping[str, Table]:
        """The facts given so far, by program and by `load`; what the rules derive is not among them."""
        return self._facts

    def plan(self, wanted: Iterable[str] | None = None) -> Plan:
        """Strata and delta variants; with `wanted`, only what those relations depend on."""
        stored = None if wanted is None else [self._stored(name) for name in wanted]
        return make_plan(self.program, stored, self._schemes)

    def materialise(self, *, wanted: Iterable[str] | None = None, watch: Watcher | None = None) -> Engine:
        """Compute all consequences of the loaded facts; returns the engine.

        `wanted` limits the work to the relations named and what they depend on. `watch` is called
        about ten times a second with the progress. Ctrl-C stops within a second, raises
        `Interrupted`, and leaves the earlier results in place.
        """
        plan = self.plan(wanted)
        derived = {name for stratum in plan.strata for name in stratum.relations}
        database = Database(self.program, self.dictionary)
        for name, facts in self._facts.items():
            if name in self.aliases:
                continue
            if name in derived or self._has_alias_facts(name):
                facts.backend.bind_thread()
                database.tables[name].insert(facts.columns(), len(facts))
            else:
                database.tables[name] = facts
        for name, alias in self.aliases.items():
            table = database.tables[alias.of]
            table.insert([self._facts[name].column(j) for j in alias.permutation], len(self._facts[name]))
            database.tables[name] = self._alias_view(name, table)
        progress = Progress()
        earlier = self._result.tables if self._result is not None else {}
        placement = Placement(
            self.accelerator,
            always=self._always_accelerate,
            idle=lambda: (*database.all_tables(), *(t for t in earlier.values() if isinstance(t, Table))),
        )
        fixpoint = Fixpoint(
            plan,
            database,
            threads=self.threads,
            budget=Budget(self.memory),
            progress=progress,
            limits=_size_limits(self.program),
            placement=placement,
            modules=self._modules,
        )
        _run_interruptibly(fixpoint, watch)
        for name, alias in self.aliases.items():
            database.tables[name] = self._alias_view(name, database.tables[alias.of])
        self._result = database
        self._left_out = frozenset(rule.head.relation for rule in plan.dropped if rule.body)
        self.progress = progress
        return self

    def _stored(self, relation: str) -> str:
        """The relation that holds the facts of another."""
        return self.aliases[relation].of if relation in self.aliases else relation

    def _has_alias_facts(self, name: str) -> bool:
        return any(alias.of == name and len(self._facts[other]) for other, alias in self.aliases.items())

    def _alias_view(self, name: str, scheme: Scheme) -> Scheme:
        """A relation that is another one with its columns permuted."""
        return Union(name, [Part(scheme, self.aliases[name].permutation)], Table(name, scheme.arity, CPU))

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
                result[name] = Storage(scheme.kind, why, len(scheme), scheme.nbytes)
        return result

    def __getitem__(self, relation: str) -> RelationView:
        """The facts of a relation: of the last materialisation, or as loaded if it has no rules."""
        declared = self._relation(relation)
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
        whole = _whole_relation(rule, tables)
        if whole is not None:
            return RelationView("?", attributes, whole, self.dictionary, Budget(self.memory))
        schemes = [tables[name] for name in body_relations(rule.body)]
        read = list(dict.fromkeys(table for scheme in schemes for table in tables_in(scheme)))
        with device_failures(lambda: f"answering: {text}", lambda: read):
            answers = self._answer(rule, tables, read)
        return RelationView("?", attributes, answers, self.dictionary, Budget(self.memory))

    def _answer(self, rule: Rule, tables: Mapping[str, Scheme], read: Sequence[Table]) -> Table:
        """Run a query's rule where the tables that it reads are; on the host if they are not in one place."""
        database = Database(self.program, self.dictionary)
        database.tables.update(tables)
        for table in read:
            table.backend.bind_thread()
        if len({table.backend for table in read}) > 1:
            _move_to_host(read)
        budget = Budget(self.memory)
        try:
            return _evaluate(rule, database, budget)
        except DeviceMemoryError:
            _move_to_host(read)
            return _evaluate(rule, database, budget)
        except PoolFull as error:
            budget.refuse_sets(", ".join(sorted(body_relations(rule.body))), error.needed)

    def _tables(self) -> Mapping[str, Scheme]:
        if self._result is not None:
            return self._result.tables
        if any(rule.body for rule in self.program.rules):
            raise GpuEngineError("nothing is materialised yet: call materialise() first")
        return self._facts

    def _require(self, relations: set[str]) -> None:
        missing = sorted(name for name in relations if self._stored(name) in self._left_out)
        if missing:
            raise GpuEngineError(
                f"{missing[0]} was left out of the last materialisation: it was not among `wanted`\n"
                "  hint: call materialise() without `wanted`, or add it there"
            )

    def _load_from_device(self, relation: Relation, data: Any) -> int:
        """Add facts that others have on a device; on the host if the device has no room for the table."""
        from gpuengine.exchange.incoming import incoming_facts

        name = relation.name
        with device_failures(lambda: f"loading {name}", lambda: [self._facts[name]]):
            facts = incoming_facts(data, relation.attributes, name, self.dictionary, self.accelerator.open())
            try:
                self._own_facts(name, facts.backend).insert(facts.columns, facts.rows)
            except DeviceMemoryError:
                self._own_facts(name).insert(facts.on_host(), facts.rows)
            facts.let_go()
        return facts.rows

    def _own_facts(self, relation: str, backend: Backend = CPU) -> Table:
        """The loaded facts, to add to: a copy if the last materialisation reads the same table."""
        facts = self._facts[relation]
        facts.backend.bind_thread()
        backend.bind_thread()
        facts.move_to(backend)
        if self._result is not None and self._result.tables[relation] is facts:
            facts = Table(relation, facts.arity, backend)
            shared = self._facts[relation]
            facts.insert(shared.rows.device_columns(), len(shared))
            self._facts[relation] = facts
        return facts

    def _relation(self, name: str) -> Relation:
        if name not in self.program.relations:
            near = difflib.get_close_matches(name, self.program.relations, 1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise GpuEngineError(f"no relation {name!r} in the program{hint}")
        return self.program.relations[name]

    def _load_program_facts(self) -> None:
        rows: dict[str, list[list[int]]] = {}
        for rule in self.program.rules:
            if not rule.body:
                ids = [self.dictionary.intern_constant(a) for a in rule.head.args if isinstance(a, Constant)]
                rows.setdefault(rule.head.relation, []).append(ids)
        for name, facts in rows.items():
            matrix = np.array(facts, np.uint32).reshape(len(facts), -1)
            self._facts[name].insert(list(np.ascontiguousarray(matrix.T)), len(facts))


def _as_source(program: str | os.PathLike[str]) -> str | Path:
    """A path if it is one or looks like one (one line that ends in .dl or names a file), else text."""
    if not isinstance(program, str):
        return Path(program)
    if "\n" not in program and (program.strip().endswith(".dl") or (program and Path(program).is_file())):
        return Path(program)
    return program


def _whole_relation(rule: Rule, tables: Mapping[str, Scheme]) -> Scheme | None:
    """The relation that a query asks for as a whole, its columns as in the query, if it is no table.

    It is read where it is, a batch at a time, instead of being listed first.
    """
    if len(rule.body) != 1 or not isinstance(rule.body[0], Atom):
        return None
    atom = rule.body[0]
    scheme = tables[atom.relation]
    is_free = all(isinstance(arg, Variable) for arg in atom.args) and len(set(atom.args)) == len(atom.args)
    if isinstance(scheme, Table) or not is_free:
        return None
    permutation = tuple(rule.head.args.index(arg) for arg in atom.args)
    return Union("?", [Part(scheme, permutation)], Table("?", scheme.arity, CPU))


def _evaluate(rule: Rule, database: Database, budget: Budget) -> Table:
    """The distinct answers of a rule's body: a column for each variable of its head."""
    variables = tuple(arg for arg in rule.head.args if isinstance(arg, Variable))
    plan = order_body(rule.body, database)
    body = compile_body(rule.body, plan, database, sink=variables, stop=np.zeros(1, np.int64))
    stage = body.stages[0]
    span = (0, stage.input.count) if stage.input is not None else (0, stage.pipeline.driver.rows.count)
    chunks = []
    rows = 0
    for chunk in body.collect(*span):
        chunks.append(chunk)
        rows += chunk.rows
        budget.check_answers(rows, len(variables))
    columns = [np.concatenate([c.columns[v] for c in chunks]) for v in variables] if chunks else []
    answers = Table("?", len(variables), CPU)
    answers.insert(columns, sum(chunk.rows for chunk in chunks))
    return answers


def _move_to_host(tables: Iterable[Table]) -> None:
    for table in tables:
        table.move_to(CPU)


def _size_limits(program: Program) -> dict[str, int]:
    return {d.relation: int(d.params["n"]) for d in program.directives if d.kind == "limitsize"}


def _run_interruptibly(fixpoint: Fixpoint, watch: Watcher | None) -> None:
    """Run in a second thread, so that the main one can see Ctrl-C and show progress while kernels run."""
    if threading.current_thread() is not threading.main_thread():
        fixpoint.run()
        return
    failure: list[BaseException] = []

    def work() -> None:
        try:
            fixpoint.run()
        except BaseException as error:
            failure.append(error)

    thread = threading.Thread(target=work, name="gpuengine-fixpoint", daemon=True)
    thread.start()
    interrupted = False
    while thread.is_alive():
        try:
            thread.join(_WATCH_SECONDS)
            if watch is not None and not interrupted:
                watch(fixpoint.progress)
        except KeyboardInterrupt:
            fixpoint.stop[0] = 1
            interrupted = True
    if interrupted:
        raise Interrupted("interrupted; nothing was changed")
    if failure:
        raise failure[0]
