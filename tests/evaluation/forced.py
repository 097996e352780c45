"""Ways to force the evaluation onto one of its paths, whatever the sizes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from gpuengine.evaluation import fixpoint
from gpuengine.evaluation.driver import stratum
from gpuengine.evaluation.placement import workers
from gpuengine.evaluation.rules import body, parallel_body, variants
from gpuengine.kernels.cpu import crew

#: `Rows` are never smaller than this, so a smaller buffer would hold more than was reserved for it.
LEAST_BUFFER = 16


@contextmanager
def forced(
    *,
    small_delta: int | None = None,
    small_work: int | None = None,
    chunk_rows: int | None = None,
    buffer_rows: int | None = None,
) -> Iterator[None]:
    """Deltas up to `small_delta` and rounds up to `small_work` count as small; buffers hold so many rows.

    With `buffer_rows`, whatever threads can share they do, however little it is.
    """
    with pytest.MonkeyPatch.context() as patch:
        if small_delta is not None:
            patch.setattr(stratum, "SMALL_DELTA", small_delta)
            patch.setattr(variants, "SMALL_DELTA", small_delta)
        if small_work is not None:
            patch.setattr(fixpoint, "SMALL_WORK", small_work)
            patch.setattr(stratum, "SMALL_WORK", small_work)
        if chunk_rows is not None:
            patch.setattr(body, "CHUNK_ROWS", chunk_rows)
        if buffer_rows is not None:
            patch.setattr(workers, "BUFFER_ROWS", max(buffer_rows, LEAST_BUFFER))
            patch.setattr(workers, "_LEAST_CHUNK", 1)
            patch.setattr(workers, "_LEAST_SPAN", 1)
            patch.setattr(crew, "LEAST_SHARE", 1)
            patch.setattr(stratum, "LEAST_SHARE", 1)
            patch.setattr(parallel_body, "_LEAST_CHUNK", 1)
            patch.setattr(variants, "_SMALL_COPY", 0)
        yield
