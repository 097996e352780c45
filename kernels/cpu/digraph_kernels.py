"""Kernels over a directed graph that grows and shrinks: components, what they lead to, and their numbering.

The edges of node x are ``targets[offsets[x]:offsets[x + 1]]`` and then those of a linked list, which begins
at ``heads[x]`` and goes on at ``links``, its targets in `link_targets`. A target of NONE is an edge that was
removed. A cursor is a place in `targets`, or LINKED plus a place in the list.
"""

from __future__ import annotations

import numpy as np

from gpuengine.kernels.cpu.jit import device, kernel
from gpuengine.kernels.primitives import NONE

LINKED = 1 << 40
NO_NODE = np.int64(NONE)


@device
def close(x, height, stack, members, closed):
    """Move the nodes from the top of the stack down to `x` to the end of `members`; how many it has then."""
    y = np.int64(-1)
    while y != x:
        height -= 1
        y = np.int64(stack[height])
        members[closed] = np.uint32(y)
        closed += 1
    return closed


@kernel("i8(u8*, u4*, u4*, u4*, u4*, u4*, i8, u1*, u4*, u4*, u8*, u4*, u4*, u4*, u4*)")
def find_components(
    offsets,
    targets,
    heads,
    links,
    link_targets,
    nodes,
    count,
    marked,
    number,
    low,
    cursor,
    stack,
    path,
    members,
    component_ends,
):
    """Tarjan's algorithm without recursion, over the marked nodes and the edges between them.

    `nodes` are those marked, `number` has 0 for each. Components come out with those that others lead to
    first: their nodes one after another in `members`, with the end of each in `component_ends`. Returns
    how many there are; the marks of the nodes are 2 then.
    """
    met = 0
    height = 0
    closed = 0
    components = 0
    for k in range(count):
        root = np.int64(nodes[k])
        entered = root if number[root] == np.uint32(0) else np.int64(-1)
        depth = 0
        while entered >= 0 or depth > 0:
            if entered >= 0:
                met += 1
                number[entered] = np.uint32(met)
                low[entered] = np.uint32(met)
                cursor[entered] = offsets[entered]
                path[depth] = np.uint32(entered)
                depth += 1
                stack[height] = np.uint32(entered)
                height += 1
                entered = np.int64(-1)
            x = np.int64(path[depth - 1])
            e = np.int64(cursor[x])
            y = NO_NODE
            more = True
            if e < LINKED:
                if e < np.int64(offsets[x + 1]):
                    y = np.int64(targets[e])
                    cursor[x] = np.uint64(e + 1)
                else:
                    cursor[x] = np.uint64(LINKED + np.int64(heads[x]))
            elif e - LINKED != NO_NODE:
                y = np.int64(link_targets[e - LINKED])
                cursor[x] = np.uint64(LINKED + np.int64(links[e - LINKED]))
            else:
                more = False
            if more:
                if y != NO_NODE and marked[y] == 1:
                    if number[y] == np.uint32(0):
                        entered = y
                    elif number[y] < low[x]:
                        low[x] = number[y]
            else:
                depth -= 1
                if low[x] == number[x]:
                    before = closed
                    closed = close(x, height, stack, members, closed)
                    height -= closed - before
                    for m in range(before, closed):
                        marked[members[m]] = 2
                    component_ends[components] = np.uint32(closed)
                    components += 1
                elif low[x] < low[path[depth - 1]]:
                    low[path[depth - 1]] = low[x]
    return components


@kernel("i8(u8*, u4*, u4*, u4*, u4*, u4*, i8, u1*, u4*)")
def mark_reached(offsets, targets, heads, links, link_targets, seeds, count, marked, queue):
    """Mark with 1 every node that a seed leads to, the seeds included, and list them in `queue`; how many."""
    end = 0
    for s in range(count):
        x = np.int64(seeds[s])
        if marked[x] == 0:
            marked[x] = 1
            queue[end] = np.uint32(x)
            end += 1
    begin = 0
    while begin < end:
        x = np.int64(queue[begin])
        begin += 1
        for e in range(np.int64(offsets[x]), np.int64(offsets[x + 1])):
            y = np.int64(targets[e])
            if y != NO_NODE and marked[y] == 0:
                marked[y] = 1
                queue[end] = np.uint32(y)
                end += 1
        link = np.int64(heads[x])
        while link != NO_NODE:
            y = np.int64(link_targets[link])
            if y != NO_NODE and marked[y] == 0:
                marked[y] = 1
                queue[end] = np.uint32(y)
                end += 1
            link = np.int64(links[link])
    return end


@device
def sort_descending(values, rank, first, last):
    """Shell's sort by the rank of the values, greatest first."""
    gap = 1
    while gap < last - first:
        gap = 3 * gap + 1
    while gap > 0:
        for i in range(first + gap, last):
            value = values[i]
            place = i
            while place - gap >= first and rank[values[place - gap]] < rank[value]:
                values[place] = values[place - gap]
                place -= gap
            values[place] = value
        gap //= 3


@kernel("i8(u8*, u4*, u4*, u4*, u4*, u4*, u4*, i8, u4*, u4*, u1*, i8, u8*, u4*, u1*)")
def list_children(
    offsets,
    targets,
    heads,
    links,
    link_targets,
    members,
    component_ends,
    count,
    component,
    rank,
    marked,
    new_from,
    child_offsets,
    children,
    cyclic,
):
    """For each of `count` components the components that its edges lead to, those of highest `rank` first.

    Left out are edges within a component, which make it cyclic, and edges that are neither to a marked
    node nor among the links from `new_from` on.
    """
    written = 0
    begin = 0
    child_offsets[0] = np.uint64(0)
    for k in range(count):
        first = written
        end = np.int64(component_ends[k])
        own = component[members[begin]]
        if end - begin > 1:
            cyclic[own] = 1
        for m in range(begin, end):
            x = np.int64(members[m])
            for e in range(np.int64(offsets[x]), np.int64(offsets[x + 1])):
                y = np.int64(targets[e])
                if y != NO_NODE:
                    if component[y] == own:
                        cyclic[own] = 1
                    elif marked[y]:
                        children[written] = component[y]
                        written += 1
            link = np.int64(heads[x])
            while link != NO_NODE:
                y = np.int64(link_targets[link])
                if y != NO_NODE:
                    if component[y] == own:
                        cyclic[own] = 1
                    elif marked[y] or link >= new_from:
                        children[written] = component[y]
                        written += 1
                link = np.int64(links[link])
        sort_descending(children, rank, first, written)
        begin = end
        child_offsets[k + 1] = np.uint64(written)
    return written


@kernel("i8(i8, u8*, u4*, u4*, u4*, u4*, u4*, u4*)")
def choose_parents(count, child_offsets, children, level, parent, first_child, last_child, sibling):
    """A tree cover: each component below its predecessor of highest level, the one with most above it.

    Components are numbered such that edges lead to lower numbers; `level` comes filled with 0, the others
    with NONE. A component's level is the longest way to it.
    """
    for c in range(count - 1, -1, -1):
        for e in range(np.int64(child_offsets[c]), np.int64(child_offsets[c + 1])):
            child = np.int64(children[e])
            if level[c] >= level[child]:
                level[child] = level[c] + np.uint32(1)
                parent[child] = np.uint32(c)
    for c in range(count):
        above = np.int64(parent[c])
        if above != NO_NODE:
            if np.int64(first_child[above]) == NO_NODE:
                first_child[above] = np.uint32(c)
            else:
                sibling[last_child[above]] = np.uint32(c)
            last_child[above] = np.uint32(c)
    return 0


@kernel("i8(i8, u4*, u4*, u4*, u8*, u4*, u4*, i8, u4*, u4*, u4*)")
def number_positions(
    count,
    parent,
    first_child,
    sibling,
    child_offsets,
    members,
    component_ends,
    gaps,
    positions,
    nodes,
    spare,
):
    """Number nodes in post-order of the tree cover, a component's nodes one after another.

    Writes each node's position and the node at each position. With `gaps`, one position stays free before the
    nodes of a component that leads to others: the spare of its first node. Returns how many positions there
    are.
    """
    position = 0
    for r in range(count - 1, -1, -1):
        if np.int64(parent[r]) != NO_NODE:
            continue
        c = np.int64(r)
        descending = True
        while c != NO_NODE:
            if descending:
                while np.int64(first_child[c]) != NO_NODE:
                    c = np.int64(first_child[c])
            begin = np.int64(component_ends[c - 1]) if c > 0 else np.int64(0)
            if gaps and child_offsets[c] != child_offsets[c + 1]:
                spare[members[begin]] = np.uint32(position)
                position += 1
            for m in range(begin, np.int64(component_ends[c])):
                x = members[m]
                positions[x] = np.uint32(position)
                nodes[position] = x
                position += 1
            descending = np.int64(sibling[c]) != NO_NODE
            c = np.int64(sibling[c]) if descending else np.int64(parent[c])
    return position


@kernel("i8(u4*, u4*, i8, u1*, u4*, u4*, u8*, u4*)")
def list_own(members, component_ends, count, cyclic, positions, spare, own_offsets, own):
    """For each component the spare positions of its nodes, and, if it is cyclic, the nodes' own."""
    written = 0
    begin = 0
    own_offsets[0] = np.uint64(0)
    for k in range(count):
        end = np.int64(component_ends[k])
        for m in range(begin, end):
            x = np.int64(members[m])
            if np.int64(spare[x]) != NO_NODE:
                own[written] = spare[x]
                written += 1
            if cyclic[k]:
                own[written] = positions[x]
                written += 1
        begin = end
        own_offsets[k + 1] = np.uint64(written)
    return written


@kernel("i8(u4*, u4*, i8, u8*)")
def count_edges(sources, targets, count, offsets):
    """Count the edges of each node at ``offsets[x + 1]``, which comes with 0; removed ones do not count."""
    for e in range(count):
        if np.int64(targets[e]) != NO_NODE:
            offsets[np.int64(sources[e]) + 1] += np.uint64(1)
    return 0


@kernel("i8(u4*, u4*, i8, u8*, u4*)")
def place_edges(sources, targets, count, cursor, placed):
    """Put each target at its source's next place."""
    for e in range(count):
        if np.int64(targets[e]) != NO_NODE:
            x = sources[e]
            placed[cursor[x]] = targets[e]
            cursor[x] += np.uint64(1)
    return 0


@kernel("i8(u4*, u4*, i8, i8, u4*, u4*)")
def link_edges(sources, targets, begin, end, heads, links):
    """Put the edges [begin, end) of the links at the beginning of their sources' lists."""
    for e in range(begin, end):
        x = sources[e]
        links[e] = heads[x]
        heads[x] = np.uint32(e)
    return 0


@kernel("i8(u8*, u4*, u4*, u4*, u4*, u4*, u4*, i8, u1*)")
def remove_edges(offsets, targets, heads, links, link_targets, sources, removed, count, found):
    """Make NONE of all edges from each of `sources` to the node beside it in `removed`; were there any?"""
    for k in range(count):
        x = np.int64(sources[k])
        found[k] = 0
        for e in range(np.int64(offsets[x]), np.int64(offsets[x + 1])):
            if targets[e] == removed[k]:
                targets[e] = np.uint32(NONE)
                found[k] = 1
        link = np.int64(heads[x])
        while link != NO_NODE:
            if link_targets[link] == removed[k]:
                link_targets[link] = np.uint32(NONE)
                found[k] = 1
            link = np.int64(links[link])
    return 0


@kernel("i8(i8, u8*, u4*, u4*)")
def find_heights(count, child_offsets, children, heights):
    """The longest way down from each component, where edges lead to lower numbers; returns the greatest."""
    greatest = 0
    for c in range(count):
        height = np.uint32(0)
        for e in range(np.int64(child_offsets[c]), np.int64(child_offsets[c + 1])):
            height = max(height, np.uint32(heights[children[e]] + np.uint32(1)))
        heights[c] = height
        greatest = max(greatest, np.int64(height))
    return greatest


@kernel("i8(u4*, i8, u8*, u4*)")
def order_by_key(keys, count, cursor, order):
    """Sort 0, 1, ... by their keys; `cursor` has the first place for each key."""
    for k in range(count):
        key = keys[k]
        order[cursor[key]] = np.uint32(k)
        cursor[key] += np.uint64(1)
    return 0


@kernel("i8(u4*, i8, u8*, u4*, u8*, u4*)")
def gather_lists(order, count, offsets, values, gathered_offsets, gathered):
    """The lists of ``order[0]``, ``order[1]``, ... one after another."""
    written = 0
    gathered_offsets[0] = np.uint64(0)
    for k in range(count):
        x = np.int64(order[k])
        for e in range(np.int64(offsets[x]), np.int64(offsets[x + 1])):
            gathered[written] = values[e]
            written += 1
        gathered_offsets[k + 1] = np.uint64(written)
    return written


@kernel("i8(u8*, u4*, u4*, i8, u4*, u4*, i8, u4*)")
def sample_reach(offsets, targets, seeds, count, stamps, queue, steps, reached):
    """How many nodes each seed reaches by one edge or more, until `steps` edges have been followed.

    `stamps` comes with 0; `queue` has room for all nodes and the seed once more. Returns how many seeds were
    finished; the next one has what it had reached by then.
    """
    for s in range(count):
        stamp = np.uint32(s + 1)
        begin = 0
        end = 1
        queue[0] = seeds[s]
        while begin < end:
            x = np.int64(queue[begin])
            begin += 1
            steps -= np.int64(offsets[x + 1]) - np.int64(offsets[x])
            for e in range(np.int64(offsets[x]), np.int64(offsets[x + 1])):
                y = np.int64(targets[e])
                if stamps[y] != stamp:
                    stamps[y] = stamp
                    queue[end] = np.uint32(y)
                    end += 1
            if steps < 0:
                reached[s] = np.uint32(end - 1)
                return s
        reached[s] = np.uint32(end - 1)
    return count
