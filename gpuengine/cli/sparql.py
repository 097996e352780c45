"""``gpuengine sparql``: answer a query over a knowledge base or a file of triples, or update it."""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

from gpuengine.cli.knowledge_bases import is_knowledge_base
from gpuengine.cli.live import live_line
from gpuengine.cli.rdf_kb import open_rdf, print_changes
from gpuengine.errors import GpuEngineError

_PROLOGUE = re.compile(r"\s*(?:(?:#[^\n]*\n|PREFIX\s+\S*\s*<[^>]*>|BASE\s+<[^>]*>)\s*)*", re.IGNORECASE)
_UPDATES = ("INSERT", "DELETE", "WITH", "LOAD", "CLEAR", "DROP", "CREATE", "ADD", "MOVE", "COPY")


def sparql(arguments: argparse.Namespace) -> int:
    """Print the answer; an ASK that is false ends with 0 as well."""
    text, name = _text(arguments.query)
    prologue = _PROLOGUE.match(text)
    begin = text[prologue.end() if prologue else 0 :].lstrip()
    is_update = begin.upper().startswith(_UPDATES)
    is_saved = is_knowledge_base(arguments.kb)
    if is_update and not is_saved:
        raise GpuEngineError(f"{arguments.kb} is no knowledge base: only those can be updated")
    line = live_line(arguments.quiet)
    try:
        line.show(f"opening {arguments.kb}")
        if is_saved:
            kb = open_rdf(arguments.kb, arguments, read_only=not is_update)
        else:
            from gpuengine.cli.rdf import load_rdf

            kb = load_rdf([arguments.kb], arguments, line)
    finally:
        line.clear()
    with kb:
        if is_update:
            for change in kb.sparql_update(text, name=name):
                print_changes(change, {}, as_json=False)
            return 0
        answer = kb.sparql(text, name=name, expand=not arguments.representatives)
        default = "nt" if answer.form in ("CONSTRUCT", "DESCRIBE") else "table"
        sys.stdout.buffer.write(answer.write(arguments.format or default))
        sys.stdout.buffer.flush()
    return 0


def _text(given: str) -> tuple[str, str]:
    """The query, and what messages call it."""
    if not given.startswith("@"):
        return given, "query"
    if given == "@-":
        return sys.stdin.read(), "query"
    try:
        return Path(given[1:]).read_text(encoding="utf-8-sig"), given[1:]
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise GpuEngineError(f"can't read the query in {given[1:]}: {reason}") from error
