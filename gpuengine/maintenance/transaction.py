"""`Update`: a transaction that changes facts and rules, all of it or nothing."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from gpuengine.errors import GpuEngineError
from gpuengine.evaluation.interruptible import Watcher
from gpuengine.kernels.cpu.backend import CPU
from gpuengine.language.editing import Edit, EditedText
from gpuengine.maintenance.change import Change
from gpuengine.maintenance.maintainer import FactsChange
from gpuengine.maintenance.stated import Facts
from gpuengine.schemes.table import Table

if TYPE_CHECKING:
    from gpuengine.engine import Engine
    from gpuengine.maintenance.updater import Updater


class Update:
    """What is to be inserted, deleted, added and removed; nothing happens before the `with` block ends.

    Later calls go before earlier ones: a fact that is inserted and then deleted is deleted. If the block
    raises, or if committing does, nothing has changed. Afterwards `change` says what came of it.
    """

    def __init__(self, engine: Engine, updater: Updater, watch: Watcher | None = None) -> None:
        self.watch = watch
        self._engine = engine
        self._updater = updater
        self._was_entered = False
        self._facts: dict[str, tuple[Table, Table]] = {}
        self._edits: list[Edit] = []
        self._edited_text = engine.text
        self._change: Change | None = None
        self._is_open = False
        self.edited: EditedText | None = None

    def __enter__(self) -> Update:
        if self._was_entered:
            raise GpuEngineError("this update is done; begin another one with update()")
        self._is_open = self._was_entered = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_open = False
        if kind is None and self._edits and self._engine.text is not self._edited_text:
            self.edited = self._engine.text.edited(self._edits)  # another update changed rules meanwhile
        if kind is None:
            self._change = self._updater.commit(self)
            self._updater.tell(self._change)

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
    ) -> int:
        """State facts, given as to `Engine.load`; how many rows were read."""
        columns, rows = self._engine.encode_facts(
            self._declared(relation), data, on_error=on_error, params=params, intern=True
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
    ) -> int:
        """State facts no longer, given as to `Engine.load`; how many rows name terms that are known.

        A fact that rules derive stays as long as they do. Facts that were not stated are passed over.
        """
        columns, rows = self._engine.encode_facts(
            self._declared(relation), data, on_error=on_error, params=params, intern=False
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

    @property
    def facts(self) -> FactsChange:
        """The facts to delete and to insert."""
        return FactsChange(
            {name: _facts(deleted) for name, (deleted, _) in self._facts.items() if len(deleted)},
            {name: _facts(inserted) for name, (_, inserted) in self._facts.items() if len(inserted)},
        )

    def _edit(self, kind: Literal["add", "remove"], rules: str | PathLike[str]) -> None:
        self._require_open()
        source = self._engine.as_source(rules)
        if isinstance(source, Path):
            try:
                edit = Edit(kind, source.read_text(), str(source))
            except (OSError, UnicodeDecodeError) as error:
                raise GpuEngineError(f"can't read the rules in {source}: {error}") from error
        else:
            edit = Edit(kind, source)
        if self.edited is None:
            self._edited_text = self._engine.text
        edited = (self.edited.text if self.edited is not None else self._edited_text).edited([edit])
        self._edits.append(edit)
        self._state_facts(edited)
        self.edited = edited

    def _state_facts(self, edited: EditedText) -> None:
        """Facts among the rules are stated as others are."""
        self._engine.learn_types(edited.text.program)
        encode = self._engine.encode_rule_facts
        for name, (columns, rows) in encode(edited.removed_facts).items():
            deleted, inserted = self._of(name, edited)
            _take(inserted, columns, rows)
            deleted.insert(columns, rows)
        for name, (columns, rows) in encode(edited.added_facts).items():
            deleted, inserted = self._of(name, edited)
            _take(deleted, columns, rows)
            inserted.insert(columns, rows)

    def _declared(self, relation: str) -> Any:
        self._require_open()
        program = self.edited.text.program if self.edited is not None else None
        return self._engine.declared(relation, program)

    def _of(self, relation: str, edited: EditedText | None = None) -> tuple[Table, Table]:
        edited = edited or self.edited
        if relation not in self._facts:
            program = edited.text.program if edited is not None else None
            arity = self._engine.declared(relation, program).arity
            self._facts[relation] = Table(relation, arity, CPU), Table(relation, arity, CPU)
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
