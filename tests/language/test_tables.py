"""The stored LALR tables and the cost of starting the parser."""

from __future__ import annotations

import json
import subprocess
import sys
import time

from gpuengine.language import parse_program
from gpuengine.language.tables import GRAMMAR, TABLES, build, digest, load
from gpuengine.language.tree import TreeBuilder


def test_the_stored_tables_are_those_of_the_grammar() -> None:
    grammar = GRAMMAR.read_bytes()
    stored = json.loads(TABLES.read_text())
    assert stored["digest"] == digest(grammar), "run python -m gpuengine.language.tables"
    assert stored["tables"] == build(grammar.decode())


def test_every_alias_of_the_grammar_has_a_method_and_the_other_way_round() -> None:
    aliases = {f"make_{entry.action}" for entry in load().productions if entry.action}
    assert aliases == {name for name in dir(TreeBuilder) if name.startswith("make_")}


def test_a_start_does_not_import_lark() -> None:
    script = (
        "import sys\nfrom gpuengine.language import parse_program\n"
        "parse_program('.decl p(x: number) p(1).')\nprint('lark' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout == "False\n"


def test_ten_thousand_rules() -> None:
    count = 10_000
    text = ".decl e(x: number, y: number)\n.decl p0(x: number, y: number)\n" + "".join(
        f".decl p{n}(x: number, y: number)\np{n}(x, z) :- e(x, y), p{n - 1}(y, z), x != {n}, !e(z, x).\n"
        for n in range(1, count + 1)
    )
    start = time.process_time()
    program = parse_program(text)
    took = time.process_time() - start
    assert len(program.rules) == count
    assert len(program.relations) == count + 2
    assert took < 30  # a few seconds; a quadratic pass would take minutes
