"""Programs whose rules come and go: a `ProgramText` is a first text and the edits since.

A rule is there if the last text that mentions it adds it.  Rules are compared as they are after lowering
(one for each head and disjunct) and before inlining, up to the names of their variables:

    base      path(x, y) :- edge(x, y) ; path(x, z), edge(z, y).
    remove    path(a, b) :- edge(a, b).                               one rule of the two stays
    add       path(x, y) :- edge(x, y).                               and the other is back

The first edit parses the program again, as most programs are never edited and need not keep what was
parsed; then it is kept.  An edit that brings only clauses is lowered by itself; one that declares
something has all clauses lowered again, as it may change what their names and types mean.
"""

from __future__ import annotations

import difflib
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

from gpuengine.errors import GpuEngineError
from gpuengine.language import codes
from gpuengine.language.components import Flat, Scope, ScopedClause, expand
from gpuengine.language.declarations import Declarations
from gpuengine.language.diagnostics import MAX_DIAGNOSTICS, Reporter
from gpuengine.language.frontend import check, finish, lower_clause, open_source, parse_items, raising
from gpuengine.language.lowering import LoweredRule
from gpuengine.language.preprocess import Included, Preprocessor
from gpuengine.language.program import Constant, Program, Rule, canonical
from gpuengine.language.source import SourceMap
from gpuengine.language.syntax import (
    Clause,
    Component,
    DirectiveDecl,
    FunctorDecl,
    Item,
    LatticeDecl,
    Pragma,
    RelationDecl,
)
from gpuengine.language.type_environment import declare

_FORMAT = 1
_SHOWN = 2  # how many rules a hint shows
_COMPARED = 500  # and among how many it looks for them
_GLOBAL = Scope("", None, {}, {})


@dataclass(frozen=True, slots=True)
class Edit:
    """One change of a program; errors call its text `name`."""

    kind: Literal["add", "remove"]
    text: str
    name: str = ""

    def __post_init__(self) -> None:
        if self.kind not in ("add", "remove"):
            raise GpuEngineError(f"an edit is 'add' or 'remove', not {self.kind!r}")
        if not self.name:
            object.__setattr__(self, "name", f"<{'added' if self.kind == 'add' else 'removed'} rules>")


class _Text(NamedTuple):
    """A text of a history, which begins with the program as an edit that adds it."""

    edit: Edit
    includes: tuple[Included, ...]


class _Origin(NamedTuple):
    """What the texts of a history are read with; `path` is that of the first one, absolute."""

    path: Path | None
    include_dirs: tuple[Path, ...]
    macros: dict[str, str]


class _Part(NamedTuple):
    """A text that was parsed."""

    text: _Text
    items: list[Item]
    start: int  # its place among the positions of the source map; it goes up to the next part's

    @property
    def adds(self) -> bool:
        return self.text.edit.kind == "add"


class _State(NamedTuple):
    """All that reading and checking the parts gave. Never changed."""

    parts: tuple[_Part, ...]
    sources: SourceMap
    preprocessor: Preprocessor
    declarations: Declarations
    rules: list[LoweredRule]  # before inlining
    program: Program


class EditedText(NamedTuple):
    """What `ProgramText.edited` gives.

    The facts are those that the edits of this call add and remove, each as the last edit that mentions
    it has it, whether or not the program had it before; and those that came or went by inlining.
    """

    text: ProgramText
    added_facts: tuple[Rule, ...]
    removed_facts: tuple[Rule, ...]


class ProgramText:
    """An immutable, checked program text: what `read` read, and the edits since."""

    __slots__ = ("_origin", "_program", "_state", "_texts")

    def __init__(
        self, texts: tuple[_Text, ...], origin: _Origin, program: Program, state: _State | None = None
    ) -> None:
        self._texts = texts
        self._origin = origin
        self._program = program
        self._state = state  # made by the first edit

    @staticmethod
    def read(
        source: str | Path,
        *,
        name: str | None = None,
        include_dirs: Sequence[Path] = (),
        macros: Mapping[str, str] | None = None,
        error_limit: int = MAX_DIAGNOSTICS,
    ) -> ProgramText:
        """As `gpuengine.language.parse_program`. Raises `ProgramErrors` with the first `error_limit` errors,
        or with all if that is 0."""
        reporter = Reporter(SourceMap(), error_limit)
        directories = tuple(Path(directory).resolve() for directory in include_dirs)
        with raising(reporter):
            buffer = open_source(source, name or "<program>", reporter)
            preprocessor = Preprocessor(reporter, directories, macros or {})
            program = check(parse_items(buffer, preprocessor, reporter), reporter)
        path = None if buffer.path is None else buffer.path.absolute()
        text = _Text(Edit("add", buffer.text, str(buffer.name)), tuple(preprocessor.included))
        return ProgramText((text,), _Origin(path, directories, dict(macros or {})), program)

    @property
    def program(self) -> Program:
        """The program as `parse_program` would give it; its rules are in the order of the texts."""
        return self._program

    @property
    def edits(self) -> tuple[Edit, ...]:
        return tuple(text.edit for text in self._texts[1:])

    def edited(self, edits: Sequence[Edit]) -> EditedText:
        """The text after `edits`, in their order; only their common result has to be right.

        An added text may hold all that a program may.  It sees the macros of the texts before it, and may
        include files of the include directories and of the directory of the program's file.  A removed
        text holds rules, which the program must have, and facts, which it may have; it means what it
        would mean outside of components, and each occurrence of its rules goes.  Raises `ProgramErrors`
        with all errors, and then changes nothing.
        """
        if self._state is None:
            self._state = _replay(self._texts, self._origin)
        before = self._state
        reporter = Reporter(before.sources.copy())
        fact_edits = _FactEdits()
        with raising(reporter):
            new = [_Text(edit, ()) for edit in edits]
            declared = before.declarations.relations
            parts, preprocessor = _read(new, before.preprocessor, reporter, declared=declared)
            if all(isinstance(item, Clause) for part in parts for item in part.items):
                state = _go_on(before, parts, preprocessor, reporter, fact_edits)
            else:
                state = _check([*before.parts, *parts], preprocessor, reporter, fact_edits, len(before.parts))
        fact_edits.compare(before.program, state.program)
        texts = tuple(part.text for part in state.parts)
        text = ProgramText(texts, self._origin, state.program, state)
        return EditedText(text, fact_edits.facts("add"), fact_edits.facts("remove"))

    def to_json(self) -> dict[str, Any]:
        """Everything needed to read the text again without any file."""
        path, include_dirs, macros = self._origin
        return {
            "format": _FORMAT,
            "path": None if path is None else str(path),
            "include_dirs": [str(directory) for directory in include_dirs],
            "macros": macros,
            "texts": [
                {
                    "kind": edit.kind,
                    "name": edit.name,
                    "text": edit.text,
                    "includes": [list(file) for file in includes],
                }
                for edit, includes in self._texts
            ],
        }

    @staticmethod
    def from_json(saved: Mapping[str, Any]) -> ProgramText:
        """The text that `to_json` saved; its program is equal. Raises `GpuEngineError` if it is damaged."""
        try:
            if saved["format"] != _FORMAT:
                raise GpuEngineError(f"program text of an unknown format: {saved['format']!r}")
            path = None if saved["path"] is None else Path(saved["path"])
            directories = tuple(Path(directory) for directory in saved["include_dirs"])
            macros = {str(key): str(value) for key, value in saved["macros"].items()}
            texts = tuple(
                _Text(
                    Edit(text["kind"], text["text"], text["name"]),
                    tuple(Included(*map(str, file)) for file in text["includes"]),
                )
                for text in saved["texts"]
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise GpuEngineError(f"this is no saved program text: {error!r}") from error
        origin = _Origin(path, directories, macros)
        return ProgramText(texts, origin, _replay(texts, origin).program)


# Reading


def _replay(texts: Sequence[_Text], origin: _Origin) -> _State:
    """Read and check a history, without its files."""
    reporter = Reporter(SourceMap())
    with raising(reporter):
        preprocessor = Preprocessor(reporter, origin.include_dirs, origin.macros)
        return _check(*_read(texts, preprocessor, reporter, origin.path), reporter)


def _read(
    texts: Iterable[_Text],
    preprocessor: Preprocessor,
    reporter: Reporter,
    path: Path | None = None,
    declared: Iterable[str] = (),
) -> tuple[list[_Part], Preprocessor]:
    """The parsed texts, and the preprocessor for the next; `path` is that of the first of them.

    What a text includes is taken from it, and from files if it does not say. `declared` are the relations of
    earlier texts.
    """
    relations = set(declared)
    parts: list[_Part] = []
    for edit, includes in texts:
        reading = preprocessor.resume(reporter, includes, again=edit.kind == "remove")
        buffer = reporter.sources.add(edit.name, edit.text, None if parts else path)
        items = parse_items(buffer, reading, reporter, relations)
        relations |= {name.text for item in items if isinstance(item, RelationDecl) for name in item.names}
        if edit.kind == "add":
            preprocessor = reading
        else:
            items = [item for item in items if _removable(item, reporter)]
        parts.append(_Part(_Text(edit, tuple(reading.included)), items, buffer.base))
    return parts, preprocessor


def _removable(item: Item, reporter: Reporter) -> bool:
    if isinstance(item, Clause):
        return True
    if isinstance(item, RelationDecl | FunctorDecl | LatticeDecl | DirectiveDecl | Pragma):
        start, end = item.start, item.end
    else:
        name = item.type.name if isinstance(item, Component) else item.name
        start, end = name.start, name.end
    message = "only rules and facts can be removed"
    reporter.error(codes.SYNTAX, message, start, end, "what is declared stays: leave it out")
    return False


# Checking


class _FactEdits:
    """The facts that edits add and remove."""

    def __init__(self) -> None:
        self._last: dict[Rule, Literal["add", "remove"]] = {}

    def note(self, kind: Literal["add", "remove"], rule: Rule) -> None:
        if _is_fact(rule):
            self._last.pop(rule, None)
            self._last[rule] = kind

    def compare(self, before: Program, after: Program) -> None:
        """Add what inlining makes facts of, and leave out the facts of relations that are inlined."""
        if before.inlines or after.inlines:
            old, new = ({rule: None for rule in p.rules if _is_fact(rule)} for p in (before, after))
            for rule in old:
                if rule not in new:
                    self._last[rule] = "remove"
            for rule in new:
                if rule not in old:
                    self._last[rule] = "add"
                elif self._last.get(rule) == "remove":  # a rule still makes it
                    del self._last[rule]
            relations = {**before.relations, **after.relations}
            self._last = {rule: kind for rule, kind in self._last.items() if rule.head.relation in relations}

    def facts(self, kind: Literal["add", "remove"]) -> tuple[Rule, ...]:
        return tuple(rule for rule, last in self._last.items() if last == kind)


def _check(
    parts: Sequence[_Part],
    preprocessor: Preprocessor,
    reporter: Reporter,
    fact_edits: _FactEdits | None = None,
    first_edit: int = 0,
) -> _State:
    """Check the whole history; `fact_edits` are those from the part `first_edit` on."""
    flat, _ = expand([item for part in parts if part.adds for item in part.items], reporter)
    declarations = Declarations(flat, declare(flat.types, reporter, flat.pragmas), reporter)
    clauses: list[list[ScopedClause]] = [[] for _ in parts]
    starts = [part.start for part in parts]
    for scoped in flat.clauses:
        clauses[bisect_right(starts, _last_place(scoped, flat)) - 1].append(scoped)
    rules: list[LoweredRule] = []
    for number, part in enumerate(parts):
        noted = fact_edits if number >= first_edit else None
        if part.adds:
            rules = _added(clauses[number], rules, declarations, reporter, noted)
        else:
            rules = _removed(part.items, rules, declarations, reporter, noted)
    program = finish(rules, declarations, [(pragma.key, pragma.value) for pragma in flat.pragmas], reporter)
    return _State(tuple(parts), reporter.sources, preprocessor, declarations, rules, program)


def _last_place(scoped: ScopedClause, flat: Flat) -> int:
    """Where the last of the texts that together state a clause stands: its own, and each ``.init``."""
    place = scoped.clause.start
    scope: Scope | None = scoped.scope
    while scope is not None and scope.prefix:
        place = max(place, flat.instances[scope.prefix[:-1]].start)
        scope = scope.outer
    return place


def _go_on(
    before: _State,
    parts: Sequence[_Part],
    preprocessor: Preprocessor,
    reporter: Reporter,
    fact_edits: _FactEdits,
) -> _State:
    """Check parts that hold only clauses after all that is known already."""
    declarations = Declarations(Flat(), before.declarations.environment, reporter)
    declarations.relations = before.declarations.relations
    declarations.functors = before.declarations.functors
    declarations.lattices = before.declarations.lattices
    declarations.directives = before.declarations.directives
    rules = list(before.rules)
    for part in parts:
        if part.adds:
            clauses = [ScopedClause(item, item.heads, _GLOBAL) for item in _clauses(part.items)]
            rules = _added(clauses, rules, declarations, reporter, fact_edits)
        else:
            rules = _removed(part.items, rules, declarations, reporter, fact_edits)
    program = finish(rules, declarations, before.program.pragmas, reporter)
    history = (*before.parts, *parts)
    return _State(history, reporter.sources, preprocessor, declarations, rules, program)


def _clauses(items: Iterable[Item]) -> Iterator[Clause]:
    return (item for item in items if isinstance(item, Clause))


def _added(
    clauses: Iterable[ScopedClause],
    rules: list[LoweredRule],
    declarations: Declarations,
    reporter: Reporter,
    fact_edits: _FactEdits | None,
) -> list[LoweredRule]:
    """`rules` and those of `clauses`."""
    new = [lowered for scoped in clauses for lowered in lower_clause(scoped, declarations, reporter)]
    if fact_edits is not None:
        for lowered in new:
            fact_edits.note("add", lowered.rule)
    return rules + new


def _removed(
    items: Iterable[Item],
    rules: list[LoweredRule],
    declarations: Declarations,
    reporter: Reporter,
    fact_edits: _FactEdits | None,
) -> list[LoweredRule]:
    """`rules` without those of the clauses in `items`; a rule that is not there is reported."""
    wanted: list[dict[Rule, LoweredRule]] = []  # of each clause
    for clause in _clauses(items):
        scoped = ScopedClause(clause, clause.heads, _GLOBAL)
        lowered = lower_clause(scoped, declarations, reporter)
        wanted.append({canonical(rule.rule): rule for rule in lowered})
    gone = {key: None for of_clause in wanted for key in of_clause}
    heads = {key.head.relation for key in gone}
    matches: set[Rule] = set()
    kept: list[LoweredRule] = []
    for rule in rules:
        if rule.rule.head.relation in heads and (key := canonical(rule.rule)) in gone:
            matches.add(key)
        else:
            kept.append(rule)
    for of_clause in wanted:
        missing = [rule for key, rule in of_clause.items() if key not in matches and not _is_fact(key)]
        if missing:
            _report_missing(missing, len(of_clause), rules, reporter)
    if fact_edits is not None:
        for key in gone:
            fact_edits.note("remove", key)
    return kept


def _is_fact(rule: Rule) -> bool:
    return not rule.body and all(isinstance(arg, Constant) for arg in rule.head.args)


def _report_missing(
    missing: list[LoweredRule], total: int, rules: Iterable[LoweredRule], reporter: Reporter
) -> None:
    """Report a clause of which the program lacks the rules `missing`."""
    clause = missing[0]
    relation = clause.rule.head.relation
    text = _on_one_line(clause.rule)
    candidates: dict[str, Rule] = {}
    for rule in rules:
        if rule.rule.head.relation == relation and len(candidates) < _COMPARED:
            candidates.setdefault(_on_one_line(rule.rule), rule.rule)
    close = difflib.get_close_matches(text, candidates, n=_SHOWN, cutoff=0.0)
    notes = [f"it stands for {total} rules, and {len(missing)} of them can't be found"] if total > 1 else []
    notes += [f"near to it is {near} at {candidates[near].span}" for near in close]
    hint = f"{relation} has no rules"
    if close:
        hint = "the literals and their order must be the same, the names of variables need not"
    message = f"the program has no rule {text}"
    reporter.error(codes.UNKNOWN_RULE, message, clause.start, clause.end, hint, notes)


def _on_one_line(rule: Rule) -> str:
    return " ".join(rule.text.split())
