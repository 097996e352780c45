"""`RdfEngine`: triples, rules over them, an ontology, and what follows."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from gpuengine.engine import Engine
from gpuengine.errors import GpuEngineError
from gpuengine.io.triples import Findings
from gpuengine.kernels.identity import NotCopied
from gpuengine.language.program import SYMBOL, Attribute
from gpuengine.loading import EncodedFacts, check_arguments
from gpuengine.maintenance.change import Change
from gpuengine.rdf import functors
from gpuengine.rdf.answers import Answering
from gpuengine.rdf.knowledge import Entailment, Knowledge
from gpuengine.rdf.layout import Layout
from gpuengine.rdf.quads import DictionaryTerms, Quads, as_quads, joined
from gpuengine.rdf.routing import route, stated_quads
from gpuengine.rdf.rules import Rule, Triple, canonical
from gpuengine.rdf.translation import EVERYTHING, Clauses, everything, translate
from gpuengine.relation import RelationView
from gpuengine.terms.dictionary import Dictionary

if TYPE_CHECKING:
    from gpuengine.evaluation.interruptible import Watcher
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
    first computed; see `gpuengine.rdf.layout`. `options` are those of `Engine`.
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
        **options: Any,
    ) -> None:
        if profile not in _PROFILES:
            raise GpuEngineError(f"profile is 'owl2rl', 'rdfs' or None, not {profile!r}")
        self.entailment = None if profile is None else Entailment(profile, axiomatic, meta)
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
        self._kept: Answering | None = None
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
            quads = as_quads(data, self.terms)
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
        rules = list((knowledge.rules | self.rules).values())
        self.layout = Layout.of(rules)
        text = self.layout.declarations()
        known: set[str] = set()
        for rule in rules:
            text += self.clauses(translate(rule, self.layout), known)
        self._engine = Engine(text, dictionary=self.dictionary, **self.options)
        self._pending = []
        self._state(quads)
        facts, self._knowledge = knowledge.literal_facts(self.terms)
        if facts:
            self._state(as_quads(facts, self.terms))
        self.note()

    def adopt(self, engine: Engine, layout: Layout, rules: Rules, files: int) -> None:
        """Go on with an engine that was opened."""
        self._engine, self.layout, self.rules, self.files = engine, layout, rules, files
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
                stated_quads(self.engine, self.layout, self.terms),
                self.terms,
                self.rules,
            )
        return self._knowledge

    def clauses(self, clauses: Clauses, known: set[str]) -> str:
        """The text of clauses, with the declarations that it needs beside the relations known."""
        text = clauses.declarations(known)
        if any(name == EVERYTHING for name, _ in clauses.declared) and EVERYTHING not in known:
            text += everything(self.layout).text
        known.update(name for name, _ in clauses.declared)
        return text + clauses.text

    def materialise(self, *, watch: Watcher | None = None, timeout: float | None = None) -> RdfEngine:
        """Compute all that follows; returns the engine. `watch` and `timeout` are those of `Engine`."""
        self.engine.materialise(watch=watch, timeout=timeout)
        return self

    def ready(self) -> Engine:
        """The engine with all that follows from what is loaded."""
        engine = self.engine
        if engine.database is None or engine.current.is_behind:
            engine.materialise()
        return engine

    # Reading

    def sparql(
        self,
        query: str,
        *,
        base: str | None = None,
        prefixes: Mapping[str, str] | None = None,
        name: str = "query",
    ) -> Answer:
        """The answer of a query in SPARQL 1.1: rows, a truth value, or triples.

        `prefixes` need no declaration, nor do those of the rules and triples that were read. `name` is what
        messages call the query.
        """
        from gpuengine.rdf.sparql import answer

        return answer(query, self, name=name, base=base, prefixes={**self.prefixes, **(prefixes or {})})

    def solve(self, patterns: Sequence[Triple]) -> Mapping[str, np.ndarray]:
        """See `gpuengine.rdf.graph.Graph`."""
        return self._answering.solve(patterns)

    def closure(self, predicate: str, *, reflexive: bool) -> tuple[np.ndarray, np.ndarray]:
        """See `gpuengine.rdf.graph.Graph`."""
        return self._answering.closure(predicate, reflexive=reflexive)

    def graphs(self) -> np.ndarray:
        """The ids of the names of the named graphs."""
        return self._answering.graphs()

    @property
    def _answering(self) -> Answering:
        engine = self.ready()
        if self._kept is None or not self._kept.is_current(engine):
            self._kept = Answering(engine, self.layout, self.terms)
        return self._kept

    def triples(self, *, generalised: bool = False) -> RelationView:
        """All triples of the default graph: columns s, p, o.

        What only rules need, with literals for subjects or blank nodes for predicates, is not shown, unless
        asked for as `generalised`.
        """
        table = self._answering.all_triples(generalised=generalised)
        attributes = [Attribute(name, SYMBOL) for name in ("s", "p", "o")]
        return RelationView("triples", attributes, table, self.dictionary)

    def quads(self) -> RelationView:
        """All triples of named graphs: columns s, p, o, g."""
        return self.ready()["q"]

    def __len__(self) -> int:
        """How many triples there are, in all graphs."""
        return self._answering.count() + len(self.quads())

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
        from gpuengine.rdf.sparql.updates import changes, reads

        done: list[Change] = []
        waiting: list[Any] = []

        def commit() -> None:
            with self.update() as update:
                for one in waiting:
                    update.delete(one.delete)
                    update.insert(one.insert)
            done.append(update.change)
            waiting.clear()

        prefixes = tuple(self.prefixes.items())
        for operation in parse_update(request, name, base, prefixes).operations:
            if waiting and reads(operation):
                commit()
            waiting.append(changes(operation, self))
        if waiting:
            commit()
        return done

    def write(self, path: str | os.PathLike[str], *, format: str | None = None) -> int:
        """Write all triples to a file, .nt, .nq, .ttl, .trig (also .gz, .zst) or .parquet; how many."""
        from gpuengine.rdf.writing import write_file

        return write_file(self, Path(path), format)

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
        self._changes: list[tuple[bool, Quads]] = []

    def __enter__(self) -> RdfUpdate:
        self._update.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        owner = self._owner
        before, rules = owner.engine.current.notes, owner.rules
        try:
            if kind is None:
                self._learn()
                owner.rules = self._rules
                owner.note()
        except BaseException as failure:
            owner.rules = rules
            owner.engine.note(before)
            self._update.__exit__(type(failure), failure, failure.__traceback__)
            raise
        try:
            self._update.__exit__(kind, error, trace)
        except BaseException:
            owner.rules = rules
            owner.engine.note(before)
            raise
        if kind is None and self._knowledge is not None:
            owner._knowledge = self._knowledge

    @property
    def change(self) -> Change:
        """What the update changed, by the relation that keeps it; known once the `with` block has ended."""
        return self._update.change

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
        change: Callable[[str, Any], int] = self._update.insert if inserts else self._update.delete
        for relation, columns in route(quads, self._owner.layout, self._owner.terms).items():
            change(relation, EncodedFacts(columns, len(columns[0])))
        self._changes.append((inserts, quads))
        return quads.rows

    def _learn(self) -> None:
        """Change the rules that axioms were compiled to, and state what holds of new literals."""
        owner = self._owner
        if owner.entailment is None:
            return
        before = owner.knowledge
        after = before.changed(self._changes, owner.terms, self._rules)
        if after is not before:
            self._add([rule for key, rule in after.rules.items() if key not in before.rules], after.rules)
            self._remove([rule for key, rule in before.rules.items() if key not in after.rules])
        facts, after = after.literal_facts(owner.terms)
        if facts:
            for relation, columns in route(as_quads(facts, owner.terms), owner.layout, owner.terms).items():
                self._update.insert(relation, EncodedFacts(columns, len(columns[0])))
        self._knowledge = after

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
        known = set(self._owner.engine.relations)
        if self._update.edited is not None:
            known |= set(self._update.edited.text.program.relations)
        text = ""
        for rule in rules:
            if compiled.get(canonical(rule)) is rule and canonical(rule) in self._rules:
                continue  # it is there already, as a rule of the user's own
            text += self._owner.clauses(translate(rule, self._owner.layout), known)
        if text:
            self._update.add_rules(text + "\n")

    def _remove(self, rules: Iterable[Rule]) -> None:
        text = ""
        for rule in rules:
            if canonical(rule) not in self._rules:
                text += translate(rule, self._owner.layout).text
        if text:
            self._update.remove_rules(text + "\n")


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
