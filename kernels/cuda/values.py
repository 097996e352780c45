"""Value tables on a device: what ids stand for, copied there when it has changed."""

from __future__ import annotations

from dataclasses import dataclass
from weakref import WeakKeyDictionary

from gpuengine.kernels.contract import ValueTable
from gpuengine.kernels.cuda.devices.device import Array, Device


class ValueMirror:
    """The device's copies of value tables. Values are only ever added; an array that lies where the last one
    did has the same values before its new ones."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._copies: WeakKeyDictionary[ValueTable, _Copy] = WeakKeyDictionary()

    def array(self, values: ValueTable) -> Array:
        """The table's values now; uploads those that the device does not have."""
        host = values.array
        known = self._copies.get(values)
        if known is None or known.address != host.ctypes.data or known.room < len(host):
            room = 2 * len(host) + 1
            known = _Copy(self._device.empty(room, host.dtype), host.ctypes.data, room, 0)
            self._copies[values] = known
        if known.count < len(host):
            fresh = self._device.upload(host[known.count :])
            self._device.copy(known.array[known.count : len(host)], fresh)
            known.count = len(host)
        return known.array


@dataclass
class _Copy:
    """`count` values copied from an address, with room for more."""

    array: Array
    address: int
    room: int
    count: int
