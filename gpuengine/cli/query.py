"""``gpuengine query``: evaluate what a query needs, or open a knowledge base, and print its answers."""

from __future__ import annotations

import argparse
import json
import sys
from itertools import islice
from typing import TYPE_CHECKING

from gpuengine.cli.arguments import is_temporal
from gpuengine.cli.knowledge_bases import is_temporal_base, open_knowledge_base
from gpuengine.cli.live import LiveLine, live_line
from gpuengine.cli.sources import load, locate, needed_inputs, open_engine

if TYPE_CHECKING:
    from gpuengine.engine import Engine
    from gpuengine.relation import RelationView


def query(arguments: argparse.Namespace) -> int:
    """Print the answers as tab-separated text under a header, or as JSON."""
    if is_temporal_base(arguments.program) if arguments.is_saved else is_temporal(arguments):
        from gpuengine.cli.temporal import query_temporal

        return query_temporal(arguments)
    line = live_line(arguments.quiet)
    try:
        engine = _saved(arguments, line) if arguments.is_saved else evaluated(arguments, line)
    finally:
        line.clear()
    answers = engine.query(arguments.query)
    if arguments.json:
        rows = list(islice(answers, arguments.limit))
        print(
            json.dumps({"columns": answers.columns, "rows": rows, "count": len(answers)}, ensure_ascii=False)
        )
    else:
        _print_text(answers, arguments.limit)
    return 0


def evaluated(arguments: argparse.Namespace, line: LiveLine) -> Engine:
    """An engine of the program that has what the query reads."""
    from gpuengine.language import parse_query
    from gpuengine.planning.plan import body_relations

    engine = open_engine(arguments)
    wanted = sorted(body_relations(parse_query(arguments.query, engine.program).body))
    sources = locate(needed_inputs(engine, wanted), arguments.fact_dir)
    load(engine, sources, arguments, line)
    return engine.materialise(wanted=wanted, watch=line.evaluating)


def _saved(arguments: argparse.Namespace, line: LiveLine) -> Engine:
    """The knowledge base, as it is now."""
    line.show(f"opening {arguments.program}")
    return open_knowledge_base(arguments.program, arguments, read_only=True)


def _print_text(answers: RelationView, limit: int | None) -> None:
    if not answers.columns:
        print("true" if len(answers) else "false")
        return
    from gpuengine.io.format import RowFormatter
    from gpuengine.io.options import text_dialect

    formatter = RowFormatter(answers.attributes, text_dialect({"headers": "true"}))
    sys.stdout.buffer.write(formatter.header())
    for batch in answers.batches():
        shown = batch if limit is None else batch.slice(0, limit)
        sys.stdout.buffer.write(formatter.rows(shown))
        if limit is not None:
            limit -= shown.num_rows
            if not limit:
                break
    sys.stdout.buffer.flush()
