"""``--profile``: where the page, the JSON beside it, or the text of a profile goes."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from gpuengine.cli.failures import settled_when_ended
from gpuengine.cli.outputs import check_folder
from gpuengine.errors import DataError

if TYPE_CHECKING:
    from gpuengine.profiling.profile import Profile

PRINTED = Path("-")


def check_profile(target: Path | None, others: Iterable[Path | None]) -> None:
    """See that a profile can be written, and to no file that `others` are written to, before any work."""
    if target is None or target == PRINTED:
        return
    taken = {path.resolve() for path in others if path is not None}
    for path in _files(target):
        if path.resolve() in taken:
            raise DataError(f"the profile and an output would both be written to {path}")
        if path.is_dir():
            raise DataError(f"can't write {path}: it is a directory")
    check_folder(target.parent)


def write_profile(profile: Profile, target: Path | None) -> None:
    """Write a page and its JSON together, or JSON alone, or text to standard error, as the name says."""
    from gpuengine.io.replacing import Replacement

    if target is None:
        return
    if target == PRINTED:
        sys.stderr.write(profile.to_text())
        return
    with Replacement(target.parent) as replacement, settled_when_ended(replacement.settle):
        for path in _files(target):
            text = profile.to_html() if path.suffix == ".html" else _json(profile)
            with replacement.file(path) as sink:
                sink.write(text.encode("utf-8", "replace"))
        replacement.finish()


def _files(target: Path) -> list[Path]:
    return [target, target.with_suffix(".json")] if target.suffix == ".html" else [target]


def _json(profile: Profile) -> str:
    import json

    return json.dumps(profile.to_dict(), ensure_ascii=False, indent=1) + "\n"
