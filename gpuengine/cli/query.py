"""``gpuengine query``: evaluate what a query needs, or open a knowledge base, and print its answers."""

from __future__ import annotations

import argparse
import json
import sys
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from gpuengine.cli.knowledge_bases import is_temporal_base, open_knowledge_base
from gpuengine.cli.languages import is_temporal
from gpuengine.cli.live import LiveLine, live_line
from gpuengine.cli.outputs import in_order
from gpuengine.cli.sources import load, locate, needed_inputs, open_engine
from gpuengine.errors import GpuEngineError
from gpuengine.showing import text_table

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
    answers = engine.query(arguments.query, order=arguments.order or (), **dict(arguments.param))
    if not arguments.order:
        answers = in_order(answers)
    if arguments.output is not None:
        _write(answers, arguments)
    elif arguments.form == "table":
        shown = answers if arguments.limit is None else answers.head(arguments.limit)
        sys.stdout.write(text_table(answers.columns, shown.to_pylist(), len(answers)))
    elif arguments.form == "parquet":
        raise GpuEngineError("Parquet goes to a file: say -o FILE.parquet")
    elif arguments.json or arguments.form == "json":
        rows = list(islice(answers, arguments.limit))
        print(_json({"columns": answers.columns, "rows": rows, "count": len(answers)}))
    else:
        _print_text(answers, arguments.limit, "," if arguments.form == "csv" else "\t")
    return 0


def _write(answers: RelationView, arguments: argparse.Namespace) -> None:
    """To a file, in the form that was asked for or that its ending tells."""
    shown = answers if arguments.limit is None else answers.head(arguments.limit)
    path: Path = arguments.output
    form = arguments.form or ("json" if arguments.json or path.suffix == ".json" else None)
    if form == "json":
        replace_file(path, _json(shown.to_dicts()) + "\n")
    elif form == "table":
        replace_file(path, text_table(shown.columns, shown.to_pylist(), len(answers)))
    elif form == "parquet":
        shown.write(path, IO="parquet")
    elif form == "csv":
        shown.write(path, rfc4180="true", delimiter=",")
    elif form == "tsv":
        shown.write(path, delimiter="\t")
    else:
        shown.write(path)


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)  # dates and times as texts, and so decimals


def replace_file(path: Path, text: str) -> None:
    """Write a file that appears when it is complete."""
    from gpuengine.io.replacing import Replacement

    with Replacement() as alone:
        with alone.file(path) as sink:
            sink.write(text.encode())
        alone.finish()


def evaluated(arguments: argparse.Namespace, line: LiveLine) -> Engine:
    """An engine of the program that has what the query reads."""
    from gpuengine.language.questions import parse_question
    from gpuengine.planning.plan import body_relations

    engine = open_engine(arguments)
    asked = parse_question(arguments.query, engine.program, dict(arguments.param))
    wanted = sorted(set().union(*(body_relations(rule.body) for rule in asked)))
    sources = locate(needed_inputs(engine, wanted), arguments.fact_dir)
    load(engine, sources, arguments, line)
    return engine.materialise(wanted=wanted, watch=line.evaluating)


def _saved(arguments: argparse.Namespace, line: LiveLine) -> Engine:
    """The knowledge base, as it is now."""
    line.show(f"opening {arguments.program}")
    return open_knowledge_base(arguments.program, arguments, read_only=True)


def _print_text(answers: RelationView, limit: int | None, delimiter: str) -> None:
    if not answers.columns:
        print("true" if len(answers) else "false")
        return
    from gpuengine.io.format import RowFormatter
    from gpuengine.io.options import text_dialect

    params = {"headers": "true", "delimiter": delimiter}
    if delimiter == ",":
        params["rfc4180"] = "true"
    formatter = RowFormatter(answers.attributes, text_dialect(params))
    sys.stdout.buffer.write(formatter.header())
    for batch in answers.batches():
        shown = batch if limit is None else batch.slice(0, limit)
        sys.stdout.buffer.write(formatter.rows(shown))
        if limit is not None:
            limit -= shown.num_rows
            if not limit:
                break
    sys.stdout.buffer.flush()
