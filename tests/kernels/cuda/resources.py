"""The golden table of what every kernel takes of a GPU.

``python -m tests.kernels.cuda.resources`` rewrites it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gpuengine.kernels.cuda.catalogue import KERNELS
from gpuengine.kernels.cuda.devices.assemble import ARCHITECTURES, Assembled, assemble
from gpuengine.kernels.cuda.devices.module_cache import compiler_versions

GOLDEN = Path(__file__).with_name("resources.txt")
COMMAND = "python -m tests.kernels.cuda.resources"
_BYTES = ("stack", "spills", "shared")


@dataclass(frozen=True)
class Resources:
    """Registers of a thread by architecture; bytes of stack, of spills and of a block's shared memory.

    Of the bytes, the most that any architecture takes.
    """

    registers: tuple[int, ...]
    stack: int
    spills: int
    shared: int


def summarise(assembled: Sequence[Assembled]) -> Resources:
    """What a kernel takes, as assembled for each of `ARCHITECTURES`."""
    most = (max(getattr(one, kind) for one in assembled) for kind in _BYTES)
    return Resources(tuple(one.registers for one in assembled), *most)


def installed_compilers() -> str:
    """The line of the table that says what made it."""
    return ", ".join(f"{package} {version}" for package, version in compiler_versions())


def read_golden() -> tuple[str, dict[str, Resources]]:
    """The compilers that made the table, and its rows."""
    lines = GOLDEN.read_text().splitlines()
    (compilers,) = (line.removeprefix("# made by ") for line in lines if line.startswith("# made by "))
    rows = [line.split() for line in lines if not line.startswith("#")]
    count = len(ARCHITECTURES)
    return compilers, {
        name: Resources(tuple(map(int, cells[:count])), *map(int, cells[count:])) for name, *cells in rows
    }


def render(rows: dict[str, Resources]) -> str:
    """The table as text."""
    headings = ["# kernel", *(f"sm_{major}{minor}" for major, minor in ARCHITECTURES), *_BYTES]
    cells = [[name, *row.registers, row.stack, row.spills, row.shared] for name, row in sorted(rows.items())]
    width = max(len(str(line[0])) for line in [headings, *cells])
    lines = [
        "# Registers of a thread by architecture; bytes of stack, of spills, and of shared memory.",
        f"# made by {installed_compilers()}",
        f"# with {COMMAND}",
    ]
    for first, *others in [headings, *cells]:
        lines.append(f"{first:<{width}}" + "".join(f"{cell:>8}" for cell in others))
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    measured = {
        name: summarise([assemble(kernel, capability) for capability in ARCHITECTURES])
        for name, kernel in KERNELS.items()
    }
    GOLDEN.write_text(render(measured))
    print(f"{len(KERNELS)} kernels in {GOLDEN}")
