"""`Store`: a knowledge base in a directory, whole at every instant whatever happens to its writer.

A commit is appended to the journal with one write and one sync; `Store.compact` folds the journal into
segments of a new generation.  One process writes at a time, any number read, each a state after some commit.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from gpuengine.errors import StoreError
from gpuengine.maintenance.store.changes import encode_commit, encode_json
from gpuengine.maintenance.store.contents import Commit, Outline, Snapshot, as_commit
from gpuengine.maintenance.store.files import (
    NOTHING_CHANGED,
    failure,
    make_directory,
    names_in,
    sync_directory,
)
from gpuengine.maintenance.store.generations import (
    Generation,
    is_current,
    new_entries,
    next_generation,
    remove_strays,
    switch,
)
from gpuengine.maintenance.store.journal import Journal
from gpuengine.maintenance.store.lock import WriterLock
from gpuengine.maintenance.store.manifest import (
    FORMAT,
    LOCK,
    MANIFEST,
    Manifest,
    TermsEntry,
    is_store_file,
    read_manifest,
    refuse_foreign,
)
from gpuengine.maintenance.store.state import State, Wanted, read_state
from gpuengine.terms.persistence import TermColumns, join_terms


class Store:
    """An open store; use it as a context manager, or `close` it. One thread at a time."""

    def __init__(self, directory: Path, lock: WriterLock | None) -> None:
        """For `open` only."""
        self.path = directory
        self.discarded_bytes = 0
        """Bytes of an unfinished commit: cut off when a writer opened the store, passed over by a reader."""
        self._lock = lock
        self._closed = False
        self._unusable = False
        self._manifest: Manifest | None = None
        """Of the generation that a writer made, until its journal is open."""
        self._journal: Journal | None = None
        self._outline = Outline()
        if lock is not None:
            self._prepare()

    # -- making and opening ------------------------------------------------------------------------

    @staticmethod
    def create(path: str | os.PathLike[str], snapshot: Snapshot, *, replace: bool = False) -> None:
        """Make a store with this content, in a directory that is new, empty, or (`replace`) a store already.

        Until it is done, a store that was there stays what it was; nothing else is ever touched. `ValueError`
        if the snapshot is not what it must be.
        """
        directory = Path(path)
        Outline().check(as_commit(snapshot))
        encode_json(snapshot.meta)
        _check_vacant(directory, replace)
        try:
            make_directory(directory)
        except OSError as error:
            raise failure(directory, "make the directory", error, outcome=NOTHING_CHANGED) from error
        lock = WriterLock.acquire(directory)
        try:
            _check_vacant(directory, replace)  # another process may have been first
            _sync(directory)  # with the lock in it, files without a manifest are known to be a store's
            switch(directory, next_generation(directory), _writer_of(snapshot))
        finally:
            lock.release()

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, read_only: bool = False) -> Store:
        """Open a store to write it, or to read it while another process may write it."""
        directory = Path(path)
        read_manifest(directory)  # before anything is made in a directory that is no store
        if read_only:
            return cls(directory, None)
        lock = WriterLock.acquire(directory)
        try:
            return cls(directory, lock)
        except BaseException:
            lock.release()
            raise

    def close(self) -> None:
        """Let go of the files and the lock. Closing twice does nothing."""
        if self._closed:
            return
        self._closed = True
        if self._journal is not None:
            self._journal.close()
        if self._lock is not None:
            self._lock.release()

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- reading -----------------------------------------------------------------------------------

    def load(self) -> Snapshot:
        """The newest state: the segments with the journal folded in. Every byte read is checked.

        Arrays may be read-only views of the files, mapped into memory; they stay valid when the store is
        compacted or closed. With an empty journal nothing is copied but small files.
        """
        return self._read("all").snapshot()

    def describe(self) -> dict[str, Any]:
        """What is in the store and what it takes, as JSON; reads the tables that the journal changes."""
        state = self._read("changed")
        entries = {entry.name: entry for entry in state.manifest.tables}
        changed = state.changed()
        tables = {}
        for name, arity in state.outline.arities.items():
            entry = entries.get(name)
            rows = entry.rows if entry and name not in changed else state.table(name, entry).rows
            size = entry.segment.bytes if entry and entry.segment else 0
            tables[name] = {"columns": arity, "rows": rows, "bytes": size}
        journal_bytes = state.scan.end + state.scan.discarded
        dictionary_bytes = sum(entry.segment.bytes for entry in state.manifest.terms)
        segment_bytes = sum(segment.bytes for segment in state.manifest.segments())
        return {
            "format": FORMAT,
            "version": state.manifest.version,
            "generation": state.manifest.generation,
            "commits": state.manifest.commits + len(state.commits),
            "tables": tables,
            "dictionary": {"terms": state.outline.term_counts, "bytes": dictionary_bytes},
            "journal": {"commits": len(state.commits), "bytes": journal_bytes},
            "discarded_bytes": self.discarded_bytes,
            "bytes": segment_bytes + journal_bytes + (self.path / MANIFEST).stat().st_size,
        }

    def version(self) -> str:
        """Which state is the newest: a text that no other state of any knowledge base has."""
        state = self._read("none")
        manifest = state.manifest
        return f"{manifest.identity or manifest.generation}-{manifest.commits + len(state.commits)}"

    # -- writing -----------------------------------------------------------------------------------

    def commit(self, commit: Commit) -> None:
        """Make a commit durable, as one step. It is on the disk when this returns.

        If it can't be written the store is as it was, and can be used on. `ValueError` if the commit does not
        fit the state: a table it lacks, columns of other widths, terms that do not follow those it has.
        """
        journal = self._writable()
        self._outline.check(commit)
        payload = encode_commit(commit)
        before = journal.sequence
        self._unusable = True
        try:
            journal.append(payload)
            self._outline.apply(commit)
        except BaseException:
            # Interrupted between the two, this object no longer knows what the journal holds.
            self._unusable = journal.broken or journal.sequence != before
            raise
        self._unusable = False

    def compact(self) -> None:
        """Fold the journal into segments of a new generation; tables without changes keep theirs.

        Does nothing if there is no commit to fold. Needs room for the new files beside the old.
        """
        journal = self._writable()
        state = self._read("changed")
        if not state.commits:
            return
        number = state.manifest.generation + 1
        self._switch(journal, number, lambda generation: _fold(state, generation))

    def rewrite(self, snapshot: Snapshot) -> None:
        """Replace everything, as one step: a new generation has this content. `ValueError` as by `create`."""
        journal = self._writable()
        Outline().check(as_commit(snapshot))
        encode_json(snapshot.meta)
        self._switch(journal, next_generation(self.path), _writer_of(snapshot))

    def _switch(self, journal: Journal, number: int, write: Callable[[Generation], Manifest]) -> None:
        """Go on with a new generation, which `write` makes, and its journal."""
        self._unusable = True
        try:
            manifest = switch(self.path, number, write)
        except BaseException:
            # Past the switch this object no longer knows the newest state, and must not append to it.
            self._unusable = is_current(self.path, number) is not False
            raise
        # It is done: that the next journal can't be opened now is for the next commit to say.
        self._journal, self._manifest = None, manifest
        self._outline = manifest.outline()
        self._unusable = False
        journal.close()
        with suppress(StoreError):
            self._writable()

    @property
    def read_only(self) -> bool:
        return self._lock is None

    @property
    def tables(self) -> frozenset[str]:
        """The names of the tables, as the writer knows them."""
        return frozenset(self._outline.arities)

    def _prepare(self) -> None:
        """What a writer does first: cut off an unfinished commit, remove what is left of unfinished work."""
        state = read_state(self.path, "none")
        self._outline = state.outline
        self.discarded_bytes = state.scan.discarded
        # A manifest that a process put in place before it was stopped may not be on the disk yet; until it
        # is, the files of the generation before are needed.
        _sync(self.path)
        remove_strays(self.path, state.manifest)
        sequence = state.manifest.commits + len(state.commits)
        self._journal = self._open_journal(state.manifest, state.scan.end, sequence)

    def _open_journal(self, manifest: Manifest, end: int, sequence: int) -> Journal:
        path = self.path / manifest.journal
        try:
            return Journal(path, manifest.label, end, sequence)
        except OSError as error:
            raise failure(path, "open it for writing", error, outcome=NOTHING_CHANGED) from error

    def _read(self, wanted: Wanted) -> State:
        if self._closed:
            raise StoreError(f"{self.path} was closed. Open the knowledge base again to use it.")
        state = read_state(self.path, wanted)
        if self._lock is None:
            self.discarded_bytes = state.scan.discarded
        return state

    def _writable(self) -> Journal:
        if self._closed:
            raise StoreError(f"{self.path} was closed. Open the knowledge base again to use it.")
        if self._lock is None:
            raise StoreError(f"{self.path} was opened read-only. Open it for writing to change it.")
        if self._journal is None and self._manifest is not None:
            manifest = self._manifest
            self._journal = self._open_journal(manifest, manifest.label.size, manifest.commits)
        if self._unusable or self._journal is None:
            raise StoreError(
                f"{self.path} can't be written since an earlier write failed. "
                "Close the knowledge base and open it again."
            )
        return self._journal


def _sync(directory: Path) -> None:
    try:
        sync_directory(directory)
    except OSError as error:
        raise failure(directory, "sync the directory", error, outcome=NOTHING_CHANGED) from error


def _check_vacant(directory: Path, replace: bool) -> None:
    """May a store be made here? Refuses what is no store, later versions, and a store unless `replace`."""
    if not directory.exists():
        return
    if not directory.is_dir():
        raise StoreError(f"{directory} is a file. Choose a directory for the knowledge base.")
    names = names_in(directory)
    only_ours = LOCK in names and all(map(is_store_file, names))
    if MANIFEST in names:
        if not replace:
            raise StoreError(
                f"{directory} is a knowledge base already: it has a {MANIFEST}. "
                "Replace it, or choose another directory."
            )
        if only_ours:
            refuse_foreign(directory)  # damaged or not, it is there to be replaced
        else:
            read_manifest(directory)
    elif names and not only_ours:
        raise StoreError(
            f"{directory} is not empty and not a knowledge base. Choose a new or empty directory; "
            "nothing was touched."
        )


def _writer_of(snapshot: Snapshot) -> Callable[[Generation], Manifest]:
    def write(generation: Generation) -> Manifest:
        tables = tuple(generation.table(name, table) for name, table in snapshot.tables.items())
        terms = new_entries(generation, snapshot.terms.items())
        return Manifest(generation.number, 0, snapshot.meta, tables, terms, generation.identity)

    return write


def _fold(state: State, generation: Generation) -> Manifest:
    """Write what the journal changed; keep the segments of everything else."""
    entries = {entry.name: entry for entry in state.manifest.tables}
    changed = state.changed()
    tables = tuple(
        generation.table(name, state.table(name, entries.get(name))) if name in changed else entries[name]
        for name in state.outline.arities
    )
    terms: list[TermsEntry] = []
    for space in state.outline.spaces:
        terms += _fold_terms(state, generation, space)
    commits = state.manifest.commits + len(state.commits)
    return Manifest(generation.number, commits, state.meta, tables, tuple(terms), generation.identity)


def _fold_terms(state: State, generation: Generation, space: str) -> list[TermsEntry]:
    """The segments of a space: new terms get one, which takes in those before it that are not much larger, so
    that there are few segments and each term is rewritten few times."""
    entries = [entry for entry in state.manifest.terms if entry.space == space]
    parts: list[TermColumns] = state.new_terms(space)
    if not parts:
        return entries
    total = sum(part.count for part in parts)
    while entries and entries[-1].count <= 2 * total:
        total += entries[-1].count
        parts.insert(0, state.terms_of(entries.pop()))
    return [*entries, generation.terms(space, join_terms(parts))]
