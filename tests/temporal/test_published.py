"""The published answers: which facts hold, and from when to when, as far as those answers go."""

from __future__ import annotations

import math
import re
import zipfile
from pathlib import Path

import pytest

from gpuengine.temporal.engine import TemporalEngine
from gpuengine.temporal.syntax import Interval

HERE = Path(__file__).parent / "published"
CUT = 90
"""Greatest times of lubm from here on were cut off by how far the rules had been unfolded."""
Answers = dict[str, tuple[int, int]]


def published(folder: str, size: str) -> dict[str, Answers]:
    """By predicate what was found; predicates without answers may not have been asked for."""
    found: dict[str, Answers] = {}
    with zipfile.ZipFile(HERE / folder / "answers.zip") as archive:
        for name in archive.namelist():
            if not name.startswith(f"{size}_"):
                continue
            lines = archive.read(name).decode().splitlines()[1:]
            matched = [
                re.fullmatch(r"(.+) => Min Interval: (-?\d+), Max Interval: (-?\d+)\s*", x) for x in lines
            ]
            found[name[4:].removesuffix(".txt")] = {m[1]: (int(m[2]), int(m[3])) for m in matched if m}
    return found


def at_multiples(kb: TemporalEngine, name: str, unit: int, first: int, last: int) -> Answers:
    """The least and the greatest multiple of `unit` at which each fact holds."""
    found: Answers = {}
    for *arguments, interval in kb[name]:
        times = _multiples(interval, unit, first, last)
        if times:
            atom = f"{name}({','.join(arguments)})"
            low, high = found.get(atom, (times[0], times[-1]))
            found[atom] = min(low, times[0]), max(high, times[-1])
    return found


def _multiples(interval: Interval, unit: int, first: int, last: int) -> range:
    assert interval.lower is not None and interval.upper is not None
    low = math.ceil(interval.lower / unit) * unit
    high = math.floor(interval.upper / unit) * unit
    low += unit if interval.lower_open and low == interval.lower else 0
    high -= unit if interval.upper_open and high == interval.upper else 0
    return range(max(low, first), min(high, last) + 1, unit)


@pytest.mark.parametrize("procedure", ["naive", "seminaive", "optimised"])
@pytest.mark.parametrize("size", ["1e3", "1e4"])
def test_lubm(size: str, procedure: str) -> None:
    kb = TemporalEngine(HERE / "lubm" / "program.mtl")
    kb.load(HERE / "lubm" / f"lubm-{size}.txt.gz")
    kb.materialise(horizon="[-50,150]", procedure=procedure)  # type: ignore[arg-type]
    checked = 0
    for name, answers in published("lubm", size).items():
        ours = at_multiples(kb, name, 1, -50, 150)
        assert ours.keys() == answers.keys()
        for atom, (low, high) in answers.items():
            assert ours[atom][0] == low
            assert ours[atom][1] == high if high < CUT else ours[atom][1] >= CUT
            checked += 1
    assert checked == {"1e3": 675, "1e4": 5542}[size]


@pytest.mark.parametrize("size", ["1e2", "1e3", "1e4"])
def test_itemporal(size: str, tmp_path: Path) -> None:
    with zipfile.ZipFile(HERE / "itemporal" / "facts.zip") as archive:
        archive.extractall(tmp_path, [name for name in archive.namelist() if name.startswith(size)])
    kb = TemporalEngine(HERE / "itemporal" / "program.mtl")
    kb.load(tmp_path / size)
    kb.materialise()
    assert kb.progress.is_fixpoint and kb.is_exact
    checked = 0
    for name, answers in published("itemporal", size).items():
        ours = at_multiples(kb, name, 200, 0, 19_800)
        if size == "1e4":
            ours = {atom: times for atom, times in ours.items() if atom in answers}
        assert ours == answers
        checked += len(answers)
    assert checked == {"1e2": 65, "1e3": 2350, "1e4": 1983}[size]
