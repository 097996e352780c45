"""The table in docs/kernels.md: every kernel, and what it has passed.

``python -m tests.kernels.cuda.kernel_table`` rewrites it. Its columns are true of every kernel because
`test_every_kernel` and `test_assembly` fail if one is left out.
"""

from __future__ import annotations

from pathlib import Path

from gpuengine.kernels.cuda.catalogue import KERNELS
from tests.kernels.cuda.resources import read_golden

TABLE = Path(__file__).parents[3] / "docs" / "kernels.md"
COMMAND = "python -m tests.kernels.cuda.kernel_table"
_HEAD = """\
# Kernels of the CUDA backend

**None of these has run on a GPU.** What each has passed in `make test`:

- *host*: compiled for the host from the same source by the same compiler front end, run by several threads,
  and equal to the reference or the CPU backend;
- *simulator*: run in numba's CUDA simulator, items in shuffled order, with the same results;
- *PTX*: what it compiles to was interpreted instruction by instruction, threads interleaved at random at
  every access to memory, every access checked to be inside the arrays passed, with the same results;
- *assembled*: assembled to machine code for sm_75, sm_80, sm_90, sm_100 and sm_120 without spills, stack or
  local memory; the number is the most registers that a thread takes on any of them.

Made by `{command}`.

| kernel | in | host | simulator | PTX | assembled | on a GPU |
|---|---|---|---|---|---|---|
"""


def render() -> str:
    """The page as text."""
    _, resources = read_golden()
    rows = []
    for name, kernel in sorted(KERNELS.items()):
        file = kernel.body.__module__.removeprefix("gpuengine.").replace(".", "/") + ".py"
        registers = max(resources[name].registers)
        rows.append(f"| `{name}` | `{file}` | yes | yes | yes | yes, {registers} | not yet |")
    return _HEAD.format(command=COMMAND) + "\n".join(rows) + "\n"


if __name__ == "__main__":
    TABLE.write_text(render())
    print(f"{len(KERNELS)} kernels in {TABLE}")
