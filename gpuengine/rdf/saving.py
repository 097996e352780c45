"""An RDF engine as what the store of its engine keeps beside it, and back."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from gpuengine.rdf.layout import Layout
from gpuengine.rdf.rules import canonical

if TYPE_CHECKING:
    from gpuengine.engine import Engine
    from gpuengine.rdf.engine import RdfEngine

LANGUAGE = "rdf"


def notes_of(engine: RdfEngine) -> dict[str, Any]:
    """What must be known to go on."""
    from gpuengine.rdf.dlog import rule_text

    return {
        "language": LANGUAGE,
        "entailment": None if engine.entailment is None else asdict(engine.entailment),
        "files": engine.files,
        "prefixes": dict(engine.prefixes),
        "classes": dict(engine.layout.classes),
        "properties": dict(engine.layout.properties),
        "rules": [[rule_text(rule), rule.name] for rule in engine.rules.values()],
    }


def restored(engine: Engine) -> RdfEngine:
    """The RDF engine over an engine that was opened."""
    from gpuengine.rdf.dlog import parse_rules
    from gpuengine.rdf.engine import RdfEngine
    from gpuengine.rdf.quads import DictionaryTerms

    notes = engine.current.notes
    made = RdfEngine(**(notes["entailment"] or {}))
    made.dictionary = engine.dictionary
    made.terms = DictionaryTerms(engine.dictionary)
    rules = [replace(rule, name=name) for text, name in notes["rules"] for rule in parse_rules(text + "\n")]
    made.found.prefixes |= notes["prefixes"]
    made.adopt(
        engine,
        Layout(notes["classes"], notes["properties"]),
        {canonical(rule): rule for rule in rules},
        notes["files"],
    )
    return made
