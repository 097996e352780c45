"""``%%datalog``: what IPython is given, and what a cell prints."""

from __future__ import annotations

from typing import Any

import pytest

import gpuengine as ge


class Shell:
    """What of IPython the extension uses."""

    def __init__(self) -> None:
        self.user_ns: dict[str, Any] = {}
        self.magics: dict[str, Any] = {}

    def register_magic_function(self, function: Any, kind: str, name: str) -> None:
        self.magics[f"{kind} {name}"] = function


def test_cells_share_an_engine(capsys: pytest.CaptureFixture[str]) -> None:
    shell = Shell()
    ge.load_ipython_extension(shell)
    cell = shell.magics["cell datalog"]
    cell("", ".decl a(x: number)\na(1). a(2).\n?- a(x).\n")
    assert capsys.readouterr().out.endswith("x\n─\n1\n2\n")
    cell("", "a(3).\n")
    assert capsys.readouterr().out == "a: +1 -0\n"
    assert len(shell.user_ns["kb"]["a"]) == 3
    cell("", "a(y).\n")
    assert "error[E" in capsys.readouterr().out


def test_a_cell_for_an_engine_of_its_own() -> None:
    shell = Shell()
    ge.load_ipython_extension(shell)
    shell.user_ns["mine"] = ge.Engine(".decl a(x: number)\n")
    shell.magics["cell datalog"]("mine", "a(1).\n")
    assert list(shell.user_ns["mine"]["a"]) == [(1,)]
    with pytest.raises(ge.GpuEngineError, match="other is no engine"):
        shell.magics["cell datalog"]("other", "a(1).\n")
