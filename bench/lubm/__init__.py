"""The Lehigh University Benchmark: its facts, its axioms as rules, and both as files made once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from bench.prepare import ROOT, VERSION, Places, once

FOLDER = Path(__file__).parent
"""Also has the benchmark's ontology and its 14 queries, and the rule files of the thesis on optimising
Datalog materialisations over it (``lubm-l.dlog``, ``lubm-lc.dlog``)."""
AXIOMS = FOLDER / "axioms.tsv"
"""The OWL 2 RL part of the benchmark's ontology, an axiom a line; the rule set L of the papers."""


def read_axioms() -> list[str]:
    """The axioms, as `rules.rule` takes them."""
    return AXIOMS.read_text(encoding="utf-8").splitlines()


def prepare_lubm(places: Places, universities: int) -> Path:
    """The folder with ``lubm.dl`` and ``facts.npz`` of so many universities, made once."""
    folder = places.data / "lubm" / f"{universities}-v{VERSION}"

    def fill(into: Path) -> None:
        subprocess.run(
            [sys.executable, "-m", "bench.lubm.rules", str(universities), str(into)], cwd=ROOT, check=True
        )

    once(folder, [AXIOMS], fill)
    return folder
