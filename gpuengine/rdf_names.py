"""What files of RDF are called: all that must be known of them before anything is imported."""

from __future__ import annotations

from pathlib import PurePath

RULES = ".dlog"
FORMATS = {
    ".nt": "nt",
    ".nq": "nq",
    ".ttl": "ttl",
    ".turtle": "ttl",
    ".trig": "trig",
    ".rdf": "rdf",
    ".owl": "rdf",
    ".xml": "rdf",
    ".jsonld": "jsonld",
}
"""Names of formats by the endings of files; ``.gz`` and ``.zst`` may follow."""

_COMPRESSED = (".gz", ".zst")


def suffix_of(path: PurePath) -> str:
    """The ending of a name, without that of a compression."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    while suffixes and suffixes[-1] in _COMPRESSED:
        suffixes.pop()
    return suffixes[-1] if suffixes else ""


def format_of_name(path: PurePath) -> str | None:
    """The format of triples that the name of a file tells."""
    return FORMATS.get(suffix_of(path))


def is_rdf_name(path: PurePath) -> bool:
    """Does the name tell that a file has triples, or rules over them?"""
    return suffix_of(path) in (RULES, *FORMATS)
