"""Data in the memory of a device: which objects have it there, and the columns of a relation among them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gpuengine.errors import DataError
from gpuengine.io.arrow_device import CUDA
from gpuengine.io.options import pick_columns
from gpuengine.language.program import Attribute

if TYPE_CHECKING:
    from gpuengine.kernels.cuda.exchange import ForeignArrays


def is_on_device(obj: Any) -> bool:
    """Does an object have facts, or some column of facts, in the memory of a device? Imports nothing.

    An array does, a cuDF frame or series, a mapping of which some value does, and a list or tuple of columns
    that all do.
    """
    if isinstance(obj, Mapping):
        return any(_is_column(value) for value in obj.values())
    if isinstance(obj, list | tuple):
        return bool(obj) and all(_is_column(value) for value in obj)
    return _is_column(obj)


def device_columns(
    obj: Any, attributes: Sequence[Attribute], relation: str, foreign: ForeignArrays
) -> list[tuple[int, Any]]:
    """The columns of an object that `is_on_device`, by attribute: each with its position in the object.

    They are `ForeignColumn`s, or what `arrow_column` takes where they are on the host. Columns match
    as `pick_columns` says. Raises `DataError` if shapes or names don't fit.
    """
    names, columns = _columns(obj, len(attributes), relation, foreign)
    picked = pick_columns(names, [a.name for a in attributes], None, relation, relation=relation)
    return [(i, columns[i]) for i in picked]


def _columns(obj: Any, arity: int, relation: str, foreign: ForeignArrays) -> tuple[list[str], list[Any]]:
    pairs: list[tuple[Any, Any]] | None = None
    if _is_cudf(obj):
        pairs = [(name, obj[name]) for name in obj.columns] if hasattr(obj, "columns") else [("", obj)]
    elif isinstance(obj, Mapping):
        pairs = list(obj.items())
    elif isinstance(obj, list | tuple):
        pairs = [("", values) for values in obj]
    if pairs is not None:
        return [str(name) for name, _ in pairs], [_column(values, relation, foreign) for _, values in pairs]
    array = _wrapped(obj, relation, foreign)
    if array.ndim == 2:
        return [""] * array.shape[1], list(foreign.columns(array))
    if array.ndim == 1 and (arity == 1 or len(array) == 0):
        return [""] * arity, foreign.columns(array) * arity
    raise DataError(f"{relation}: an array of shape {tuple(array.shape)}, expected (n, {arity})")


def _column(values: Any, relation: str, foreign: ForeignArrays) -> Any:
    if _is_cudf(values):
        values = _cudf_column(values)
    if not _is_column(values):
        return values
    array = _wrapped(values, relation, foreign)
    if array.ndim != 1:
        raise DataError(f"{relation}: an array of shape {tuple(array.shape)} as a column, expected (n,)")
    (column,) = foreign.columns(array)
    return column


def _wrapped(source: Any, relation: str, foreign: ForeignArrays) -> Any:
    try:
        array = foreign.wrap(source)
    except (BufferError, TypeError, ValueError) as error:
        raise DataError(f"{relation}: can't read {type(source).__name__} on the device: {error}") from error
    if array.dtype.kind not in "biuf":
        raise DataError(f"{relation}: an array of {array.dtype} on the device, expected numbers")
    return array


def _cudf_column(series: Any) -> Any:
    """A series as it is if it is plain numbers on the device; as Arrow data on the host if not."""
    is_plain = getattr(series.dtype, "kind", "O") in "iuf" and series.count() == len(series)
    return series if is_plain else series.to_arrow()


def _is_column(obj: Any) -> bool:
    if _is_cudf(obj):
        return True
    if hasattr(obj, "__arrow_c_stream__") or hasattr(obj, "__arrow_c_array__"):
        return False  # what it exports as Arrow data has names
    if hasattr(obj, "__cuda_array_interface__"):
        return True
    location = getattr(obj, "__dlpack_device__", None)
    return location is not None and location()[0] in CUDA


def _is_cudf(obj: Any) -> bool:
    return any(t.__module__.partition(".")[0] == "cudf" for t in type(obj).__mro__)
