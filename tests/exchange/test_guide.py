"""The code in the guide to the GPU runs; stand-ins take the place of the GPU."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from gpuengine.evaluation.placement import accelerator as accelerators
from tests.exchange.stand_ins import CudaArray, accelerator, cupy_stand_in, install_cudf, install_cupy

GUIDE = Path(__file__).parents[2] / "docs" / "gpu.md"


def test_the_guide(monkeypatch: pytest.MonkeyPatch) -> None:
    cupy = ModuleType("cupy")
    cupy.array = lambda values: CudaArray(np.array(values))  # type: ignore[attr-defined]
    cupy.from_dlpack = np.from_dlpack  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    install_cupy(monkeypatch, cupy_stand_in())
    install_cudf(monkeypatch)
    monkeypatch.setattr(accelerators, "_open_cuda", lambda device, memory: accelerator())
    names: dict[str, Any] = {}
    blocks = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    assert len(blocks) == 3
    for block in blocks:
        exec(compile(block, str(GUIDE), "exec"), names)
    rows = [(1, 2), (1, 3), (1, 4), (2, 3), (2, 4), (3, 4)]
    columns = names["columns"]
    assert names["kb"].options.accelerator.backend.device.statistics.items["ids_of_words"] == 6
    assert list(columns) == ["x", "y"]
    assert sorted(zip(columns["x"].tolist(), columns["y"].tolist(), strict=True)) == rows
    assert sorted(map(tuple, names["matrix"].tolist())) == rows
    assert sorted(names["after_one"].tolist()) == [2, 3, 4]
    assert names["frame"].columns == ["x", "y"]
    other = type(names["kb"])(".decl edge(x: number, y: number)", backend="cuda")
    other.load("edge", {name: CudaArray(np.from_dlpack(values)) for name, values in columns.items()})
    assert sorted(other["edge"]) == rows
