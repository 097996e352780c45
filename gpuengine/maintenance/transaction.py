"""`Update`: a transaction that changes facts and rules, all of it or nothing."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, ExitStack
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Protocol

import numpy as np

from gpuengine.errors import GpuEngineError
from gpuengine.evaluation.interruptible import Watcher
from gpuengine.evaluation.materialisation import Materialisation
from gpuengine.kernels.identity import NotCopied
from gpuengine.language.editing import Edit, EditedText, ProgramText
from gpuengine.language.program import Program, Relation
from gpuengine.loading import Facts, as_source, declared_in, encode_rule_facts
from gpuengine.maintenance.change import Change
from gpuengine.maintenance.delta import Delta
from gpuengine.schemes.table import Table

Wait = float | Literal["default"] | None
"""How many seconds to wait for other threads; None: as long as it takes."""


class Changeable(Protocol):
    """What an update is of: something that has a materialisation, and replaces it."""

    @property
    def current(self) -> Materialisation: ...

    def turn(self, wait: Wait) -> AbstractContextManager[None]:
        """Have no other thread change it until the block ends."""
        ...

    def encode_facts(
        self,
        declared: Relation,
        data: Any,
        *,
        on_error: Literal["fail", "skip"],
        params: Mapping[str, str] | None,
        nulls: Any = "fail",
        dates: Literal["days", "text"] | None = None,
        intern: bool,
    ) -> Facts:
        """Facts as users give them as columns of ids; without `intern`, only those with known terms."""
        ...

    def commit(self, update: Update) -> Change:
        """Make an update happen, or nothing of it."""
        ...

    def tell(self, change: Change) -> None:
        """Tell a change to who wants to know."""
        ...


class Update(NotCopied):
    """What is to be inserted, deleted, added and removed; nothing happens before the `with` block ends.

    Later calls go before earlier ones: a fact that is inserted and then deleted is deleted. If the block
    raises, or if committing does, nothing has changed. Afterwards `change` says what came of it. From the
    beginning of the block to its end, subscribers told, no other thread changes the engine.
    """

    instead = "begin another one with update()"

    def __init__(
        self,
        engine: Changeable,
        watch: Watcher | None = None,
        wait: Wait = "default",
    ) -> None:
        self.watch = watch
        self.wait = wait
        self._turn = ExitStack()
        self._engine = engine
        self._was_entered = False
        self._facts: dict[str, tuple[Table, Table]] = {}
        self._edits: list[Edit] = []
        self._edited_text = self._text
        self._change: Change | None = None
        self._is_open = False
        self.edited: EditedText | None = None
        self.notes: dict[str, Any] | None = None
        """What is noted with the materialisation from now on; None: what was."""

    def __enter__(self) -> Update:
        if self._was_entered:
            raise GpuEngineError("this update is done; begin another one with update()")
        self._turn.enter_context(self._engine.turn(self.wait))
        self._is_open = self._was_entered = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_open = False
        with self._turn:
            if kind is None and self._edits and self._text is not self._edited_text:
                self.edited = self._text.edited(self._edits)  # another update changed rules meanwhile
            if kind is None:
                self._change = self._engine.commit(self)
                self._engine.tell(self._change)

    @property
    def _text(self) -> ProgramText:
        return self._engine.current.prepared.text

    @property
    def change(self) -> Change:
        """What the update changed, by relation; known once the `with` block has ended."""
        if self._change is None:
            raise GpuEngineError("an update has no change before its `with` block has ended")
        return self._change

    def insert(
        self,
        relation: str,
        data: Any,
        *,
        on_error: Literal["fail", "skip"] = "fail",
        params: Mapping[str, str] | None = None,
        nulls: Any = "fail",
        dates: Literal["days", "text"] | None = None,
    ) -> int:
        """State facts, given as to `Engine.load`; how many rows were read."""
        columns, rows = self._engine.encode_facts(
            self._declared(relation),
            data,
            on_error=on_error,
            params=params,
            nulls=nulls,
            dates=dates,
            intern=True,
        )
        deleted, inserted = self._of(relation)
        _take(deleted, columns, rows)
        inserted.insert(columns, rows)
        return rows

    def delete(
        self,
        relation: str,
        data: Any,
        *,
        on_error: Literal["fail", "skip"] = "fail",
        params: Mapping[str, str] | None = None,
        nulls: Any = "fail",
        dates: Literal["days", "text"] | None = None,
    ) -> int:
        """State facts no longer, given as to `Engine.load`; how many rows name terms that are known.

        A fact that rules derive stays as long as they do. Facts that were not stated are passed over.
        """
        columns, rows = self._engine.encode_facts(
            self._declared(relation),
            data,
            on_error=on_error,
            params=params,
            nulls=nulls,
            dates=dates,
            intern=False,
        )
        deleted, inserted = self._of(relation)
        _take(inserted, columns, rows)
        deleted.insert(columns, rows)
        return rows

    def add_rules(self, rules: str | PathLike[str]) -> None:
        """Add rules, and whatever else a program may hold: text, or the path of a file.

        Raises `ProgramErrors` if they do not go with the program; facts among them are inserted.
        """
        self._edit("add", rules)

    def remove_rules(self, rules: str | PathLike[str]) -> None:
        """Remove rules: text, or the path of a file. Names of variables do not matter; facts are deleted.

        Raises `ProgramErrors` if the program has no such rule.
        """
        self._edit("remove", rules)

    def note(self, name: str, value: Any) -> None:
        """Have a value that JSON can hold kept beside the facts, and saved with this transaction."""
        self._require_open()
        noted = self._engine.current.notes if self.notes is None else self.notes
        self.notes = {**noted, name: value}

    @property
    def facts(self) -> dict[str, Delta]:
        """The facts to state no longer, and from now on."""
        return {
            name: Delta.listed(name, deleted.arity, _facts(deleted), _facts(inserted))
            for name, (deleted, inserted) in self._facts.items()
            if len(deleted) or len(inserted)
        }

    def _edit(self, kind: Literal["add", "remove"], rules: str | PathLike[str]) -> None:
        self._require_open()
        source = as_source(rules)
        if isinstance(source, Path):
            try:
                edit = Edit(kind, source.read_text(), str(source))
            except (OSError, UnicodeDecodeError) as error:
                raise GpuEngineError(f"can't read the rules in {source}: {error}") from error
        else:
            edit = Edit(kind, source)
        if self.edited is None:
            self._edited_text = self._text
        edited = (self.edited.text if self.edited is not None else self._edited_text).edited([edit])
        self._edits.append(edit)
        self._state_facts(edited)
        self.edited = edited

    def _state_facts(self, edited: EditedText) -> None:
        """Facts among the rules are stated as others are."""
        dictionary = self._engine.current.dictionary
        dictionary.learn_types(edited.text.program)
        for name, (columns, rows) in encode_rule_facts(edited.removed_facts, dictionary).items():
            deleted, inserted = self._of(name, edited)
            _take(inserted, columns, rows)
            deleted.insert(columns, rows)
        for name, (columns, rows) in encode_rule_facts(edited.added_facts, dictionary).items():
            deleted, inserted = self._of(name, edited)
            _take(deleted, columns, rows)
            inserted.insert(columns, rows)

    def _declared(self, relation: str) -> Relation:
        self._require_open()
        return declared_in(self._program(self.edited), relation)

    def _program(self, edited: EditedText | None) -> Program:
        return edited.text.program if edited is not None else self._engine.current.prepared.program

    def _of(self, relation: str, edited: EditedText | None = None) -> tuple[Table, Table]:
        if relation not in self._facts:
            arity = declared_in(self._program(edited or self.edited), relation).arity
            self._facts[relation] = Table(relation, arity), Table(relation, arity)
        return self._facts[relation]

    def _require_open(self) -> None:
        if not self._is_open:
            raise GpuEngineError("use it in a `with` block: with kb.update() as u: …")


def _take(table: Table, columns: list[np.ndarray], rows: int) -> None:
    if len(table) and rows:
        table.delete(columns, rows)
        table.take_back()


def _facts(table: Table) -> Facts:
    return table.columns(), len(table)
