"""The Arrow C device interface: columns in the memory of a device, from and to the capsules that others use.

On the way out pyarrow makes the structures, keeps what they point to alive, and releases them; it is told
only that the memory is elsewhere, by the fields that say so. On the way in a column of plain numbers becomes
an object with `__cuda_array_interface__` that keeps the capsule alive.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from gpuengine.errors import DataError

CUDA = (2, 13)
"""The types of CUDA memory: of a device, and what the driver moves there. DLPack has the same numbers."""

_CAPSULE_NAME = b"arrow_device_array"


class ArrowArray(ctypes.Structure):
    """``struct ArrowArray`` of the Arrow C data interface."""

    _fields_ = (
        ("length", ctypes.c_int64),
        ("null_count", ctypes.c_int64),
        ("offset", ctypes.c_int64),
        ("n_buffers", ctypes.c_int64),
        ("n_children", ctypes.c_int64),
        ("buffers", ctypes.POINTER(ctypes.c_void_p)),
        ("children", ctypes.POINTER(ctypes.c_void_p)),
        ("dictionary", ctypes.c_void_p),
        ("release", ctypes.c_void_p),
        ("private_data", ctypes.c_void_p),
    )


class ArrowDeviceArray(ctypes.Structure):
    """``struct ArrowDeviceArray`` of the Arrow C device interface; device types are numbered as in DLPack."""

    _fields_ = (
        ("array", ArrowArray),
        ("device_id", ctypes.c_int64),
        ("device_type", ctypes.c_int32),
        ("sync_event", ctypes.c_void_p),
        ("reserved", ctypes.c_int64 * 3),
    )


def export_columns(
    schema: pa.Schema, columns: Sequence[Any], addresses: Sequence[int], location: tuple[int, int]
) -> tuple[Any, Any]:
    """The capsules (schema, device array) of a record batch of numbers, of at least one column.

    The columns are arrays without gaps, of the schema's types, at the addresses; they live until the consumer
    releases the batch. `location` is the device's type and number. Everything written to them must be done:
    the consumer gets no event to wait for.
    """
    arrays = [
        pa.Array.from_buffers(
            field.type, len(column), [None, pa.foreign_buffer(address, column.nbytes, base=column)], 0
        )
        for field, column, address in zip(schema, columns, addresses, strict=True)
    ]
    batch = pa.RecordBatch.from_arrays(arrays, schema=schema)
    described, exported = batch.__arrow_c_device_array__()
    device_array = ArrowDeviceArray.from_address(capsule_address(exported))
    device_array.device_type, device_array.device_id = location
    device_array.sync_event, device_array.reserved = None, (0, 0, 0)
    return described, exported


class DeviceColumn:
    """A column of numbers on a device, by `__cuda_array_interface__`; `owner` keeps the memory alive."""

    def __init__(self, address: int, count: int, dtype: np.dtype, owner: Any) -> None:
        self._owner = owner
        self.__cuda_array_interface__ = {
            "shape": (count,),
            "typestr": dtype.str,
            "data": (address, False),
            "strides": None,
            "version": 3,
        }


def unpacked(obj: Any) -> Any:
    """The columns, by name, of an object whose Arrow C device interface has them on a CUDA device.

    Anything else is returned as it is, or as Arrow data on the host. What has a stream of batches on the host
    is left alone, and columns that are not plain numbers without nulls are left to the object's own export
    to the host, if it has one.
    """
    if not hasattr(obj, "__arrow_c_device_array__") or hasattr(obj, "__arrow_c_stream__"):
        return obj
    if isinstance(obj, pa.Array):
        return obj
    described, exported = obj.__arrow_c_device_array__()
    device_array = ArrowDeviceArray.from_address(capsule_address(exported))
    if device_array.device_type not in CUDA:
        return pa.Array._import_from_c_device_capsule(described, exported)
    kind = pa.DataType._import_from_c_capsule(described)
    array = device_array.array
    if not pa.types.is_struct(kind):
        fields, columns, start = [pa.field("", kind)], [array], 0
    else:
        fields, start = list(kind), array.offset
        columns = [ArrowArray.from_address(array.children[i]) for i in range(array.n_children)]
    odd = [field for field, column in zip(fields, columns, strict=True) if not _is_plain(field, column)]
    if odd and hasattr(obj, "__arrow_c_array__"):
        return pa.Array._import_from_c_capsule(*obj.__arrow_c_array__())
    if odd:
        raise DataError(
            f"column {odd[0].name} holds {odd[0].type}, perhaps with nulls, on a device; only plain numbers "
            "are read from there\n  hint: give the data as Arrow on the host"
        )
    taken = [_column(f, c, start, array.length, exported) for f, c in zip(fields, columns, strict=True)]
    names = [field.name for field in fields]
    return dict(zip(names, taken, strict=True)) if len(set(names)) == len(names) else taken


def _is_plain(field: pa.Field, column: ArrowArray) -> bool:
    is_number = pa.types.is_integer(field.type) or pa.types.is_floating(field.type)
    return is_number and (column.null_count == 0 or not column.buffers[0])


def _column(field: pa.Field, column: ArrowArray, start: int, count: int, owner: Any) -> DeviceColumn:
    dtype = np.dtype(field.type.to_pandas_dtype())
    first = (start + column.offset) * dtype.itemsize
    return DeviceColumn((column.buffers[1] or 0) + first, count, dtype, owner)


def capsule_address(capsule: Any) -> int:
    """Where the structure in a capsule of a device array is."""
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    address: int = get(capsule, _CAPSULE_NAME)
    return address
