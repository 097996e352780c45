"""A workload small enough for the tests: the closure of five edges."""

from pathlib import Path

import pytest

from bench.catalogue import Source, Workload
from bench.prepare import Prepared

PROGRAM = """\
.decl edge(a0:number, a1:number)
.input edge
.decl path(a0:number, a1:number)
path(x,y) :- edge(x,y).
path(x,z) :- path(x,y), edge(y,z).
.printsize path
"""


@pytest.fixture
def tiny(tmp_path: Path) -> Prepared:
    """1→2→3→4 and 2→4→5: ten pairs."""
    program, facts = tmp_path / "tiny.dl", tmp_path / "facts"
    facts.mkdir()
    program.write_text(PROGRAM)
    (facts / "edge.facts").write_text("1\t2\n2\t3\n3\t4\n2\t4\n4\t5\n")
    workload = Workload("tiny", frozenset({"test"}), "tiny.dl", Source("packed", "tiny"), {"path": 10})
    return Prepared(workload, program, facts)
