"""`RdfEngine`: triples, rules over them, an ontology, and what follows."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from gpuengine.engine import Engine
from gpuengine.errors import GpuEngineError, ProgramErrors
from gpuengine.io.triples import Findings
from gpuengine.kernels.identity import NotCopied
from gpuengine.language.program import SYMBOL, Attribute
from gpuengine.loading import EncodedFacts, check_arguments
from gpuengine.maintenance.change import Change
from gpuengine.rdf import functors
from gpuengine.rdf.answers import Answering
from gpuengine.rdf.dissolution import Reasons
from gpuengine.rdf.equality import (
    Classes,
    NamedTwice,
    Restatement,
    equalities,
    given_quads,
    keeps_equality,
    named_terms,
    represented,
    stored_classes,
)
from gpuengine.rdf.graph import Among, Graph
from gpuengine.rdf.knowledge import Entailment, Knowledge
from gpuengine.rdf.layout import RAW, REPRESENTATIVE, SAME, TRIPLES, Layout
from gpuengine.rdf.literals import Literals, Mentions, stated_literals
from gpuengine.rdf.quads import DictionaryTerms, Quads, as_quads, joined
from gpuengine.rdf.routing import route
from gpuengine.rdf.rules import Rule, Triple, canonical
from gpuengine.rdf.translation import Clauses, standing_clauses, translate
from gpuengine.relation import RelationView
from gpuengine.terms.dictionary import Dictionary

if TYPE_CHECKING:
    from gpuengine.evaluation.interruptible import Watcher
    from gpuengine.evaluation.materialisation import Materialisation
    from gpuengine.maintenance.transaction import Update
    from gpuengine.rdf.owl_inconsistencies import Inconsistency
    from gpuengine.rdf.sparql import Answer

functors.register()

Profile = Literal["owl2rl", "rdfs"]
_PROFILES = (None, "owl2rl", "rdfs")
Rules = dict[Rule, Rule]
"""Rules as they were given, by what they are whatever their variables are called."""


class RdfEngine(NotCopied):
    """Holds triples, rules and an ontology, and what follows from them.

    Life-cycle: made of rules (in RDFox's syntax, as text or a file), an ontology (a file of triples) and a
    profile; `load` adds triples; `materialise` computes what follows; `sparql`, `solve` and `triples` read.
    `update` changes triples, axioms and rules afterwards; `save` and `gpuengine.open` keep all of it on disk.

    With a profile, ``"owl2rl"`` or ``"rdfs"``, the axioms among all triples of the default graph are compiled
    to rules, whether they came as the ontology or as data; `axiomatic` and `meta` are those of
    `gpuengine.rdf.owl.compile_ontology`. Where triples are stored is settled by the rules when something is
    first computed; see `gpuengine.rdf.layout`.

    With OWL 2 RL facts are stored for one of the terms that are the same (``owl:sameAs``), and read back for
    all of them; with `copies` they are stored for all. `options` are those of `Engine`.
    """

    instead = "keep it with kb.save(path), and gpuengine.open(path) makes another"

    def __init__(
        self,
        rules: Any = None,
        *,
        ontology: Any = None,
        profile: Profile | None = None,
        axiomatic: bool = False,
        meta: bool = False,
        copies: bool = False,
        **options: Any,
    ) -> None:
        if profile not in _PROFILES:
            raise GpuEngineError(f"profile is 'owl2rl', 'rdfs' or None, not {profile!r}")
        self.entailment = None if profile is None else Entailment(profile, axiomatic, meta, copies)
        self.options = options
        self.dictionary = Dictionary()
        self.terms = DictionaryTerms(self.dictionary)
        self.found = Findings()
        self.rules: Rules = {canonical(rule): rule for rule in as_rules(rules, self.found.prefixes)}
        self.layout = Layout()
        self.files = 0
        self._pending: list[Quads] = []
        self._engine: Engine | None = None
        self._knowledge: Knowledge | None = None
        self._literals: Literals | None = None
        self._classes = Classes.none()
        self._equated: Materialisation | None = None
        """The last state of the engine in which all terms that are the same have one representative."""
        self._kept: dict[bool, Answering] = {}
        if ontology is not None:
            self.load(ontology)

    @property
    def prefixes(self) -> dict[str, str]:
        """Those of the rules and the triples that were read."""
        return self.found.prefixes

    @property
    def profile(self) -> str | None:
        """What follows by itself: ``"owl2rl"``, ``"rdfs"`` or nothing."""
        return None if self.entailment is None else self.entailment.profile

    # Loading

    def load(
        self, data: Any, *, graph: str | None = None, format: str | None = None, on_error: str = "fail"
    ) -> int:
        """Add triples; returns how many were read.

        `data` is a path (a file, a folder or a glob; N-Triples, N-Quads, Turtle, TriG, RDF/XML or JSON-LD by
        extension or `format`), or rows of three or four terms of `gpuengine.rdf.terms`, or their texts.
        Triples without a graph go to the named `graph`, an IRI, if one is given. Raises `DataError` and loads
        nothing if something is wrong; with ``on_error="skip"`` bad lines are left out and counted in `found`.
        What was materialised stays as it is until the next `materialise` or `update`.
        """
        check_arguments(data, on_error, None)
        quads = self.read(data, graph, format, on_error)
        if self._engine is not None:
            if self.entailment is not None:
                raise GpuEngineError(
                    "triples that come after an ontology was compiled may change its rules\n"
                    "  hint: insert them in an update: with kb.update() as u: u.insert(…)"
                )
            self._state(quads)
        else:
            self._pending.append(quads)
        return quads.rows

    def _state(self, quads: Quads) -> None:
        assert self._engine is not None
        for relation, columns in route(quads, self.layout, self.terms).items():
            self._engine.load(relation, EncodedFacts(columns, len(columns[0])))

    def read(self, data: Any, graph: str | None, format: str | None, on_error: str) -> Quads:
        """Triples given as to `load`, as ids."""
        if isinstance(data, str | os.PathLike):
            from gpuengine.rdf.reading import read_files

            quads, self.files = read_files(
                data,
                self.dictionary,
                format=format,
                on_error="skip" if on_error == "skip" else "fail",
                findings=self.found,
                scope=self.files,
                threads=self.options.get("threads"),
            )
        else:
            quads = as_quads(data, self.terms, check=True)
        if graph is not None:
            name = graph if graph.startswith(("<", "_:")) else f"<{graph}>"
            quads = quads.within(int(self.terms.add([name])[0]))
        return quads

    # Evaluation

    @property
    def engine(self) -> Engine:
        """The engine that keeps the triples; made when it is first needed."""
        if self._engine is None:
            self._settle()
        assert self._engine is not None
        return self._engine

    def _settle(self) -> None:
        """Compile the axioms, choose the layout, and hand all triples over."""
        quads = joined(self._pending)
        knowledge = Knowledge.of(self.entailment, quads, self.terms, self.rules)
        if self._represents and not keeps_equality(self.rules.values()):
            knowledge = self._with_copies(knowledge)
        self._literals = Literals.of(knowledge.literals, quads, self.terms, self.rules)
        if facts := self._literals.triples():
            quads = joined([quads, as_quads(facts, self.terms)])
        if self._represents and knowledge.equates:
            self.layout = Layout.of((knowledge.rules | self.rules).values(), equality=True)
            named = named_terms((knowledge.rules | self.rules).values(), self.layout, self.terms)
            try:
                self._classes = Classes.none().merged(equalities(quads, self.terms), named)
            except NamedTwice:
                knowledge = self._with_copies(knowledge)
        rules = (knowledge.rules | self.rules).values()
        self.layout = Layout.of(rules, equality=self._represents and knowledge.equates)
        text = self._text(knowledge)
        try:
            self._engine = Engine(text, dictionary=self.dictionary, **self.options)
        except ProgramErrors as error:
            raise self._by_rules(error) from None
        self._pending = []
        self._knowledge = knowledge
        if len(self._classes):
            quads, raw = represented(quads, self._classes, self.terms)
            self._engine.load(RAW, EncodedFacts(raw, len(raw[0])))
            pairs = [self._classes.members, self._classes.representatives]
            self._engine.load(REPRESENTATIVE, EncodedFacts(pairs, len(pairs[0])))
        self._state(quads)
        self.note()

    @property
    def _represents(self) -> bool:
        return self.entailment is not None and self.entailment.represents

    def program(self) -> str:
        """What the rules and the axioms became, in the engine's own language; see `gpuengine.rdf.layout`."""
        assert self.engine
        return self._text(self.knowledge)

    def _text(self, knowledge: Knowledge) -> str:
        text = self.layout.declarations()
        declared: set[str] = set()
        for rule in (knowledge.rules | self.rules).values():
            text += self.clauses(translate(rule, self.layout), declared)
        return text

    def _by_rules(self, error: ProgramErrors) -> ProgramErrors:
        """What is wrong with clauses, with the rules that these came of."""
        names = {
            clause: rule.name
            for rule in self.rules.values()
            for clause in translate(rule, self.layout).clauses
            if rule.name
        }
        return ProgramErrors(
            [
                replace(
                    diagnostic,
                    notes=(*diagnostic.notes, f"it came of the rule at {names[diagnostic.source_line]}"),
                )
                if diagnostic.source_line in names
                else diagnostic
                for diagnostic in error.diagnostics
            ]
        )

    def stated(self) -> list[tuple[str, str, str]]:
        """The triples of the default graph that are stated, as they were given, and what literals denote."""
        quads = given_quads(self.engine, self.layout, self.terms, self._classes)
        return list(zip(*(self.terms.texts(column) for column in quads.columns[:3]), strict=True))

    def _with_copies(self, knowledge: Knowledge) -> Knowledge:
        """Store facts for every one of the terms that are the same from now on."""
        assert self.entailment is not None
        self.entailment = replace(self.entailment, copies=True)
        self._classes = Classes.none()
        return knowledge.with_copies(self.rules)

    def adopt(self, engine: Engine, layout: Layout, rules: Rules, files: int) -> None:
        """Go on with an engine that was opened."""
        self._engine, self.layout, self.rules, self.files = engine, layout, rules, files
        self._classes = stored_classes(engine)
        self.note()

    def note(self) -> None:
        """Have the engine save what only this object knows."""
        from gpuengine.rdf.saving import notes_of

        engine = self.engine  # settled before it is told what to note
        engine.note(notes_of(self))

    @property
    def knowledge(self) -> Knowledge:
        """What the stated axioms were compiled to."""
        if self._knowledge is None:
            self._knowledge = Knowledge.of(
                self.entailment,
                given_quads(self.engine, self.layout, self.terms, self._classes),
                self.terms,
                self.rules,
            )
        return self._knowledge

    @property
    def literals(self) -> Literals:
        """What is stated of the literals that are mentioned."""
        if self._literals is None:
            self._literals = stated_literals(
                self.knowledge.literals, self.engine, self.layout, self.terms, self._classes, self.rules
            )
        return self._literals

    def clauses(self, clauses: Clauses, known: set[str]) -> str:
        """The text of clauses, with the declarations that it needs beside the relations known."""
        text = clauses.declarations(known)
        for name, _ in clauses.declared:
            if name not in known:
                text += "".join(f"{clause}\n" for clause in standing_clauses(name, self.layout))
        known.update(name for name, _ in clauses.declared)
        return text + clauses.text

    def materialise(self, *, watch: Watcher | None = None, timeout: float | None = None) -> RdfEngine:
        """Compute all that follows; returns the engine. `watch` and `timeout` are those of `Engine`."""
        self.engine.materialise(watch=watch, timeout=timeout)
        self.ready(watch)
        return self

    def ready(self, watch: Watcher | None = None) -> Engine:
        """The engine with all that follows from what is loaded."""
        engine = self.engine
        if engine.database is None or engine.current.is_behind:
            engine.materialise(watch=watch)
        if self._represents and engine.current is not self._equated:
            with engine.turn():  # another thread may be about to
                self.equate(watch=watch)
        return engine

    def equate(self, **options: Any) -> list[Change]:
        """Have one representative for terms that follow to be the same; what that changed, step by step."""
        engine, changes = self.engine, []
        while self._represents and self.knowledge.equates:
            pairs = self._equalities()
            named = named_terms((self.knowledge.rules | self.rules).values(), self.layout, self.terms)
            try:
                after = self._classes.merged(pairs, named)
            except NamedTwice:
                changes.append(self._copy_facts(options))
                break
            if after is self._classes:
                break
            with engine.update(**options) as update:
                Restatement(engine, self.layout, self.terms, self._classes, ()).state(after, update)
            changes.append(update.change)
            self._classes = after
        self._equated = engine.current
        return changes

    def is_equated(self, named: np.ndarray) -> bool:
        """Is all computed, with one representative for equal terms? `named` are those that rules name."""
        engine = self.engine
        if engine.database is None or engine.current.is_behind:
            return False
        return self._classes.merged(self._equalities(), named) is self._classes

    def _equalities(self) -> list[np.ndarray]:
        """The pairs of terms that follow to be the same, and are different."""
        relation = self.layout.properties.get(SAME, TRIPLES)
        columns = self.engine[relation].id_columns()
        if relation == TRIPLES:
            columns = [columns[j][columns[1] == self.terms.add([SAME])[0]] for j in (0, 2)]
        differ = columns[0] != columns[1]
        return [column[differ] for column in columns]

    def _copy_facts(self, options: Mapping[str, Any]) -> Change:
        """Rules name two terms that are the same: have facts for every one of the terms that are."""
        engine, classes, entailment = self.engine, self._classes, self.entailment
        before = self.knowledge
        try:
            with engine.update(**options) as update:
                Restatement(engine, self.layout, self.terms, classes, ()).state(Classes.none(), update)
                after = self._with_copies(before)
                declared = set(engine.relations)
                new = [rule for key, rule in after.rules.items() if key not in before.rules | self.rules]
                text = "".join(self.clauses(translate(rule, self.layout), declared) for rule in new)
                update.add_rules(text + "\n")
                self.note()
        except BaseException:
            self._classes, self.entailment = classes, entailment
            self.note()
            raise
        self._knowledge = after
        return update.change

    # Reading

    def sparql(
        self,
        query: str,
        *,
        base: str | None = None,
        prefixes: Mapping[str, str] | None = None,
        name: str = "query",
        expand: bool = True,
    ) -> Answer:
        """The answer of a query in SPARQL 1.1: rows, a truth value, or triples.

        Without `expand`, of terms that are the same (``owl:sameAs``) only the representatives are answers.

        `prefixes` need no declaration, nor do those of the rules and triples that were read. `name` is what
        messages call the query.
        """
        from gpuengine.rdf.sparql import answer

        graph: Graph = self if expand else self._answering(expand=False)
        return answer(query, graph, name=name, base=base, prefixes={**self.prefixes, **(prefixes or {})})

    def solve(self, patterns: Sequence[Triple], among: Among | None = None) -> Mapping[str, np.ndarray]:
        """See `gpuengine.rdf.graph.Graph`."""
        return self._answering().solve(patterns, among)

    def closure(self, predicate: str, *, reflexive: bool) -> tuple[np.ndarray, np.ndarray]:
        """See `gpuengine.rdf.graph.Graph`."""
        return self._answering().closure(predicate, reflexive=reflexive)

    def is_transitive(self, predicate: str) -> bool:
        """See `gpuengine.rdf.graph.Graph`."""
        return self._answering().is_transitive(predicate)

    def pairs(self, predicate: str, *, closed: bool) -> int | None:
        """See `gpuengine.rdf.graph.Graph`."""
        return self._answering().pairs(predicate, closed=closed)

    def graphs(self) -> np.ndarray:
        """The ids of the names of the named graphs."""
        return self._answering().graphs()

    def _answering(self, *, expand: bool = True) -> Answering:
        engine = self.ready()
        kept = self._kept.get(expand)
        if kept is None or not kept.is_current(engine):
            kept = Answering(engine, self.layout, self.terms, self._classes, expands=expand)
            self._kept[expand] = kept
        return kept

    def triples(self, *, generalised: bool = False, expand: bool = True) -> RelationView:
        """All triples of the default graph: columns s, p, o.

        What only rules need, with literals for subjects or blank nodes for predicates, is not shown, unless
        asked for as `generalised`. Without `expand`, of the terms that are the same (``owl:sameAs``) only the
        representatives are shown.
        """
        table = self._answering(expand=expand).all_triples(generalised=generalised)
        attributes = [Attribute(name, SYMBOL) for name in ("s", "p", "o")]
        return RelationView("triples", attributes, table, self.dictionary)

    def quads(self) -> RelationView:
        """All triples of named graphs: columns s, p, o, g."""
        return self.ready()["q"]

    def __len__(self) -> int:
        """How many triples there are, in all graphs."""
        return self._answering().count() + len(self.quads())

    def inconsistencies(self) -> list[Inconsistency]:
        """Where the triples contradict the ontology: the name of the rule, and the triples that make it."""
        from gpuengine.rdf.owl_inconsistencies import inconsistencies

        if self.entailment is None:
            raise GpuEngineError(
                "without a profile nothing is inconsistent\n  hint: RdfEngine(profile='owl2rl')"
            )
        compiled = self.knowledge.compiled
        assert compiled is not None
        return list(inconsistencies(self, compiled))

    # Updates

    def update(self, **options: Any) -> RdfUpdate:
        """Begin a transaction: ``with kb.update() as u: u.insert("new.nt")``.

        When the block ends, everything that was asked for happens, or, if something fails, nothing. `options`
        are those of `Engine.update`.
        """
        return RdfUpdate(self, self.ready().update(**options))

    def sparql_update(self, request: str, *, base: str | None = None, name: str = "update") -> list[Change]:
        """Do what a request of SPARQL Update says; what each transaction changed.

        Operations that read what earlier ones of the request change are transactions of their own.
        """
        from gpuengine.rdf.sparql.parser import parse_update
        from gpuengine.rdf.sparql.updates import delta_of, reads

        done: list[Change] = []
        waiting: list[Any] = []

        def commit() -> None:
            with self.update() as update:
                for one in waiting:
                    update.delete(one.minus)
                    update.insert(one.plus)
            done.append(update.change)
            waiting.clear()

        prefixes = tuple(self.prefixes.items())
        for operation in parse_update(request, name, base, prefixes).operations:
            if waiting and reads(operation):
                commit()
            waiting.append(delta_of(operation, self))
        if waiting:
            commit()
        return done

    def write(self, path: str | os.PathLike[str], *, format: str | None = None, expand: bool = True) -> int:
        """Write all triples to a file, .nt, .nq, .ttl, .trig (also .gz, .zst) or .parquet; how many.

        `expand` is that of `triples`.
        """
        from gpuengine.rdf.writing import write_file

        return write_file(self, Path(path), format, expand=expand)

    def save(self, path: str | os.PathLike[str], *, replace: bool = False) -> None:
        """Write a knowledge base that `gpuengine.open` goes on with, see `Engine.save`."""
        self.note()
        self.engine.save(path, replace=replace)

    def close(self) -> None:
        """Let go of the knowledge base that the engine was opened from."""
        if self._engine is not None:
            self._engine.close()

    def __enter__(self) -> RdfEngine:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class RdfUpdate(NotCopied):
    """What is to be inserted, deleted, added and removed; nothing happens before the `with` block ends.

    Later calls go before earlier ones. Axioms among the triples change the rules that they were compiled to.
    """

    instead = "begin another one with update()"

    def __init__(self, owner: RdfEngine, update: Update) -> None:
        self._owner = owner
        self._update = update
        self._rules = dict(owner.rules)
        self._knowledge: Knowledge | None = None
        self._literals: Literals | None = None
        self._changes: list[tuple[bool, Quads]] = []
        self._added: list[str] = []
        self._removed: list[str] = []
        self._turn = ExitStack()
        self._equated: list[Change] = []

    def __enter__(self) -> RdfUpdate:
        self._turn.enter_context(self._owner.engine.turn(self._update.wait))
        try:
            self._update.__enter__()
        except BaseException:
            self._turn.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._turn:
            if kind is not None:
                self._update.__exit__(kind, error, trace)
            else:
                self._commit()

    def _commit(self) -> None:
        """Do what is asked for, and what follows for terms that are the same; or nothing."""
        owner = self._owner
        before = owner.engine.current.notes, owner.rules, owner.entailment, owner._classes, owner._knowledge
        is_done = False
        stated: list[tuple[str, EncodedFacts, EncodedFacts]] = []
        try:
            try:
                classes = self._learn()
                owner.rules = self._rules
                owner.note()
                if owner._represents and self._knowledge is not None and self._knowledge.equates:
                    stated = self._stated_anew()  # more steps may follow, and fail
            except BaseException as failure:
                self._update.__exit__(type(failure), failure, failure.__traceback__)
                raise
            self._update.__exit__(None, None, None)
            is_done = True
            owner._classes = classes
            if self._knowledge is not None:
                owner._knowledge = self._knowledge
            if owner._represents:
                self._equated = owner.equate(watch=self._update.watch)
            if self._literals is not None:
                owner._literals = self._literals.settled()
        except BaseException:
            notes, owner.rules, owner.entailment, owner._classes, owner._knowledge = before
            owner.engine.note(notes)
            if is_done:
                self._undo(stated, classes)
            raise

    def _stated_anew(self) -> list[tuple[str, EncodedFacts, EncodedFacts]]:
        """By relation, the facts that will be stated no longer, and those that were not stated before."""
        loaded, changes = self._owner.engine.loaded, []
        for relation, delta in self._update.facts.items():
            masks = []
            for (columns, rows), is_kept in ((delta.minus_facts, True), (delta.plus_facts, False)):
                table = loaded.get(relation)
                inside = np.zeros(rows, np.bool_) if table is None else table.contains(columns, rows)
                chosen = [np.array(column[inside == is_kept]) for column in columns]
                masks.append(EncodedFacts(chosen, int(np.count_nonzero(inside == is_kept))))
            changes.append((relation, masks[0], masks[1]))
        return changes

    def _undo(self, stated: Iterable[tuple[str, EncodedFacts, EncodedFacts]], first: Classes) -> None:
        """Take back what was committed: a later step failed. `first` are the classes after the first one."""
        owner = self._owner
        engine = owner.engine
        with engine.update() as back:
            Restatement(engine, owner.layout, owner.terms, stored_classes(engine), ()).state(first, back)
        with engine.update() as back:
            for relation, gone, come in stated:
                if come.rows:
                    back.delete(relation, come)
                if gone.rows:
                    back.insert(relation, gone)
            for text in self._added:
                back.remove_rules(text)
            for text in self._removed:
                back.add_rules(text)

    @property
    def change(self) -> Change:
        """What the update changed, by the relation that keeps it; known once the `with` block has ended.

        Where facts are stored for representatives, these are what changed.
        """
        change = self._update.change
        for later in self._equated:
            change = change.then(later)
        return change

    def insert(
        self, data: Any, *, graph: str | None = None, format: str | None = None, on_error: str = "fail"
    ) -> int:
        """State triples, given as to `RdfEngine.load`; how many were read."""
        return self._change(True, self._owner.read(data, graph, format, on_error))

    def delete(
        self, data: Any, *, graph: str | None = None, format: str | None = None, on_error: str = "fail"
    ) -> int:
        """State triples no longer; those that follow from others stay. Returns how many were read."""
        return self._change(False, self._owner.read(data, graph, format, on_error))

    def _change(self, inserts: bool, quads: Quads) -> int:
        if not self._owner._represents:
            self._state(inserts, quads)
        self._changes.append((inserts, quads))
        return quads.rows

    def _state(self, inserts: bool, quads: Quads) -> None:
        change: Callable[[str, Any], int] = self._update.insert if inserts else self._update.delete
        for relation, columns in route(quads, self._owner.layout, self._owner.terms).items():
            change(relation, EncodedFacts(columns, len(columns[0])))

    def _learn(self) -> Classes:
        """Change the rules that axioms were compiled to, state what holds of literals, and have the terms
        that are stated to be the same in one class; the classes then."""
        owner = self._owner
        if owner.entailment is None:
            return Classes.none()
        before = owner.knowledge
        after = before.changed(self._changes, owner.terms, self._rules)
        represents = owner._represents
        if represents and not keeps_equality(self._rules.values()):
            after = self._copied(after)
        self._learn_literals(after)
        classes = Classes.none()
        if represents:
            restatement = Restatement(owner.engine, owner.layout, owner.terms, owner._classes, self._changes)
            has_classes = after.equates or len(owner._classes) > 0
            if owner._represents and has_classes:
                try:
                    classes = self._classes(restatement, after, before)
                except NamedTwice:
                    after = self._copied(after)
            if has_classes:
                restatement.state(classes, self._update)
            else:
                for inserts, quads in self._changes:
                    self._state(inserts, quads)
        if after is not before:
            self._add([rule for key, rule in after.rules.items() if key not in before.rules], after.rules)
            self._remove([rule for key, rule in before.rules.items() if key not in after.rules])
        self._knowledge = after
        return classes

    def _learn_literals(self, knowledge: Knowledge) -> None:
        """State what holds of literals that are mentioned now, and no longer what held of those that were."""
        owner, facts = self._owner, knowledge.literals
        before = owner.literals
        if facts == before.facts and facts.says_nothing:
            return
        mentions = Mentions(owner.engine, owner.layout, owner.terms, owner._classes, self._changes)
        if facts == before.facts:
            self._literals = mentions.after(before, (owner.rules, self._rules))
        else:
            self._literals = mentions.all_after(facts, self._rules)
        gone, come = before.until(self._literals)
        self._change(False, as_quads(gone, owner.terms))
        self._change(True, as_quads(come, owner.terms))

    def _copied(self, knowledge: Knowledge) -> Knowledge:
        """That with facts for every one of the terms that are the same."""
        owner = self._owner
        assert owner.entailment is not None
        owner.entailment = replace(owner.entailment, copies=True)
        return knowledge.with_copies(self._rules)

    def _classes(self, restatement: Restatement, after: Knowledge, before: Knowledge) -> Classes:
        """The classes to begin with: the stated ones, and those there are that can't lose a reason.

        What else is the same is found again, step by step.
        """
        owner = self._owner
        rules = after.rules | self._rules
        named = named_terms(rules.values(), owner.layout, owner.terms)
        if any(key not in rules for key in before.rules | owner.rules):
            first = Classes.none()
        else:
            first = self._staying(named)
        return first.merged(restatement.equalities(), named, like=owner._classes)

    def _staying(self, named: np.ndarray) -> Classes:
        """The classes that have other reasons than the triples that go."""
        owner = self._owner
        gone = [quads for inserts, quads in self._changes if not inserts and quads.rows]
        if not gone or not len(owner._classes):
            return owner._classes
        if not owner.is_equated(named):
            return Classes.none()
        reasons = Reasons(owner.engine, owner.layout, owner.terms, owner._classes)
        return reasons.without(gone)

    def add_rules(self, rules: Any) -> None:
        """Add rules: text in RDFox's syntax, a file of it, or `Rule` objects."""
        new = {canonical(rule): rule for rule in as_rules(rules)}
        given = [rule for key, rule in new.items() if key not in self._rules]
        compiled = self._compiled_rules()
        self._add([rule for rule in given if canonical(rule) not in compiled], compiled)
        self._rules |= {canonical(rule): rule for rule in given}

    def remove_rules(self, rules: Any) -> None:
        """Remove rules, given as to `add_rules`."""
        gone = []
        for rule in as_rules(rules):
            if canonical(rule) not in self._rules:
                raise GpuEngineError(f"there is no such rule: {rule.name or rule}")
            gone.append(self._rules.pop(canonical(rule)))
        compiled = self._compiled_rules()
        self._remove([rule for rule in gone if canonical(rule) not in compiled])

    def _compiled_rules(self) -> Mapping[Rule, Rule]:
        return self._owner.knowledge.rules if self._owner.entailment is not None else {}

    def _add(self, rules: Iterable[Rule], compiled: Mapping[Rule, Rule]) -> None:
        declared = set(self._owner.engine.relations)
        if self._update.edited is not None:
            declared |= set(self._update.edited.text.program.relations)
        text = ""
        for rule in rules:
            if compiled.get(canonical(rule)) is rule and canonical(rule) in self._rules:
                continue  # it is there already, as a rule of the user's own
            text += self._owner.clauses(translate(rule, self._owner.layout), declared)
        if text:
            self._update.add_rules(text + "\n")
            self._added.append(text + "\n")

    def _remove(self, rules: Iterable[Rule]) -> None:
        text = ""
        for rule in rules:
            if canonical(rule) not in self._rules:
                text += translate(rule, self._owner.layout).text
        if text:
            self._update.remove_rules(text + "\n")
            self._removed.append(text + "\n")


def as_rules(given: Any, prefixes: dict[str, str] | None = None) -> list[Rule]:
    """Rules as users give them; their prefixes are added to `prefixes`."""
    if given is None:
        return []
    if isinstance(given, Rule):
        return [given]
    if isinstance(given, str | os.PathLike):
        from gpuengine.rdf.dlog import parse_rules

        return parse_rules(given, prefixes)
    if not isinstance(given, Iterable):
        raise GpuEngineError(f"rules are text, a path or Rule objects, not {type(given).__name__}")
    return [rule for one in given for rule in as_rules(one, prefixes)]
