"""Batches of streams that were applied: what makes a batch that comes again come once."""

from __future__ import annotations

from collections.abc import Mapping

from gpuengine.errors import SparkError

STREAMS = "streams"
"""Under this name a knowledge base notes the last batch of each stream that fed it."""


def was_applied(streams: Mapping[str, int], stream: str, batch: int) -> bool:
    """Was this batch the last one of its stream? Spark runs that again if it ended before it noted it.

    Raises `SparkError` for an earlier one: it belongs to a checkpoint that was deleted or set back, and there
    is no telling which of its rows are there.
    """
    last = streams.get(stream)
    if last is not None and batch < last:
        raise SparkError(
            f"batch {batch} of the stream {stream} comes after batch {last}: its checkpoint was deleted, or "
            "is an old one\n  hint: go on with the checkpoint that wrote it, or give the stream another name"
        )
    return batch == last
