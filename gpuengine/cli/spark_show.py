"""``gpuengine show`` of a materialisation that Spark has saved: its description is read, no Spark started."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from gpuengine.cli.show import clause_texts, print_table
from gpuengine.errors import StoreError


def show_saved(arguments: argparse.Namespace) -> int:
    """Print its relations, how many facts they have, and how to read and change it."""
    from gpuengine.language.editing import ProgramText
    from gpuengine.planning.prepared import prepare
    from gpuengine.spark_bridge.saved import MANIFEST, VERSION

    path: Path = arguments.kb
    try:
        saved: dict[str, Any] = json.loads((path / MANIFEST).read_text(encoding="utf-8"))
        if saved["version"] != VERSION:
            raise StoreError(f"{path / MANIFEST}: version {saved['version']!r} is not known")
        prepared = prepare(ProgramText.from_json(saved["program"]), None)
        relations: dict[str, dict[str, Any]] = {
            name: {
                "attributes": {a.name: a.type.name for a in prepared.source.relations[name].attributes},
                "facts": _rows(saved["relations"], prepared.stored(name)),
                "stated": _rows(saved["stated"], prepared.stored(name)),
            }
            for name in saved["wanted"]
        }
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise StoreError(f"{path / MANIFEST} is damaged: {error}") from error
    rules = clause_texts([rule for rule in prepared.source.rules if rule.body])
    if arguments.json:
        content: dict[str, Any] = {
            "path": str(path),
            "saved_by": "spark",
            "version": saved["version"],
            "generation": saved["generation"],
            "relations": relations,
        }
        if arguments.rules:
            content["rule_texts"] = rules
        print(json.dumps(content, ensure_ascii=False))
        return 0
    print(f"{path} was saved by Spark, as Parquet: generation {saved['generation']}\n")
    rows = [("relation", "facts", "stated")]
    for name, one in relations.items():
        signature = ", ".join(f"{attribute}: {type}" for attribute, type in one["attributes"].items())
        rows.append((f"{name}({signature})", f"{one['facts']:,}", f"{one['stated']:,}"))
    print_table(rows)
    if arguments.rules:
        print("\n" + "\n".join(rules) if rules else "\nno rules")
    print(
        f"\nhint: gpuengine update {path} --on spark --insert RELATION=DATASET adds facts;\n"
        f"  in Python, gpuengine.spark_bridge.open(spark, '{path}') reads and changes it"
    )
    return 0


def _rows(pieces: dict[str, Any], name: str) -> int:
    return sum(int(rows) for _, rows in pieces.get(name, ()))
