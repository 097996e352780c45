"""The bench of DatalogMTL: its facts are what they should be, and the table runs as a process."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from bench.prepare import ROOT
from bench.temporal import others
from bench.temporal.lubm import LAST_TIME, generate


@pytest.mark.parametrize("per_atom", [1, 2, 7.5])
def test_lubm_facts(per_atom: float) -> None:
    facts = generate(5_000, per_atom)
    assert len(facts) == 5_000
    atoms = sum(len(np.unique(np.stack(columns), axis=1).T) for columns, _, _ in facts.tables.values())
    assert atoms == pytest.approx(5_000 / per_atom, rel=0.02)
    for columns, start, end in facts.tables.values():
        assert all(len(column) == len(start) == len(end) for column in columns)
        assert all(column.max() < facts.constants for column in columns)
        assert (start < end).all() and start.min() >= 0 and end.max() <= LAST_TIME
    again = generate(5_000, per_atom)
    assert all((facts.tables[name][1] == again.tables[name][1]).all() for name in facts.tables)


def test_fewer_intervals_are_more_constants() -> None:
    assert generate(3_000, 1).constants > 2 * generate(3_000, 4).constants


@pytest.mark.parametrize("make", [others.itemporal, others.weather])
def test_other_facts(make: object) -> None:
    facts = make(2_000)  # type: ignore[operator]
    assert 1_900 <= len(facts) <= 2_100
    assert all((start <= end).all() for _, start, end in facts.tables.values())


@pytest.mark.slow
def test_the_table(tmp_path: Path) -> None:
    file = tmp_path / "mtl.json"
    command = [sys.executable, "-m", "bench", "table", "mtl", "--quick", "--json", str(file)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "figure 1 (a), (b): lubm, 10,000 facts, 30 rounds" in done.stdout
    sheets = json.loads(file.read_text())["tables"]
    first = sheets[0]["rows"]
    assert [row["engine"] for row in first] == ["naive", "seminaive", "optimised"]
    assert len({row["stored facts"] for row in first}) == 1
    assert len(sheets) == 4
