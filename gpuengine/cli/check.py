"""``gpuengine check``: where triples contradict their ontology."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from gpuengine.cli.knowledge_bases import is_knowledge_base
from gpuengine.cli.live import live_line
from gpuengine.cli.rdf import load_rdf
from gpuengine.cli.rdf_kb import open_rdf


def check(arguments: argparse.Namespace) -> int:
    """Print each inconsistency by the name of its rule, with the triples that make it; 1 if there is one."""
    line = live_line(arguments.quiet)
    try:
        if is_knowledge_base(arguments.kb):
            kb = open_rdf(arguments.kb, arguments, read_only=True)
        else:
            arguments.profile = arguments.profile or "owl2rl"
            kb = load_rdf([arguments.kb, *map(Path, arguments.files)], arguments, line)
            kb.materialise(watch=line.evaluating)
    finally:
        line.clear()
    inconsistencies = list(kb.inconsistencies())
    if arguments.json:
        cases = [
            {"rule": one.rule, "triples": [list(triple) for triple in one.triples]} for one in inconsistencies
        ]
        print(json.dumps({"consistent": not inconsistencies, "inconsistencies": cases}, ensure_ascii=False))
    else:
        for one in inconsistencies:
            print(one.rule)
            for triple in one.triples:
                print(f"  {' '.join(triple)} .")
        plural = "y" if len(inconsistencies) == 1 else "ies"
        print("consistent" if not inconsistencies else f"{len(inconsistencies)} inconsistenc{plural}")
    return 1 if inconsistencies else 0
