"""Moving a store to its next generation: new files first, then the manifest, then the old files go.

Until the manifest is replaced the new files mean nothing; from then on the old ones don't.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from itertools import count
from pathlib import Path

from gpuengine.errors import StoreError
from gpuengine.maintenance.store.contents import StoredTable
from gpuengine.maintenance.store.files import NOTHING_CHANGED, failure, names_in, sync_directory
from gpuengine.maintenance.store.journal import IDENTITY_BYTES, create_journal
from gpuengine.maintenance.store.manifest import (
    LOCK,
    MANIFEST,
    Manifest,
    TableEntry,
    TermsEntry,
    generation_of,
    is_temporary,
    put_manifest,
    read_manifest,
    segment_name,
    write_manifest,
)
from gpuengine.maintenance.store.segments import write_table, write_terms
from gpuengine.terms.persistence import TermColumns


class Generation:
    """The files of a generation that is being written."""

    def __init__(self, directory: Path, number: int) -> None:
        self.directory = directory
        self.number = number
        self.identity = os.urandom(IDENTITY_BYTES).hex()
        self._files = (directory / segment_name(number, at) for at in count(1))

    def table(self, name: str, table: StoredTable) -> TableEntry:
        """Write a table; one without rows or columns takes no file."""
        arity = len(table.columns)
        segment = write_table(next(self._files), table) if table.rows and arity else None
        return TableEntry(name, arity, table.rows, segment)

    def terms(self, space: str, terms: TermColumns) -> TermsEntry:
        """Write a stretch of terms."""
        segment = write_terms(next(self._files), terms)
        return TermsEntry(space, terms.kind, terms.begin, terms.count, terms.size, segment)


def switch(directory: Path, number: int, write: Callable[[Generation], Manifest]) -> Manifest:
    """Make generation `number` of what `write` writes, and make it the current one.

    If that fails or is interrupted before the manifest is replaced, the new files are removed and the old
    state stays. An error that comes later says that the new state is in place.
    """
    is_replacing = False
    try:
        manifest = write(Generation(directory, number))
        create_journal(directory / manifest.journal, manifest.label)
        write_manifest(directory, manifest)
        sync_directory(directory)  # no manifest may name a file whose own name can still be lost
        is_replacing = True
        put_manifest(directory)
    except BaseException as error:
        is_in_place = is_current(directory, number) if is_replacing else False
        if is_in_place is False:
            _remove(directory, lambda name: generation_of(name) == number or is_temporary(name))
        if not isinstance(error, OSError):
            raise
        if is_in_place is False:
            where = Path(error.filename) if error.filename else directory
            raise failure(where, f"write generation {number}", error, outcome=NOTHING_CHANGED) from error
        raise _in_doubt(directory, f"generation {number} may be in place, or the old one", error) from error
    try:
        sync_directory(directory)
    except OSError as error:
        what = f"generation {number} is in place, but may be lost if the machine stops now"
        raise _in_doubt(directory, what, error) from error
    remove_strays(directory, manifest)
    return manifest


def _in_doubt(directory: Path, what: str, error: OSError) -> StoreError:
    return StoreError(
        f"{directory}: {what}: {error.strerror or error}. "
        "Check the disk, then open the knowledge base again to see."
    )


def is_current(directory: Path, number: int) -> bool | None:
    """Is this the generation that the manifest on the disk names? None if that can't be found out."""
    try:
        return read_manifest(directory).generation == number
    except StoreError as error:
        return False if isinstance(error.__context__, FileNotFoundError) else None


def next_generation(directory: Path) -> int:
    """A number that no file in the directory has, and no manifest that can be read."""
    numbers = [generation_of(name) or 0 for name in names_in(directory)]
    with suppress(StoreError):
        numbers.append(read_manifest(directory).generation)
    return 1 + max(numbers, default=0)


def remove_strays(directory: Path, manifest: Manifest) -> None:
    """Remove what unfinished work and older generations left; failing to is no error, the next may try."""
    needed = {MANIFEST, LOCK, manifest.journal, *(segment.file for segment in manifest.segments())}
    _remove(directory, lambda name: name not in needed)


def new_entries(generation: Generation, terms: Iterable[tuple[str, TermColumns]]) -> tuple[TermsEntry, ...]:
    """Write whole spaces; those without terms are left out."""
    return tuple(generation.terms(space, columns) for space, columns in terms if columns.count)


def _remove(directory: Path, unwanted: Callable[[str], bool]) -> None:
    with suppress(OSError):
        for path in list(directory.iterdir()):
            ours = generation_of(path.name) is not None or is_temporary(path.name)
            if ours and unwanted(path.name):
                with suppress(OSError):
                    path.unlink()
