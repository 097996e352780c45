"""The catalogue knows every kernel that is declared."""

from __future__ import annotations

import ast
from pathlib import Path

from gpuengine.kernels import cuda
from gpuengine.kernels.cuda.catalogue import KERNELS, MODULES


def declared(source: Path) -> set[str]:
    """The functions in a file that are marked as kernels."""
    return {
        node.name
        for node in ast.walk(ast.parse(source.read_text()))
        if isinstance(node, ast.FunctionDef)
        for mark in node.decorator_list
        if isinstance(mark, ast.Call) and ast.unparse(mark.func).endswith("device_kernel")
    }


def test_every_declared_kernel_is_known() -> None:
    folder = Path(cuda.__path__[0])
    by_file = {file: declared(file) for file in folder.rglob("*.py")}
    names = set().union(*by_file.values())
    assert names == set(KERNELS)
    assert {file for file, kernels in by_file.items() if kernels} == {
        folder / Path(*module.__name__.split(".")[3:]).with_suffix(".py") for module in MODULES
    }
    assert "gather" in names
