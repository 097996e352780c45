"""`Session`: an engine that one talks to, a statement at a time; the shell and notebooks are made of it.

Declarations, rules and facts are added as transactions, ``?- …`` is a query, ``.word`` a command. Each
statement gives text to show, or raises; what it raises leaves everything as it was.
"""

from __future__ import annotations

import os
import re
import shlex
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gpuengine.engine import Engine
from gpuengine.errors import GpuEngineError
from gpuengine.language.program import Rule
from gpuengine.loading import EncodedFacts, Facts, encode_rule_facts
from gpuengine.maintenance.change import Change
from gpuengine.showing import MOST_ROWS, text_table

_TOKEN = re.compile(r'"(?:\\.|[^"\\\n])*"|//[^\n]*|/\*.*?\*/|[(){}\[\]]|\.(?=\s|$)|\.\w+|\S|\s', re.DOTALL)
_LINES = (".decl", ".type", ".input", ".output", ".printsize", ".limitsize", ".pragma", ".init", ".override")
_QUERY = "?-"


@dataclass(frozen=True, slots=True)
class _Undo:
    """What takes a transaction back: facts to state and to state no longer, clauses to add and to remove."""

    state: dict[str, Facts]
    withdraw: dict[str, Facts]
    add: tuple[str, ...]
    remove: tuple[str, ...]


class Session:
    """`engine` changes with what is said; `path` is the knowledge base that it was opened from, if one."""

    def __init__(self, engine: Engine | None = None) -> None:
        self.engine = Engine("") if engine is None else engine
        self.is_timing = False
        self.is_over = False
        self.rows = MOST_ROWS
        self._pending: list[tuple[str, str]] | None = None
        self._undo: list[_Undo] = []

    # -- statements --------------------------------------------------------------------------------------

    def execute(self, statement: str) -> str:
        """What a statement gives to show."""
        started = time.perf_counter()
        shown = self._execute(statement.strip())
        if self.is_timing:
            shown += f"{time.perf_counter() - started:.3f} s\n"
        return shown

    def _execute(self, statement: str) -> str:
        if not statement:
            return ""
        if statement.startswith(_QUERY):
            return self._query(statement)
        word, _, rest = statement.partition(" ")
        if word in COMMANDS:
            return COMMANDS[word].run(self, rest.strip())
        if re.fullmatch(r"\.[a-z_]+", word) and word not in (*_LINES, ".comp"):
            raise GpuEngineError(f"there is no command {word}\n  hint: .help lists them")
        return self._say("add", statement)

    def _query(self, text: str) -> str:
        self._materialise()
        answers = self.engine.query(text.removesuffix("."))
        return text_table(answers.columns, answers.head(self.rows).to_pylist(), len(answers))

    def _materialise(self) -> None:
        if self.engine.current.relations is None or self.engine.current.is_behind:
            self.engine.materialise()

    def _say(self, kind: str, text: str) -> str:
        if self._pending is not None:
            self._pending.append((kind, text))
            return ""
        return self._transact([(kind, text)])

    def _transact(self, said: Sequence[tuple[str, str]]) -> str:
        """Add and remove clauses in one transaction; what changed."""
        before = set(self.engine.source.rules)
        with self.engine.update() as update:
            for kind, text in said:
                if kind == "add":
                    update.add_rules(text)
                else:
                    update.remove_rules(text)
            assert update.edited is not None
            stated = self._facts(update.edited.added_facts, are_stated=False)
            withdrawn = self._facts(update.edited.removed_facts, are_stated=True)
        after = set(self.engine.source.rules)
        added = _clauses([rule for rule in after - before if rule.body], after)
        removed = _clauses([rule for rule in before - after if rule.body], before)
        if added is not None and removed is not None:
            self._undo.append(_Undo(withdrawn, stated, removed, added))
        return told(update.change)

    def _facts(self, rules: Sequence[Rule], *, are_stated: bool) -> dict[str, Facts]:
        """The facts of clauses that are, or are not, stated now."""
        found = {}
        for name, (columns, count) in encode_rule_facts(rules, self.engine.dictionary).items():
            table = self.engine.loaded.get(name)
            known = np.zeros(count, np.bool_)
            if table is not None and len(table):
                known = np.asarray(table.contains(columns, count), np.bool_)
            kept = known if are_stated else ~known
            if kept.any():
                found[name] = [column[kept] for column in columns], int(np.count_nonzero(kept))
        return found

    # -- commands ----------------------------------------------------------------------------------------

    def help(self, argument: str) -> str:
        """what can be said"""
        width = max(len(f"{name} {one.form}".strip()) for name, one in COMMANDS.items())
        lines = [
            "a declaration, a rule or a fact, ended by a dot, is added",
            "?- path(1, x), x > 2.     asks; x : … asks for x only",
        ]
        lines += [f"{f'{name} {one.form}'.strip():{width}}  {one.summary}" for name, one in COMMANDS.items()]
        return "\n".join(lines) + "\n"

    def load(self, argument: str) -> str:
        """state the facts of a file, or add the program of one"""
        words = _words(argument)
        if len(words) == 1:
            path = Path(words[0])
            try:
                return self._say("add", path.read_text(encoding="utf-8"))
            except (OSError, UnicodeDecodeError) as error:
                raise GpuEngineError(f"can't read {path}: {error}") from error
        relation, file = _two(words, ".load RELATION FILE, or .load PROGRAM.dl")
        columns, count = self.engine.encode_facts(self.engine.declared(relation), Path(file))
        with self.engine.update() as update:
            table = self.engine.loaded[relation]
            new = (
                ~np.asarray(table.contains(columns, count), np.bool_)
                if len(table)
                else np.ones(count, np.bool_)
            )
            facts = [column[new] for column in columns], int(np.count_nonzero(new))
            update.insert(relation, EncodedFacts(*facts))
        self._undo.append(_Undo({}, {relation: facts} if facts[1] else {}, (), ()))
        return told(update.change)

    def save(self, argument: str) -> str:
        """save everything as a knowledge base: a directory, new or empty"""
        (path,) = _words(argument, 1, ".save DIRECTORY")
        self.engine.save(path)
        return f"saved as {path}\n"

    def open(self, argument: str) -> str:
        """go on with a knowledge base, or with a program"""
        from gpuengine.opening import open as open_knowledge_base

        (path,) = _words(argument, 1, ".open KB or .open PROGRAM.dl")
        made = open_knowledge_base(path) if Path(path).is_dir() else Engine(Path(path))
        if not isinstance(made, Engine):
            made.close()
            raise GpuEngineError(f"{path} is no knowledge base of Datalog")
        self.engine.close()
        self.engine = made
        self._undo.clear()
        self._pending = None
        return self.schema("")

    def explain(self, argument: str) -> str:
        """why a fact holds"""
        self._materialise()
        return str(self.engine.explain(argument.removesuffix("."), limit=self.rows))

    def why_not(self, argument: str) -> str:
        """why a fact does not hold"""
        self._materialise()
        return str(self.engine.why_not(argument.removesuffix(".")))

    def plan(self, argument: str) -> str:
        """how relations are evaluated"""
        from gpuengine.planning.explain import explain
        from gpuengine.planning.explanation import explain_plan

        plan = self.engine.plan(_words(argument) or None)
        return explain(explain_plan("session", plan, self.engine.loaded, self.engine.prepared.chooser(plan)))

    def schema(self, argument: str) -> str:
        """the relations, or one of them, with sizes"""
        names = [self.engine.declared(name).name for name in _words(argument)] or list(self.engine.relations)
        is_known = self.engine.current.relations is not None
        rows = []
        for name in names:
            columns = ", ".join(
                f"{one.name}: {one.type.name}" for one in self.engine.relations[name].attributes
            )
            rows.append(
                (f"{name}({columns})", len(self.engine[name]) if is_known else len(self.engine.loaded[name]))
            )
        return text_table(("relation", "facts"), rows, len(rows)) if rows else "nothing is declared yet\n"

    def rules(self, argument: str) -> str:
        """the rules as they were written"""
        texts = dict.fromkeys(" ".join(rule.text.split()) for rule in self.engine.source.rules if rule.body)
        return "".join(f"{text}\n" for text in texts)

    def remove(self, argument: str) -> str:
        """remove a rule or a fact"""
        return self._say("remove", argument)

    def begin(self, argument: str) -> str:
        """begin a transaction: what is said then happens together"""
        if self._pending is not None:
            raise GpuEngineError("a transaction has begun already\n  hint: .commit or .rollback ends it")
        self._pending = []
        return ""

    def commit(self, argument: str) -> str:
        """end the transaction: everything happens, or nothing"""
        said = self._begun()
        self._pending = None
        return self._transact(said) if said else "nothing was said\n"

    def rollback(self, argument: str) -> str:
        """forget what was said since .begin"""
        self._begun()
        self._pending = None
        return ""

    def _begun(self) -> list[tuple[str, str]]:
        if self._pending is None:
            raise GpuEngineError("no transaction has begun\n  hint: .begin does")
        return self._pending

    def undo(self, argument: str) -> str:
        """take the last transaction back; declarations stay"""
        if not self._undo:
            raise GpuEngineError("there is nothing to take back")
        one = self._undo[-1]
        with self.engine.update() as update:
            if one.remove:
                update.remove_rules("\n".join(one.remove))
            if one.add:
                update.add_rules("\n".join(one.add))
            for name, facts in one.withdraw.items():
                update.delete(name, EncodedFacts(*facts))
            for name, facts in one.state.items():
                update.insert(name, EncodedFacts(*facts))
        self._undo.pop()
        return told(update.change)

    def timing(self, argument: str) -> str:
        """say how long each statement takes, or no longer"""
        self.is_timing = argument != "off" if argument else not self.is_timing
        return f"timing is {'on' if self.is_timing else 'off'}\n"

    def limit(self, argument: str) -> str:
        """show so many rows at most"""
        if not argument.isdigit() or not int(argument):
            raise GpuEngineError(f"{argument!r} is not a number above 0")
        self.rows = int(argument)
        return ""

    def quit(self, argument: str) -> str:
        """leave"""
        self.is_over = True
        return ""

    def words(self) -> list[str]:
        """What can be completed: commands, relations and their attributes, words of the language."""
        attributes = (one.name for relation in self.engine.relations.values() for one in relation.attributes)
        return [*COMMANDS, *_LINES, _QUERY, *dict.fromkeys((*self.engine.relations, *attributes, *_WORDS))]


_WORDS = (
    "number",
    "symbol",
    "unsigned",
    "float",
    "count",
    "sum",
    "min",
    "max",
    "mean",
    "range",
    "cat",
    "strlen",
)


@dataclass(frozen=True, slots=True)
class Command:
    """A word with a dot; `form` is what follows it."""

    run: Callable[[Session, str], str]
    form: str = ""

    @property
    def summary(self) -> str:
        return self.run.__doc__ or ""


COMMANDS = {
    ".help": Command(Session.help),
    ".open": Command(Session.open, "KB|PROGRAM.dl"),
    ".save": Command(Session.save, "KB"),
    ".load": Command(Session.load, "RELATION FILE|PROGRAM.dl"),
    ".remove": Command(Session.remove, "CLAUSE"),
    ".begin": Command(Session.begin),
    ".commit": Command(Session.commit),
    ".rollback": Command(Session.rollback),
    ".undo": Command(Session.undo),
    ".schema": Command(Session.schema, "[RELATION]"),
    ".rules": Command(Session.rules),
    ".plan": Command(Session.plan, "[RELATION]"),
    ".explain": Command(Session.explain, "FACT"),
    ".whynot": Command(Session.why_not, "FACT"),
    ".timing": Command(Session.timing, "[on|off]"),
    ".limit": Command(Session.limit, "N"),
    ".quit": Command(Session.quit),
}


def told(change: Change) -> str:
    """What came and went, a line for each relation."""
    lines = [f"{name}: +{len(change[name].inserted):,} -{len(change[name].deleted):,}\n" for name in change]
    return "".join(lines) or "nothing changed\n"


def is_complete(text: str) -> bool:
    """Does a statement end here? Commands and declarations end with their line, the rest with a dot."""
    stripped = text.strip()
    word = stripped.partition(" ")[0]
    tokens = [match[0] for match in _TOKEN.finditer(stripped)]
    depth = sum(token in "([{" for token in tokens if len(token) == 1)
    depth -= sum(token in ")]}" for token in tokens if len(token) == 1)
    if word in COMMANDS and word != ".remove":
        return True
    if word == ".comp" or depth > 0:
        return depth <= 0 and "}" in stripped
    if word in _LINES or re.fullmatch(r"\.[a-z_]+", word):
        return True
    while tokens and (tokens[-1].isspace() or tokens[-1].startswith(("//", "/*"))):
        tokens.pop()
    return not tokens or tokens[-1] == "."


def statements(lines: Iterator[str]) -> Iterator[str]:
    """The statements of some lines; the last one even if it is not complete."""
    waiting = ""
    for line in lines:
        waiting += line
        if is_complete(waiting):
            if waiting.strip():
                yield waiting
            waiting = ""
    if waiting.strip():
        yield waiting


def _clauses(rules: Sequence[Rule], everything: set[Rule]) -> tuple[str, ...] | None:
    """The clauses that some rules are; None if one of these is of more than them."""
    texts = dict.fromkeys(rule.text for rule in rules)
    for rule in everything:
        if rule.text in texts and rule.body and rule not in rules:
            return None
    return tuple(texts)


def _words(argument: str, count: int | None = None, form: str = "") -> list[str]:
    try:
        words = shlex.split(argument)
    except ValueError as error:
        raise GpuEngineError(f"{argument!r}: {error}") from error
    if count is not None and len(words) != count:
        raise GpuEngineError(f"it is {form}")
    return [str(Path(word).expanduser()) if word.startswith("~") else word for word in words]


def _two(words: Sequence[str], form: str) -> tuple[str, str]:
    if len(words) != 2:
        raise GpuEngineError(f"it is {form}")
    return words[0], words[1]


def history_file() -> Path | None:
    """Where what was typed is kept; None if it can't be."""
    folder = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "gpuengine"
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        return folder / "history"
    return None
