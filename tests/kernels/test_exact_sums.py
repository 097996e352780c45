"""Sums of doubles against fractions, whatever their order, pieces and room for carries."""

from __future__ import annotations

import struct

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gpuengine.kernels.cpu.exact_sums import ExactSums
from gpuengine.kernels.cuda.devices.emulated import EmulatedDevice
from gpuengine.kernels.cuda.groups import ExactSums as DeviceSums
from tests.oracle.values import total

GROUPS = 3
LEAST, GREATEST = 5e-324, 1.7976931348623157e308
floats = st.one_of(
    st.floats(-1, 1),
    st.floats(),
    st.sampled_from([LEAST, -LEAST, 2.0**-1022, -0.0, GREATEST, -GREATEST, 2.0**53, -1.0, 2.0**-32]),
)
rows = st.lists(st.tuples(st.integers(0, GROUPS - 1), floats), max_size=24)


def bits(value: float) -> bytes:
    return b"nan" if value != value else struct.pack("<d", value)


@settings(max_examples=300, deadline=None)
@given(rows, st.integers(0, 24), st.sampled_from([1, 3, 1 << 29]), st.booleans())
@example([(0, GREATEST), (0, GREATEST), (0, -GREATEST)], 1, 1, False)
@example([(0, 1.0), (0, 2.0**-53), (0, 2.0**-1074)], 0, 3, False)
@example([(0, -1.0), (0, 2.0**-54), (1, LEAST), (1, -3 * LEAST)], 2, 1, False)
def test_against_fractions(rows: list[tuple[int, float]], cut: int, room: int, with_opposites: bool) -> None:
    if with_opposites:
        rows = rows + [(group, -value) for group, value in rows[::2]]
    groups = np.array([group for group, _ in rows], np.uint32)
    values = np.array([value for _, value in rows], np.float64)
    sums, device = ExactSums(GROUPS, room=room), EmulatedDevice(1)
    device_sums = DeviceSums(device, GROUPS, room=room)
    for piece in (slice(0, cut), slice(cut, None)):
        sums.add(groups[piece], values[piece])
        words = values[piece].view(np.uint64)
        device_sums.add(device.upload(groups[piece]), device.upload(words), 1)
    expected = [total(value for group, value in rows if group == wanted) + 0.0 for wanted in range(GROUPS)]
    assert [*map(bits, sums.results())] == [*map(bits, expected)]
    assert sums.counts.tolist() == np.bincount(groups, minlength=GROUPS).tolist()
    assert [*map(bits, device.read(device_sums.words()).view(np.float64))] == [*map(bits, expected)]


def test_values_that_touch_no_part() -> None:
    """Zeros, and what is not finite: there is nothing to carry, and nothing is read or written."""
    sums = ExactSums(3, room=2)
    for _ in range(3):
        sums.add(np.array([0, 1, 2], np.uint32), np.array([0.0, -0.0, float("inf")]))
    assert sums.results().tolist() == [0.0, 0.0, float("inf")]
    assert ExactSums(2).results().tolist() == [0.0, 0.0]
