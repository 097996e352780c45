"""What the PySpark that is installed can do: the only place that knows in which version something came.

What an older one lacks and the bridge can do without is done here in another way.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from gpuengine.errors import SparkError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

Version = tuple[int, int]

OLDEST: Version = (3, 5)

FEATURES: Mapping[str, Version] = {
    "the data source gpuengine": (4, 0),
    "Spark Connect": (4, 0),
    "loggers of queries": (4, 0),
    "pushed filters": (4, 1),
}
"""Since which version there is what a feature of the bridge is made of."""

_ARROW_FRAMES: Version = (4, 0)
_UTF8_CHECK: Version = (4, 0)
_TRY_CAST: Version = (4, 0)


@cache
def version() -> Version:
    """The version of PySpark on this machine."""
    import pyspark

    major, minor, *_ = pyspark.__version__.split(".")
    return int(major), int(minor)


def has(feature: str) -> bool:
    """Is a feature of `FEATURES` there?"""
    return version() >= FEATURES[feature]


def require(feature: str) -> None:
    """Raise `SparkError` with the version that a feature needs, if this one has it not."""
    if has(feature):
        return
    import pyspark

    needed = ".".join(map(str, FEATURES[feature]))
    raise SparkError(
        f"{feature} needs PySpark {needed} or newer, and this is {pyspark.__version__}\n"
        f"  hint: pip install 'pyspark>={needed}', and a Spark of the same version on the cluster"
    )


def require_supported() -> None:
    """Raise `SparkError` for a PySpark that is older than any that was tried."""
    if version() < OLDEST:
        import pyspark

        needed = ".".join(map(str, OLDEST))
        raise SparkError(
            f"PySpark {pyspark.__version__} is too old: {needed} is the oldest that will do\n"
            "  hint: pip install --upgrade 'gpuengine[spark]'"
        )


def to_arrow(frame: DataFrame) -> pa.Table:
    """All rows of a frame, fetched to the driver."""
    if version() >= _ARROW_FRAMES:
        return frame.toArrow()
    from pyspark.sql.pandas.types import to_arrow_schema

    old: Any = frame
    return pa.Table.from_batches(old._collect_as_arrow(), to_arrow_schema(frame.schema))


def is_valid_utf8(text: str | Column) -> Column:
    """Whether the bytes of a text are UTF-8; null for null."""
    from pyspark.sql import functions as F

    if version() >= _UTF8_CHECK:
        return F.is_valid_utf8(text)
    column = F.col(text) if isinstance(text, str) else text
    # Decoding puts U+FFFD for what is not; encoding that again gives other bytes.
    again = F.encode(F.decode(column.cast("binary"), "UTF-8"), "UTF-8")
    return again == column.cast("binary")


def try_cast(value: Column, kind: str) -> Column:
    """The value as another type, or null."""
    if version() >= _TRY_CAST:
        return value.try_cast(kind)
    # Before, casting gives null unless the session asks for errors.

    return value.cast(kind)
