"""``gpuengine show``: what is in a knowledge base, and what it takes on the disk."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gpuengine.cli.knowledge_bases import (
    is_rdf_base,
    is_saved_by_spark,
    is_temporal_base,
    open_knowledge_base,
    writer_of,
)
from gpuengine.cli.live import size
from gpuengine.errors import StoreError

if TYPE_CHECKING:
    from gpuengine.language.program import Rule
    from gpuengine.planning.prepared import Prepared

_WORTH_COMPACTING = 0.5
"""From this share of the segments on, the journal is worth folding."""


@dataclass(frozen=True, slots=True)
class Relation:
    """`facts` is None if only counting tells; `stated` are those that were given, not derived."""

    attributes: dict[str, str]
    scheme: str
    of: str | None
    facts: int | None
    stated: int
    bytes: int

    @property
    def signature(self) -> str:
        return ", ".join(f"{name}: {type}" for name, type in self.attributes.items())


@dataclass(frozen=True, slots=True)
class Contents:
    """What is shown; sizes are bytes on the disk. `wanted` is None if everything was derived."""

    path: str
    version: int
    generation: int
    commits: int
    relations: dict[str, Relation]
    wanted: list[str] | None
    rules: int
    terms: int
    journal: dict[str, int]
    segments: int
    bytes: int
    discarded_bytes: int
    writer: str | None

    @property
    def is_worth_compacting(self) -> bool:
        return self.journal["bytes"] > _WORTH_COMPACTING * self.segments and self.journal["commits"] > 0


def show(arguments: argparse.Namespace) -> int:
    """Print what is in a knowledge base, as text or JSON."""
    if is_saved_by_spark(arguments.kb):
        from gpuengine.cli.spark import show_saved

        return show_saved(arguments)
    if is_temporal_base(arguments.kb):
        from gpuengine.cli.temporal_kb import show_temporal

        return show_temporal(arguments)
    if is_rdf_base(arguments.kb):
        import gpuengine.rdf.engine  # noqa: F401  (its functors are those of the program)
    contents, rules = _read(arguments)
    if arguments.json:
        fields = {**asdict(contents), "is_worth_compacting": contents.is_worth_compacting}
        if arguments.rules:
            fields["rule_texts"] = rules
        print(json.dumps(fields, ensure_ascii=False))
        return 0
    _print(contents)
    if arguments.rules:
        print("\n" + "\n".join(rules) if rules else "\nno rules")
    return 0


# -- reading -------------------------------------------------------------------------------------------


def _read(arguments: argparse.Namespace) -> tuple[Contents, list[str]]:
    """What the directory says; no table is read but those that the journal changes, unless to count."""
    from gpuengine.language.editing import ProgramText
    from gpuengine.maintenance.store import Store
    from gpuengine.maintenance.store.state import read_state
    from gpuengine.planning.prepared import prepare

    path: Path = arguments.kb
    with Store.open(path, read_only=True) as store:
        description = store.describe()
    meta = read_state(path, "none").meta
    try:
        prepared = prepare(ProgramText.from_json(meta["program"]), meta["asked_schemes"])
        stored_as, wanted = meta["stored_as"], meta["wanted"]
    except KeyError as error:
        raise StoreError(f"{path} has no {error} in its meta data; it was not written by save()") from error
    counts = _counts(arguments) if arguments.count else {}
    rules = [rule for rule in prepared.source.rules if rule.body]
    contents = Contents(
        str(path),
        description["version"],
        description["generation"],
        description["commits"],
        _relations(prepared, stored_as, description["tables"], counts),
        wanted,
        len(rules),
        sum(description["dictionary"]["terms"].values()),
        description["journal"],
        sum(table["bytes"] for table in description["tables"].values()) + description["dictionary"]["bytes"],
        description["bytes"],
        description["discarded_bytes"],
        writer_of(path),
    )
    return contents, clause_texts(rules)


def _relations(
    prepared: Prepared,
    stored_as: Mapping[str, str],
    tables: Mapping[str, Mapping[str, int]],
    counts: Mapping[str, int],
) -> dict[str, Relation]:
    from gpuengine.maintenance.persistence import DERIVED, STATED

    nothing = {"rows": 0, "bytes": 0}
    result = {}
    for name, relation in prepared.source.relations.items():
        stored = prepared.stored(name)
        scheme = stored_as.get(stored, "table")
        stated = tables.get(STATED + name, nothing)
        derived = tables.get(DERIVED + stored)
        facts: int | None = (derived or tables.get(STATED + stored, nothing))["rows"]
        result[name] = Relation(
            {attribute.name: attribute.type.name for attribute in relation.attributes},
            "alias" if stored != name else scheme,
            stored if stored != name else None,
            counts.get(name, facts if scheme == "table" else None),
            stated["rows"],
            _bytes_of(name, tables),
        )
    return result


def _bytes_of(name: str, tables: Mapping[str, Mapping[str, int]]) -> int:
    """What the tables of a relation take: stated facts, all facts, and those that make it up."""
    from gpuengine.maintenance import names
    from gpuengine.maintenance.persistence import DERIVED, STATED
    from gpuengine.planning.linearise import external_name

    stored = (STATED + name, DERIVED + name, DERIVED + names.own(name), DERIVED + external_name(name))
    return sum(tables[table]["bytes"] for table in stored if table in tables)


def _counts(arguments: argparse.Namespace) -> dict[str, int]:
    """How many facts each relation has that was derived."""
    with open_knowledge_base(arguments.kb, arguments, read_only=True) as engine:
        return {name: stored.facts for name, stored in engine.storage.items()}


def clause_texts(rules: list[Rule]) -> list[str]:
    """Each clause once, however many rules it stands for."""
    return list(dict.fromkeys(" ".join(rule.text.split()) for rule in rules))


# -- printing ------------------------------------------------------------------------------------------


def _print(contents: Contents) -> None:
    rows = [("relation", "facts", "stated", "stored as", "size")]
    for name, relation in contents.relations.items():
        facts = f"{relation.facts:,}" if relation.facts is not None else "?"
        scheme = f"alias of {relation.of}" if relation.of else relation.scheme
        rows.append(
            (f"{name}({relation.signature})", facts, f"{relation.stated:,}", scheme, size(relation.bytes))
        )
    print_table(rows)
    if any(relation.facts is None for relation in contents.relations.values()):
        print("?: not known without counting; --count does that")
    if contents.wanted is not None:
        print(f"derived: {', '.join(contents.wanted) or 'nothing'}, and what that depends on")
    print()
    journal = contents.journal
    for what, value in (
        ("rules", f"{contents.rules:,}"),
        ("terms", f"{contents.terms:,}"),
        ("on disk", size(contents.bytes)),
        ("journal", f"{_many(journal['commits'], 'commit')}, {size(journal['bytes'])}"),
        ("state", f"generation {contents.generation}, {_many(contents.commits, 'commit')} since it was made"),
        ("format", f"version {contents.version}"),
        ("writer", contents.writer or "none"),
    ):
        print(f"{what:<10}{value}")
    if contents.discarded_bytes:
        print(f"{size(contents.discarded_bytes)} of an unfinished update are passed over")
    if contents.is_worth_compacting:
        print(f"hint: gpuengine compact {contents.path} folds the journal into the tables")


def print_table(rows: Sequence[Sequence[str]]) -> None:
    """Columns side by side: texts to the left, then numbers to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for first, *others in rows:
        cells = [first.ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True)]
        print("  ".join(cells).rstrip())


def _many(number: int, what: str) -> str:
    return f"{number:,} {what}{'s' if number != 1 else ''}"
