"""`Engine`: a program, its facts, and its materialisation."""

from __future__ import annotations

import logging
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from gpuengine.answering import answer
from gpuengine.errors import Diagnostic, GpuEngineError, StoreError
from gpuengine.evaluation.interruptible import (
    Watcher,
    check_callable,
    check_timeout,
    not_kept,
    run_interruptibly,
)
from gpuengine.evaluation.materialisation import Materialisation, Storage, evaluate
from gpuengine.evaluation.options import Options, check_wait
from gpuengine.evaluation.placement.budget import ROW_BYTES, Budget
from gpuengine.evaluation.placement.failures import device_failures
from gpuengine.evaluation.progress import Progress
from gpuengine.evaluation.rules.database import Database
from gpuengine.evaluation.thresholds import Thresholds
from gpuengine.kernels.contract import Backend, DeviceMemoryError
from gpuengine.kernels.cpu import evaluation_kernels
from gpuengine.kernels.cpu.backend import CPU
from gpuengine.kernels.cpu.jit import load_in_background
from gpuengine.kernels.identity import NotCopied
from gpuengine.language import parse_query
from gpuengine.language.diagnostics import MAX_DIAGNOSTICS
from gpuengine.language.editing import ProgramText
from gpuengine.language.program import Attribute, Program, Relation, Rule, Variable
from gpuengine.limits import Limits, charge
from gpuengine.loading import (
    EncodedFacts,
    Facts,
    Skipped,
    as_directories,
    as_macros,
    as_names,
    as_source,
    check_arguments,
    check_on_device,
    declared_in,
    encode_rows,
    encode_rule_facts,
    read_rows,
)
from gpuengine.maintenance.change import Change, change_to
from gpuengine.maintenance.subscriptions import Subscriber, Subscriptions
from gpuengine.planning.evaluators import check_evaluated
from gpuengine.planning.plan import Plan, body_relations
from gpuengine.planning.prepared import Prepared, prepare
from gpuengine.planning.sharing import resolve
from gpuengine.relation import Origin, RelationView
from gpuengine.schemes.contract import Scheme
from gpuengine.schemes.table import Table
from gpuengine.schemes.union import tables_in
from gpuengine.states import States, Turns
from gpuengine.terms.dictionary import Dictionary
from gpuengine.terms.functions import Functions

if TYPE_CHECKING:
    from gpuengine.explaining.explain import Known
    from gpuengine.explaining.proof import Proof
    from gpuengine.explaining.rounds import Rounds
    from gpuengine.explaining.why_not import WhyNot
    from gpuengine.maintenance.store import Store
    from gpuengine.maintenance.transaction import Update, Wait
    from gpuengine.maintenance.updater import Updated, Updater
    from gpuengine.profiling.measuring import Measurement
    from gpuengine.profiling.profile import Profile


_log = logging.getLogger("gpuengine")


class Engine(NotCopied):
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

    `functors` are Python functions for those that the program declares with ``.functor``: one, several, by
    name, or a module, see `gpuengine.functor`; `functor_libraries` are shared libraries that have them. Their
    code runs when rules need it.

    `dictionary` is one that has terms already, for facts given as `EncodedFacts`.

    `backend` says where rules run: ``"cpu"``; ``"cuda"``, on a GPU (number `device`, using up to
    `device_memory` of it); or ``"auto"``, on a GPU if there is one and the data is large enough. A `Backend`
    object is used as ``auto`` uses a GPU. `thresholds` say what is large enough.

    Any number of threads may share an engine. Those that read see one state, the one before or the one after
    a transaction, and wait for nobody; those that change it queue, for `wait` seconds at most (None: as long
    as it takes), and then raise `Busy`.
    """

    instead = (
        "keep it with kb.save(path), and gpuengine.open(path) makes another; its relations, as kb[name], can "
        "be copied and pickled"
    )

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
        wait: float | None = 60.0,
        include_dirs: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] = (),
        macros: Mapping[str, str | int] | None = None,
        error_limit: int = MAX_DIAGNOSTICS,
        dictionary: Dictionary | None = None,
        functors: Any = None,
        functor_libraries: Sequence[str | os.PathLike[str]] = (),
    ) -> None:
        self.options = Options.read(
            threads=threads,
            memory=memory,
            backend=backend,
            device=device,
            device_memory=device_memory,
            thresholds=thresholds,
            schemes=schemes,
            evaluators=evaluators,
            modules=modules,
            counting=counting,
            wait=wait,
        )
        self._functions = Functions.read(functors, functor_libraries)
        self._fitting: Prepared | None = None  # what updates last found functions for
        load_in_background(evaluation_kernels())
        text = program
        if not isinstance(text, ProgramText):
            text = ProgramText.read(
                as_source(text),
                include_dirs=as_directories(include_dirs),
                macros=as_macros(macros),
                error_limit=error_limit,
            )
        first = Materialisation.empty(self.prepare(text), dictionary)
        first.dictionary.functions = self._functions
        if not isinstance(program, ProgramText):
            prepared = first.prepared
            check_evaluated(prepared.program, prepared.source, prepared.evaluators)
            for name, facts in encode_rule_facts(prepared.program.rules, first.dictionary).items():
                first.stated[name].insert(*facts)
        self.skipped: dict[str, Skipped] = {}
        self._states = States(first)
        self._turns = Turns()
        self._made_updater: Updater | None = None
        self._making_updater = threading.Lock()
        self._subscriptions = Subscriptions()
        self._store: Store | None = None
        # What was done last, and the seconds that it took.
        self._worked: tuple[Progress, float] | None = None
        # Heights of facts, which a search for proofs may have computed; they go with their materialisation.
        self._heights: weakref.WeakKeyDictionary[Materialisation, list[Rounds]] = weakref.WeakKeyDictionary()

    @property
    def current(self) -> Materialisation:
        """The program, the facts stated for it, and what follows from them."""
        return self._states.current

    @property
    def prepared(self) -> Prepared:
        """The program, ready to be evaluated."""
        return self.current.prepared

    @property
    def source(self) -> Program:
        """The program as it was written."""
        return self.prepared.source

    @property
    def program(self) -> Program:
        """The program as it is evaluated."""
        return self.prepared.program

    @property
    def loaded(self) -> Mapping[str, Table]:
        """The facts that are stated, by relation."""
        return self.current.stated

    @property
    def database(self) -> Database | None:
        """What relations are stored in; None before anything was derived."""
        return self.current.database

    @property
    def dictionary(self) -> Dictionary:
        """The terms that ids stand for."""
        return self.current.dictionary

    @property
    def progress(self) -> Progress | None:
        """How what there is was computed."""
        return self.current.progress

    def check_functors(self) -> None:
        """Raise `GpuEngineError` if rules use a functor for which no function was given."""
        self._check_functions(self.program)

    def prepare(self, text: ProgramText) -> Prepared:
        """A program made ready, with the schemes and evaluators that were asked for."""
        return prepare(text, self.options.schemes, self.options.evaluators)

    @property
    def backend(self) -> str:
        """The name of the accelerator if one has been opened, else ``cpu``."""
        return (
            self.options.accelerator.backend.name
            if self.options.accelerator.backend is not None
            else CPU.name
        )

    def declared(self, name: str) -> Relation:
        """A relation of the program."""
        return declared_in(self.program, name)

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
        nulls: Any = "fail",
        dates: Literal["days", "text"] | None = None,
    ) -> int:
        """Add facts to a relation; returns how many rows were read.

        `data` is a path (file, directory or glob; text, Parquet or Arrow by extension) or anything
        tabular: Arrow, pandas, Polars, NumPy, a list of tuples, any object with the Arrow PyCapsule
        protocol, CuPy, cuDF, any array with `__cuda_array_interface__` or DLPack. Raises `DataError` and
        loads nothing if something does not fit; with ``on_error="skip"`` bad rows of files are left out
        and counted in `skipped`. Rows with `nulls` are refused (``"fail"``), left out (``"drop"``), or get a
        value there: one for all columns, or by name, as ``{"age": 0}``; an empty field of a text file is a
        null unless its column is of text. Columns of dates and times are loaded where such are declared, and
        with `dates` also into numbers (``"days"``; of times, microseconds) and symbols (``"text"``). What was
        materialised stays as it is until the next `materialise` or `update`.
        """
        from gpuengine.io.arrow_device import unpacked
        from gpuengine.io.device import is_on_device

        check_arguments(data, on_error, params)
        with self.turn():
            declared = self.declared(relation)
            if (
                not isinstance(data, str | os.PathLike)
                and declared.arity
                and is_on_device(data := unpacked(data))
            ):
                check_on_device(relation, nulls, dates)
                return self._load_from_device(declared, data)
            with self.limits(f"loading {relation}").applied():
                columns, rows = self.encode_facts(
                    declared, data, on_error=on_error, params=params, nulls=nulls, dates=dates
                )
                charge(rows * ROW_BYTES * declared.arity, f"a table of {rows:,} rows of {relation}")
                with self.changing():
                    following, facts = self.current.stating(relation)
                    facts.insert(columns, rows)
                    self._states.follow(following)
            _log.info("loaded %d rows of %s", rows, relation)
            return rows

    @property
    def warnings(self) -> tuple[Diagnostic, ...]:
        """What is allowed in the program, but probably not meant: each has a code, a place and a hint.

        A relation that facts were loaded into is not one that nothing fills.
        """
        from gpuengine.language.codes import NEVER_FILLED

        return tuple(
            warning
            for warning in self.source.warnings
            if warning.code != NEVER_FILLED or not self._is_loaded(warning.subject)
        )

    def _is_loaded(self, relation: str | None) -> bool:
        stored = self.loaded.get(self.prepared.stored(relation or ""))
        return stored is not None and len(stored) > 0

    def encode_facts(
        self,
        declared: Relation,
        data: Any,
        *,
        on_error: Literal["fail", "skip"] = "fail",
        params: Mapping[str, str] | None = None,
        nulls: Any = "fail",
        dates: Literal["days", "text"] | None = None,
        intern: bool = True,
    ) -> Facts:
        """Facts given as to `load` as columns of ids; without `intern`, those with unknown terms left out."""
        if isinstance(data, EncodedFacts):
            return data.columns, data.rows
        with self.limits(f"loading {declared.name}").applied():
            table, skipped = read_rows(
                data, declared, self.dictionary, on_error, params, self.options.threads, nulls, dates
            )
            if skipped.rows:
                known = self.skipped.setdefault(declared.name, Skipped())
                known.rows += skipped.rows
                known.first_errors += skipped.first_errors
            return encode_rows(table, declared, self.dictionary, intern=intern, threads=self.options.threads)

    def limits(self, doing: str = "") -> Limits:
        """What an operation may take; what the engine holds already counts."""
        return Limits(self.options.memory, lambda: self.current.host_nbytes, lambda: doing)

    def plan(self, wanted: str | Iterable[str] | None = None) -> Plan:
        """Strata and delta variants; with `wanted`, only what those relations depend on."""
        prepared = self.prepared
        return prepared.plan(None if wanted is None else _declared_names(prepared.program, wanted))

    def materialise(
        self,
        *,
        wanted: str | Iterable[str] | None = None,
        watch: Watcher | None = None,
        timeout: float | None = None,
    ) -> Engine:
        """Compute all consequences of the loaded facts; returns the engine.

        `wanted` limits the work to the relations named (or the one) and what they depend on. `watch` is
        called about ten times a second with the progress; an error that it raises ends the work and comes
        out. Ctrl-C stops within a second and raises `Interrupted`; `timeout`, in seconds, raises `TimedOut`,
        which says by which rule it was deriving. All of them leave the earlier results in place.
        """
        check_timeout(timeout)
        check_callable("watch", watch)
        with self.turn():
            self._materialise(wanted, watch, timeout)
        return self

    def _materialise(
        self, wanted: str | Iterable[str] | None, watch: Watcher | None, timeout: float | None
    ) -> None:
        before = self.current
        program = before.prepared.program
        self.check_functors()
        names = None if wanted is None else _declared_names(program, wanted)
        updater = self._made_updater
        if updater is not None and updater.durable is not None:
            with self.limits().applied():
                change = self._change(
                    lambda progress: updater.anew(before, before.prepared, {}, names, progress),
                    watch,
                    timeout,
                )
            self.tell(change)
            return
        stop, progress, found = np.zeros(1, np.int64), Progress(), []
        idle = before.database.all_tables if before.database is not None else tuple
        with self.limits().applied(), self.changing():
            late = run_interruptibly(
                lambda: found.append(
                    evaluate(before, self.options, wanted=names, progress=progress, stop=stop, idle=idle)
                ),
                stop,
                progress,
                watch,
                timeout,
            )
            if late is not None:
                raise not_kept(late)
            if updater is not None:
                updater.forget()
            self._states.follow(found[0])
            self._worked = progress, found[0].anew_seconds
        _log.info("materialised %d facts in %.3f s", progress.facts, found[0].anew_seconds)

    def commit(self, update: Update) -> Change:
        """Make an update happen; `Change` says what came of it. On any failure nothing has changed."""
        prepared = self.prepared if update.edited is None else self.prepare(update.edited.text)
        if prepared is not self._fitting:
            self._check_functions(prepared.program)
            self._fitting = prepared
        before = self.current if update.notes is None else replace(self.current, notes=update.notes)
        with self.limits("updating").applied():
            return self._change(
                lambda progress: self._updater.update(before, prepared, update.facts, progress),
                update.watch,
                wait=update.wait,
            )

    def _change(
        self,
        work: Callable[[Progress], Updated],
        watch: Watcher | None,
        timeout: float | None = None,
        wait: Wait = "default",
    ) -> Change:
        """Go on with the materialisation that some work gives; what it changed."""
        progress, found, stop = Progress(), [], self._updater.stop
        stop[0] = 0
        self._subscriptions.find_changes()
        with self.changing(wait):
            began = time.perf_counter()
            late = run_interruptibly(lambda: found.append(work(progress)), stop, progress, watch, timeout)
            after, deltas = found[0]
            self._states.follow(after)
            self._worked = progress, time.perf_counter() - began
        _log.info("updated in %.3f s", self._worked[1])
        change = change_to(after, deltas, Budget(self.options.memory))
        self._subscriptions.note(change, late)
        return change

    def tell(self, change: Change) -> None:
        """Tell a change to those who subscribed."""
        self._subscriptions.tell(change)

    def note(self, notes: Mapping[str, Any]) -> None:
        """Have other notes saved with the materialisation, from the next commit on."""
        if notes != self.current.notes:
            self.adopt(replace(self.current, notes=notes))

    def adopt(self, materialisation: Materialisation) -> None:
        """Go on with another materialisation."""
        materialisation.dictionary.functions = self._functions
        with self.changing():
            self._states.follow(materialisation)

    @contextmanager
    def changing(self, wait: Wait = "default") -> Iterator[None]:
        """Have one's turn to change facts and schemes until the block ends; readers see all of it then."""
        seconds = self.options.wait if wait == "default" else wait
        used = None if self.options.accelerator.backend is not None else ()
        with (
            self._turns.turn(seconds),
            self._states.changing(seconds),
            self._states.on_device(used),
        ):
            yield

    @contextmanager
    def turn(self, wait: Wait = "default") -> Iterator[None]:
        """Have no other thread change the engine until the block ends."""
        with self._turns.turn(self.options.wait if wait == "default" else wait):
            yield

    @property
    def _updater(self) -> Updater:
        """Made when it is first needed: who only materialises does not wait until updates are imported."""
        if self._made_updater is None:
            from gpuengine.maintenance.updater import Updater

            with self._making_updater:
                if self._made_updater is None:
                    self._made_updater = Updater(self.options)
        return self._made_updater

    def update(self, *, watch: Watcher | None = None, wait: Wait = "default") -> Update:
        """Begin a transaction: ``with engine.update() as u: u.insert("edge", table)``.

        When the block ends, everything that was asked for happens, or, if something fails, nothing.
        An engine that has not materialised yet does so then. `watch` is called as by `materialise`.
        From the beginning of the block to its end no other thread changes the engine; one that is about to
        waits, `wait` seconds at most (by default those of the engine; None: as long as it takes), and then
        raises `Busy`.
        """
        if self._store is not None and self._store.read_only:
            raise StoreError(
                f"{self._store.path} was opened read-only\n  hint: open it without read_only to change it"
            )
        from gpuengine.maintenance.transaction import Update

        check_callable("watch", watch)
        return Update(self, watch, wait if wait == "default" else check_wait(wait))

    def save(self, path: str | os.PathLike[str], *, replace: bool = False) -> None:
        """Write a knowledge base that `gpuengine.open` goes on with: a directory, new or empty.

        With `replace`, one that is there already is replaced; until that is done it stays what it was.
        """
        from gpuengine.maintenance.persistence import snapshot_of
        from gpuengine.maintenance.store import Store

        with self.turn(), self.limits(f"saving {path}").applied():
            if self.database is None or self.current.is_behind:
                self.materialise(wanted=self.current.wanted)
            with self.changing():
                hidden = self._updater.maintainer(self.current).hidden
            Store.create(path, snapshot_of(self.current, hidden, self.options), replace=replace)

    def attach(self, store: Store) -> None:
        """Have every update written to a store, which has what the engine has, from now on."""
        from gpuengine.maintenance.persistence import Durable

        self._store = store
        if not store.read_only:
            self._updater.durable = Durable(store, self.current, self.options)

    def close(self) -> None:
        """Let go of the knowledge base that the engine was opened from; others may write to it then."""
        if self._store is not None:
            with self.turn():
                self._store.close()

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def subscribe(self, relation: str, callback: Subscriber) -> Callable[[], None]:
        """Call `callback` with each `RelationChange` of a relation that an update makes, after it is done.

        Call what is returned to end that. An error that a callback raises comes out of the update's `with`
        block, but the update has happened. Callbacks are called by the thread that updates, in the order of
        the updates; they may read, and update: what that changes is told when the present change has been.
        """
        self.declared(relation)
        if not callable(callback):
            raise GpuEngineError(f"callback must be a function, not {callback!r}")
        return self._subscriptions.subscribe(relation, callback)

    @property
    def storage(self) -> Mapping[str, Storage]:
        """How each relation of the last materialisation is stored, why, and in how many bytes."""
        with self._states.reading(lambda state: state.required()) as (state, schemes):
            updater = self._made_updater
            return state.storage(schemes, updater.counter_nbytes if updater is not None else lambda _: 0)

    def __getitem__(self, relation: str) -> RelationView:
        """The facts of a relation: of the last materialisation, or as loaded if it has no rules."""
        state, schemes = self._states.snapshots(lambda state: state.required({relation}))
        return RelationView(
            relation,
            state.prepared.program.relations[relation].attributes,
            schemes[relation],
            self.dictionary,
            Budget(self.options.memory),
            Origin(self._states, weakref.ref(state), relation),
        )

    def __contains__(self, relation: object) -> bool:
        """Does the program declare a relation of this name?"""
        return isinstance(relation, str) and relation in self.relations

    def __iter__(self) -> Iterator[str]:
        """The names of the relations."""
        return iter(self.relations)

    def query(
        self,
        text: str,
        /,
        *,
        order: str | Sequence[str] = (),
        limit: int | None = None,
        **parameters: Any,
    ) -> RelationView:
        """The answers of a query such as ``path(1, x), !edge(1, x)`` over the materialisation.

        A query is a body as of a rule, with ``;`` between alternatives, and aggregates. One column for each
        named variable, in order of first appearance, or for those asked for, as in
        ``x, z : path(x, y), edge(y, z)``; distinct rows. A query without variables has one row of no columns
        if it holds, none if not. `parameters` are the values of ``$name`` in it. With `order`, names of
        columns, ``-name`` for descending, rows come in that order; with `limit`, at most so many.
        """
        if not isinstance(text, str):
            raise GpuEngineError(f"a query is a str such as 'path(1, x)', not {type(text).__name__}")
        from gpuengine.language.questions import parse_question

        (rule, *_), answers, state = self._answered(
            lambda program: parse_question(text, program, parameters), text, {}
        )
        attributes = [Attribute(arg.name, arg.type) for arg in rule.head.args if isinstance(arg, Variable)]
        origin = Origin(self._states, weakref.ref(state), None)
        view = RelationView("?", attributes, answers, self.dictionary, Budget(self.options.memory), origin)
        if order:
            view = view.sort(*((order,) if isinstance(order, str) else order))
        return view if limit is None else view.head(limit)

    def _ipython_key_completions_(self) -> list[str]:
        return list(self.relations)

    def __dir__(self) -> list[str]:
        """What is for users."""
        return [
            *("load", "materialise", "update", "query", "explain", "why_not", "plan", "profile"),
            *("save", "close"),
            *("subscribe", "relations", "storage", "warnings", "progress", "skipped", "backend", "options"),
            *(name for name in super().__dir__() if name.startswith("__")),
        ]

    def _repr_html_(self) -> str:
        """The relations, and how they are stored."""
        from gpuengine.showing import html_table

        if self.current.relations is None:
            rows = [(name, f"{len(self.loaded[name]):,}", "", "") for name in self.relations]
            title = "not materialised yet"
        else:
            rows = [
                (name, f"{one.facts:,}", one.scheme, f"{one.nbytes:,}") for name, one in self.storage.items()
            ]
            title = f"{sum(one.facts for one in self.storage.values()):,} facts"
        return html_table(("relation", "facts", "stored as", "bytes"), rows, len(rows), title)

    def explain(self, text: str, *, all: bool = False, limit: int | None = 100) -> Proof:
        """Why a fact such as ``path(1, 5)`` holds, or each answer of a query: a proof of least height.

        It is found on the materialisation as it is: nothing is kept for it. Of a query with variables the
        first `limit` answers (None: all) are proved, in one `Proof`, with what they share once. With `all`
        it has all derivations of each of them. Waits for a change that another thread is making.
        """
        from gpuengine.explaining.explain import explain

        with self._explaining(text) as (known, query):
            return explain(known, query, text, all_derivations=all, limit=limit)

    def profile(
        self,
        *,
        steps: bool = False,
        program: str = "",
        seconds: Mapping[str, float] | None = None,
        process: Mapping[str, Any] | None = None,
    ) -> Profile:
        """What the last materialisation or update cost, by stratum, round, rule and relation.

        With `steps`, the bindings that each step of a plan had in a materialisation are counted now, which
        takes about as long as evaluating it once more. `program` is a name for it. `seconds` are phases that
        the caller has measured, ``evaluate`` or ``update`` among them, and `process` what else is to be told.
        Raises `GpuEngineError` if nothing was evaluated here.
        """
        from gpuengine.kernels.cpu.jit import compile_seconds
        from gpuengine.profiling.profile import profile_of

        with self.turn():
            return profile_of(
                self.current,
                self._worked,
                self.storage if self.current.relations is not None else {},
                threads=self.options.threads,
                backend=self.backend,
                compiled_kernels=compile_seconds,
                steps=steps,
                program=program,
                seconds=seconds,
                process=process,
            )

    def measurement(self) -> Measurement:
        """What the materialisation that was evaluated here came to, for who describes its plan."""
        from gpuengine.profiling.measuring import Measurement

        state = self.current
        assert state.progress is not None and state.database is not None, "nothing was evaluated"
        return Measurement(state.plan, state.progress, state.database, self.storage)

    def why_not(self, text: str) -> WhyNot:
        """Why a fact, or a query, does not hold: how far each rule gets that could derive it."""
        from gpuengine.explaining.why_not import why_not

        with self._explaining(text) as (known, query):
            return why_not(known, query, text)

    @contextmanager
    def _explaining(self, text: str) -> Iterator[tuple[Known, Rule]]:
        """What a query of this text asks, and what it can be explained with until the block ends."""
        from gpuengine.explaining.explain import Known, relations_for

        with self.turn(), self.limits(f"explaining {text}").applied():
            state = self.current
            source = state.prepared.source
            query = parse_query(text, source)
            state.required(body_relations(query.body))
            names = relations_for(query, source)
            with self._states.standing(state) as schemes:
                if schemes is None:
                    raise GpuEngineError(
                        "the engine is being changed by this very thread\n"
                        "  hint: ask for explanations when the change is done"
                    )
                # Goals are joined with what there is on the host.
                stated = {name: state.stated[name] for name in names}
                read = [*(schemes[name] for name in names), *stated.values()]
                with self._states.on_device(read):
                    for scheme in read:
                        for table in tables_in(scheme):
                            if not table.backend.on_host:
                                table.backend.bind_thread()
                                table.move_to(CPU)
                    kept = self._heights.setdefault(state, [])
                    yield Known(source, self.dictionary, schemes, stated, kept), query

    def answer(self, rule: Rule, text: str, tables: Mapping[str, Table] | None = None) -> Scheme:
        """The distinct answers of a rule that is made already: a column of ids for each variable of its head.

        It may read `tables` of its own beside the relations, by names that no relation has.
        """
        return self._answered(lambda program: [rule], text, tables or {})[1]

    def _answered(
        self, make: Callable[[Program], Sequence[Rule]], text: str, tables: Mapping[str, Table]
    ) -> tuple[list[Rule], Scheme, Materialisation]:
        """The answers of any of some rules that have the same variables in their heads."""
        rules: list[Rule] = []

        def choose(state: Materialisation) -> set[str]:
            rules[:] = [resolve(rule, state.prepared.aliases) for rule in make(state.prepared.program)]
            self._functions.check(state.prepared.program, rules)
            return state.required(set().union(*(body_relations(rule.body) for rule in rules)) - tables.keys())

        with self._states.reading(choose) as (state, schemes):
            database = Database(state.prepared.program, self.dictionary, tables={**schemes, **tables})
            read = [database.tables[name] for rule in rules for name in body_relations(rule.body)]
            with self.limits(f"answering {text}").applied(), self._states.on_device(read):
                return rules, answer(rules, database, Budget(self.options.memory), text), state

    def _check_functions(self, program: Program) -> None:
        """Raise `GpuEngineError` if a function is missing that a program needs to be evaluated."""
        rules = (*program.rules, *program.subsumptions)
        self._functions.check(program, rules, program.relations.values())

    def _load_from_device(self, relation: Relation, data: Any) -> int:
        """Add facts that others have on a device; on the host if the device has no room for the table."""
        from gpuengine.exchange.incoming import incoming_facts

        name = relation.name
        with device_failures(lambda: f"loading {name}", lambda: [self.loaded[name]]), self.changing():
            device = self.options.accelerator.open()
            incoming = incoming_facts(data, relation.attributes, name, self.dictionary, device)
            try:
                following, facts = self.current.stating(name, incoming.backend)
                facts.insert(incoming.columns, incoming.rows)
            except DeviceMemoryError:
                following, facts = self.current.stating(name)
                facts.insert(incoming.on_host(), incoming.rows)
            self._states.follow(following)
            incoming.let_go()
        return incoming.rows


def _declared_names(program: Program, wanted: str | Iterable[str]) -> tuple[str, ...]:
    return tuple(declared_in(program, name).name for name in as_names(wanted))
