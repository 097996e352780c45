"""What is imported when: starting takes longer than many programs."""

from __future__ import annotations

import subprocess
import sys

_MATERIALISES = """
import sys
import gpuengine
kb = gpuengine.Engine(".decl a(x: number)\\n.decl b(x: number)\\na(1).\\nb(x) :- a(x).")
kb.materialise()
assert list(kb["b"]) == [(1,)]
assert kb.storage["b"].counter_nbytes == 0
heavy = ("maintainer", "persistence", "store", "transaction", "updater")
print([name for name in heavy if f"gpuengine.maintenance.{name}" in sys.modules])
with kb.update() as u:
    u.insert("a", [(2,)])
assert len(kb["b"]) == 2
"""


def test_who_only_materialises_does_not_import_what_maintains() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _MATERIALISES], capture_output=True, text=True, check=False, timeout=120
    )
    assert (done.stdout, done.stderr) == ("[]\n", "")
