"""Reading a store: one generation's manifest, segments and journal, as one consistent state.

Readers take no lock.  A writer that moves on to the next generation may delete files while they are being
opened; then the new manifest is there already and reading begins again with it.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from gpuengine.errors import StoreError
from gpuengine.maintenance.delta import Delta
from gpuengine.maintenance.store import folding
from gpuengine.maintenance.store.changes import decode_commit
from gpuengine.maintenance.store.contents import Commit, Outline, Snapshot, StoredTable
from gpuengine.maintenance.store.files import damage, failure, read_bytes
from gpuengine.maintenance.store.journal import Scan, scan_journal
from gpuengine.maintenance.store.manifest import Manifest, Segment, TableEntry, TermsEntry, read_manifest
from gpuengine.maintenance.store.segments import check_segment, table_from, terms_from
from gpuengine.terms.persistence import TermColumns, join_terms

Wanted = Literal["all", "changed", "none"]
_ATTEMPTS = 100


@dataclass
class State:
    """The state after the last whole commit. `data` has the segments that were wanted; they are checked when
    they are used first, and then are in `sound`."""

    directory: Path
    manifest: Manifest
    scan: Scan
    commits: list[Commit]
    outline: Outline
    data: dict[str, bytes | mmap.mmap]
    sound: set[str] = field(default_factory=set)

    @property
    def meta(self) -> dict[str, Any]:
        """The meta object."""
        newest = (commit.meta for commit in reversed(self.commits) if commit.meta is not None)
        return next(newest, self.manifest.meta)

    def snapshot(self) -> Snapshot:
        """Everything; wants all segments, and checks those too whose tables the journal replaced."""
        for segment in self.manifest.segments():
            self._checked(segment)
        entries = {entry.name: entry for entry in self.manifest.tables}
        tables = {name: self.table(name, entries.get(name)) for name in self.outline.arities}
        terms = {space: join_terms(self._term_parts(space)) for space in self.outline.spaces}
        return Snapshot(self.meta, terms, tables)

    def changed(self) -> set[str]:
        """The tables that the journal says something about and that are still there."""
        return _named(self.commits) & self.outline.arities.keys()

    def table(self, name: str, entry: TableEntry | None) -> StoredTable:
        """A table with the journal folded in; `entry` is what the manifest says of it."""
        base, deltas = self._last_replaced(name)
        if base is None:
            if entry is None:
                path = self.directory / self.manifest.journal
                raise damage(path, f"it changes table {name!r}, but there is none")
            base = self._base(entry)
        return folding.fold(base, deltas)

    def terms_of(self, entry: TermsEntry) -> TermColumns:
        """The terms of a segment; one that was not wanted is read now, which only a writer may rely on."""
        return terms_from(self.directory / entry.segment.file, entry, self._checked(entry.segment))

    def new_terms(self, space: str) -> list[TermColumns]:
        """The terms of a space that are in the journal."""
        return [commit.terms[space] for commit in self.commits if space in commit.terms]

    def _term_parts(self, space: str) -> list[TermColumns]:
        old = [self.terms_of(entry) for entry in self.manifest.terms if entry.space == space]
        return old + self.new_terms(space)

    def _last_replaced(self, name: str) -> tuple[StoredTable | None, list[Delta]]:
        """(what replaced the table last, the deltas since); None if that is what the segments have."""
        base: StoredTable | None = None
        deltas: list[Delta] = []
        for commit in self.commits:
            change = commit.tables.get(name)
            if isinstance(change, StoredTable):
                base, deltas = change, []
            elif change is not None:
                deltas.append(change)
        return base, deltas

    def _base(self, entry: TableEntry) -> StoredTable:
        if entry.segment is None:
            return StoredTable([np.zeros(0, np.uint32) for _ in range(entry.arity)], entry.rows)
        return table_from(self.directory / entry.segment.file, entry, self._checked(entry.segment))

    def _checked(self, segment: Segment) -> bytes | mmap.mmap:
        path = self.directory / segment.file
        if segment.file not in self.data:
            self.data[segment.file] = read_bytes(path)
        if segment.file not in self.sound:
            check_segment(path, segment, self.data[segment.file])
            self.sound.add(segment.file)
        return self.data[segment.file]


def read_state(directory: Path, wanted: Wanted) -> State:
    """The newest state, with the segments of all tables and terms, of changed tables, or without any."""
    manifest = read_manifest(directory)
    for _ in range(_ATTEMPTS):
        try:
            return _gather(directory, manifest, wanted)
        except FileNotFoundError as error:
            newer = read_manifest(directory)
            if newer.generation == manifest.generation:
                raise StoreError(
                    f"{error.filename} is missing, but the manifest names it. "
                    "Restore the knowledge base from a copy, or make it anew."
                ) from None
            manifest = newer
        except OSError as error:
            raise failure(Path(error.filename or directory), "read it", error) from error
    raise StoreError(
        f"{directory} changed {_ATTEMPTS} times while it was being read. Wait until its writer is less busy."
    )


def _gather(directory: Path, manifest: Manifest, wanted: Wanted) -> State:
    scan = _scan(directory / manifest.journal, manifest)
    commits = []
    outline = manifest.outline()
    for record in scan.records:
        try:
            commit = decode_commit(record.payload)
            outline.check(commit)
        except ValueError as error:
            path = directory / manifest.journal
            raise damage(path, f"the record at byte {record.offset} makes no sense: {error}") from error
        outline.apply(commit)
        commits.append(commit)
    # All files are opened before any is looked into, to be done before a writer deletes them.
    data = {
        segment.file: read_bytes(directory / segment.file)
        for segment in _wanted_segments(manifest, commits, wanted)
    }
    return State(directory, manifest, scan, commits, outline, data)


def _wanted_segments(manifest: Manifest, commits: list[Commit], wanted: Wanted) -> Iterable[Segment]:
    if wanted == "all":
        return list(manifest.segments())
    named = _named(commits) if wanted == "changed" else set()
    return [entry.segment for entry in manifest.tables if entry.segment and entry.name in named]


def _named(commits: list[Commit]) -> set[str]:
    return {name for commit in commits for name in (*commit.tables, *commit.dropped)}


def _scan(path: Path, manifest: Manifest) -> Scan:
    data = path.read_bytes()
    while True:
        try:
            return scan_journal(path, data, manifest.label, manifest.commits)
        except StoreError:
            # A writer that cut off an unfinished commit and wrote another while this was being read leaves
            # a mixture of both; damage, on the other hand, stays.
            again = path.read_bytes()
            if again == data:
                raise
            data = again
