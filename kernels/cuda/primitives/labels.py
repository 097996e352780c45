"""Looking ids up in the labels of a storage scheme: the node of an id, what is known of a node."""

from __future__ import annotations

import numpy as np

from gpuengine.kernels.cuda.devices.device import Array, Device
from gpuengine.kernels.cuda.search import first_not_less
from gpuengine.kernels.cuda.spec import device_kernel
from gpuengine.kernels.primitives import NONE


def by_address(device: Device, ids: Array, low: int, nodes: Array) -> Array:
    """``nodes[id - low]`` of each id; NONE outside."""
    out = device.empty(len(ids), np.uint32)
    device.launch(look_up_node, len(ids), ids, low, low + len(nodes), nodes, out)
    return out


def by_search(device: Device, ids: Array, known: Array, nodes: Array) -> Array:
    """The node beside each id in an ascending array of those that are known; NONE for others."""
    out = device.empty(len(ids), np.uint32)
    device.launch(search_node, len(ids), ids, known, len(known), nodes, out)
    return out


@device_kernel("u4*, i8, i8, u4*, u4*", streamed=8, random=1)
def look_up_node(i, ids, low, high, nodes, out):
    id = np.int64(ids[i])
    if id >= low and id < high:
        out[i] = nodes[id - low]
    else:
        out[i] = np.uint32(NONE)


@device_kernel("u4*, u4*, i8, u4*, u4*", streamed=8, random=5)
def search_node(i, ids, known, count, nodes, out):
    place = first_not_less(known, np.int64(0), count, ids[i])
    if place < count and known[place] == ids[i]:
        out[i] = nodes[place]
    else:
        out[i] = np.uint32(NONE)
