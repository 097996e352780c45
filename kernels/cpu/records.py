"""The text of nested records as nodes: one pass over the bytes, directed by type tables, no recursion.

Also the quotes that symbols inside records need so that this pass finds them again.
"""

from __future__ import annotations

import numpy as np

from gpuengine.kernels.cpu.jit import device, kernel
from gpuengine.kernels.cpu.text import is_space

NIL = 0  # the node that stands for nil
SYMBOL = 3  # field kinds: 0 to 2 are numeric tokens, this is a symbol, NESTED + s is a value of space s
NESTED = 4
NO_BRANCH = 1  # error codes; others are the character that was expected
NO_TOKEN = 2
NO_END = 3

_QUOTE = 34
_BACKSLASH = 92
_COMMA = 44
_TAB, _NEWLINE, _RETURN = 9, 10, 13


@device
def escape_letter(byte):
    """What stands behind the backslash for a byte that a quoted symbol can't hold; 0 if it can."""
    if byte in (_QUOTE, _BACKSLASH):
        return byte
    if byte == _TAB:
        return np.uint8(116)
    if byte == _NEWLINE:
        return np.uint8(110)
    if byte == _RETURN:
        return np.uint8(114)
    return np.uint8(0)


@device
def escaped_byte(letter):
    """What a letter behind a backslash stands for; most stand for themselves."""
    if letter == 116:
        return np.uint8(_TAB)
    if letter == 110:
        return np.uint8(_NEWLINE)
    if letter == 114:
        return np.uint8(_RETURN)
    return letter


@device
def ends_symbol(byte):
    """Would a bare symbol that holds the byte end there, or be split from its row?"""
    return byte in (_COMMA, _QUOTE, 40, 41, 91, 93, _TAB, _NEWLINE, _RETURN)


@kernel("i8(i8*, i8*, u1*, i8, i8*)")
def quoted_lengths(starts, ends, data, n, lengths):
    """lengths[i]: the bytes of symbol i as it stands in a record; returns how many stand in quotes.

    Bare are those that `parse_records` reads as themselves: no comma, bracket, quote or line break inside, no
    white space at either end.
    """
    quoted = np.int64(0)
    for i in range(n):
        start, end = starts[i], ends[i]
        bare = start == end or not (is_space(data[start]) or is_space(data[end - 1]))
        escapes = np.int64(0)
        for at in range(start, end):
            if escape_letter(data[at]) != 0:
                escapes += 1
            if ends_symbol(data[at]):
                bare = False
        lengths[i] = end - start if bare else end - start + escapes + 2
        quoted += np.int64(0) if bare else np.int64(1)
    return quoted


@kernel("i8(i8*, i8*, u1*, i8, i8*, u1*)")
def quote_rows(starts, ends, data, n, offsets, out):
    """Write symbol i to out[offsets[i]:offsets[i + 1]]: bare if as many bytes are there, else in quotes."""
    for i in range(n):
        start, end, to = starts[i], ends[i], offsets[i]
        bare = offsets[i + 1] - to == end - start
        if not bare:
            out[to] = _QUOTE
            to += 1
        for at in range(start, end):
            letter = escape_letter(data[at])
            if letter != 0 and not bare:
                out[to] = _BACKSLASH
                to += 1
                out[to] = letter
            else:
                out[to] = data[at]
            to += 1
        if not bare:
            out[to] = _QUOTE
    return np.int64(0)


@device
def skip_space(data, at, end):
    """The first place from `at` that holds no white space."""
    while at < end and is_space(data[at]):
        at += 1
    return at


@device
def is_name(byte):
    """May the byte stand in the name of a branch?"""
    return (
        (byte >= 97 and byte <= 122)
        or (byte >= 65 and byte <= 90)
        or (byte >= 48 and byte <= 57)
        or byte == 95
        or byte == 63
        or byte == 46
    )


@device
def find_branch(data, start, end, names, name_offsets, first, last):
    """Which of the branches [first, last) has the name data[start:end]? -1 if none."""
    for branch in range(first, last):
        known = name_offsets[branch]
        length = name_offsets[branch + 1] - known
        if length == end - start:
            j = np.int64(0)
            while j < length and names[known + j] == data[start + j]:
                j += 1
            if j == length:
                return branch
    return np.int64(-1)


@kernel("i8(i8*, i8*, u1*, u1*, i8, i8, i8, i8*, i8*, i8*, i8*, i8*, u1*, i8*, i8, i8*, i8, i8*, i8*, i8*)")
def parse_records(
    starts,
    ends,
    data,
    resolved,
    begin,
    n,
    root,
    space_branch,
    branch_close,
    branch_field,
    field_kind,
    name_offsets,
    names,
    nodes,
    node_limit,
    children,
    child_limit,
    stack,
    roots,
    state,
):
    """Parse rows from `begin` on; returns `n`, or the row where it stopped.

    Types: space s has the branches [space_branch[s], space_branch[s + 1]); branch b has the fields
    [branch_field[b], branch_field[b + 1]), closes with the character branch_close[b] and is a record's if
    that is ``]``. Node k is nodes[4 k:] = branch, first child, height, row; it comes after its children. A
    child is children[2 c:] = node, or the bytes [start, end) of a token. `stack` has four words for each byte
    of the longest row. roots[i] is row i's node. `resolved` is `data`, or a copy of it if it has a backslash:
    escapes in quoted symbols (`escaped_byte`) are resolved there, so tokens are to be read from it.

    state = (nodes, children, error, place). It stopped for want of room if error is 0, else for what should
    stand at `place`.
    """
    node_count, child_count = state[0], state[1]
    for row in range(begin, n):
        at, end = starts[row], ends[row]
        kept_nodes, kept_children = node_count, child_count
        depth = np.int64(0)
        error = np.int64(0)
        full = False
        space = root
        while True:
            # A value of `space` begins here.
            at = skip_space(data, at, end)
            done = np.int64(-1)  # the node just completed
            branch = space_branch[space]
            opening = 91
            if branch_close[branch] == 93:
                if at + 3 <= end and data[at] == 110 and data[at + 1] == 105 and data[at + 2] == 108:
                    done = np.int64(NIL)
                    at += 3
            else:
                opening = 40
                if at >= end or data[at] != 36:
                    error = np.int64(36)
                    break
                at = skip_space(data, at + 1, end)
                stop = at
                while stop < end and is_name(data[stop]):
                    stop += 1
                branch = find_branch(
                    data, at, stop, names, name_offsets, space_branch[space], space_branch[space + 1]
                )
                if branch < 0:
                    error = np.int64(NO_BRANCH)
                    break
                at = stop
            if done < 0:
                size = branch_field[branch + 1] - branch_field[branch]
                if opening == 91 or size > 0:
                    at = skip_space(data, at, end)
                    if at >= end or data[at] != opening:
                        error = np.int64(opening)
                        break
                    at += 1
                if child_count + size > child_limit:
                    full = True
                    break
                stack[4 * depth] = branch
                stack[4 * depth + 1] = child_count
                stack[4 * depth + 2] = 0
                stack[4 * depth + 3] = 0
                child_count += size
                depth += 1
            # Complete what can be completed, until another value begins.
            space = np.int64(-1)
            while space < 0:
                top = 4 * (depth - 1)
                if done >= 0:
                    if depth == 0:
                        break
                    children[2 * (stack[top + 1] + stack[top + 2])] = done
                    stack[top + 3] = max(stack[top + 3], nodes[4 * done + 2])
                    stack[top + 2] += 1
                    done = np.int64(-1)
                branch = stack[top]
                filled = stack[top + 2]
                closing = branch_close[branch]
                if filled == branch_field[branch + 1] - branch_field[branch]:
                    if closing == 93 or filled > 0:
                        at = skip_space(data, at, end)
                        if at >= end or data[at] != closing:
                            error = closing
                            break
                        at += 1
                    if node_count == node_limit:
                        full = True
                        break
                    nodes[4 * node_count] = branch
                    nodes[4 * node_count + 1] = stack[top + 1]
                    nodes[4 * node_count + 2] = stack[top + 3] + 1
                    nodes[4 * node_count + 3] = row
                    done = node_count
                    node_count += 1
                    depth -= 1
                    continue
                if filled > 0:
                    at = skip_space(data, at, end)
                    if at >= end or data[at] != _COMMA:
                        error = np.int64(_COMMA)
                        break
                    at += 1
                at = skip_space(data, at, end)
                kind = field_kind[branch_field[branch] + filled]
                if kind >= NESTED:
                    space = kind - NESTED
                    continue
                start = at
                if kind == SYMBOL and at < end and data[at] == _QUOTE:
                    start = at + 1
                    at = start
                    stop = start
                    while at < end and data[at] != _QUOTE:
                        byte = data[at]
                        if byte == _BACKSLASH and at + 1 < end:
                            at += 1
                            byte = escaped_byte(data[at])
                        if stop != at:
                            resolved[stop] = byte
                        stop += 1
                        at += 1
                    if at >= end:
                        error = np.int64(_QUOTE)
                        break
                    at += 1
                else:
                    while at < end and data[at] != _COMMA and data[at] != closing:
                        if kind != SYMBOL and is_space(data[at]):
                            break
                        at += 1
                    stop = at
                    if at >= end:
                        error = closing
                        break
                    if kind != SYMBOL and stop == start:
                        error = np.int64(NO_TOKEN)
                        break
                child = 2 * (stack[top + 1] + filled)
                children[child] = start
                children[child + 1] = stop
                stack[top + 2] = filled + 1
            if error != 0 or full or depth == 0:
                break
        if error == 0 and not full:
            at = skip_space(data, at, end)
            if at != end:
                error = np.int64(NO_END)
        if error != 0 or full:
            state[0], state[1], state[2], state[3] = kept_nodes, kept_children, error, at
            return row
        roots[row] = done
    state[0], state[1] = node_count, child_count
    return n
