"""A hypertree as a drawing: a box for each node, its children below, on each edge what both nodes share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpuengine.planning.evaluator_views import HypertreeView, NodeView
from gpuengine.planning.explain import costs, rounded
from gpuengine.planning.explanation import RuleView
from gpuengine.planning.svg_text import CHARACTER, LINE, PADDING, safe, shortened, text

STYLE = """
.node { fill: #f2f0fa; stroke: #8878b8; } .edge { stroke: #8878b8; stroke-width: 1.3; }
.relation { fill: #46358c; font-weight: bold; } .kept { fill: #46358c; font-weight: bold; }
.shared { text-anchor: middle; fill: #46358c; stroke: white; stroke-width: 5px; paint-order: stroke; }
"""

_MOST = 44
"""Characters of a line in a node."""
_BESIDE = 24
_BELOW = 46
_TITLE = 4 * LINE


class _Box:
    """A node with what it says, and where: `x` and `y` are its upper left corner, set by the layout."""

    def __init__(self, node: NodeView) -> None:
        self.node = node
        self.children: list[_Box] = []
        self.variables = _wrapped(node.variables, _MOST - 3)
        self.title = f"{node.number}: {node.atom}"
        self.atoms = (*node.atoms, *node.filters)
        self.rows = f"~{rounded(node.rows)} rows" + (f", made as for {node.same_as}" if node.same_as else "")
        self.x = self.y = 0.0

    @property
    def width(self) -> float:
        lines = [self.title, self.rows, *(f"λ {atom}" for atom in self.atoms)]
        lines += ["χ " + ", ".join(row) for row in self.variables]
        return max(len(shortened(line, _MOST)) for line in lines) * CHARACTER + 2 * PADDING

    @property
    def height(self) -> float:
        return (2 + len(self.variables) + len(self.atoms)) * LINE + 2 * PADDING - 4

    @property
    def label(self) -> str:
        """What is shared with the node above."""
        return shortened(", ".join(self.node.shared) or "no variable", _MOST)

    @property
    def room(self) -> float:
        """The width that the node takes with all that is below it, and what is written above."""
        below = sum(child.room for child in self.children) + _BESIDE * (len(self.children) - 1)
        return max(self.width, below, len(self.label) * CHARACTER if self.node.parent else 0.0)

    @property
    def middle(self) -> float:
        return self.x + self.width / 2


class Drawing:
    """The hypertree of one rule under its title, with its size."""

    def __init__(self, rule: RuleView, hypertree: HypertreeView) -> None:
        self._titles = [
            (f"Hypertree of {rule.name}, width {hypertree.width}: {costs(rule)}", "title"),
            (rule.text, "rule"),
            (f"over the nodes:  {hypertree.over}", "note"),
        ]
        self._boxes = {node.number: _Box(node) for node in hypertree.nodes}
        for box in self._boxes.values():
            if box.node.parent:
                self._boxes[box.node.parent].children.append(box)
        self._root = self._boxes[1]
        self._place([self._root])
        titles = max(len(shortened(words)) for words, _ in self._titles) * CHARACTER
        self.width = max(self._root.room, titles)
        self.height = max(box.y + box.height for box in self._boxes.values())

    def _place(self, level: Sequence[_Box], left: float = 0.0, top: float = _TITLE) -> None:
        """Put the boxes of a level beside each other, and each box above the middle of its children."""
        lefts = {level[0].node.number: left}
        while level:
            following: list[_Box] = []
            for box in level:
                start = lefts[box.node.number]
                box.x, box.y = start + (box.room - box.width) / 2, top
                below = sum(child.room for child in box.children) + _BESIDE * (len(box.children) - 1)
                start += (box.room - below) / 2
                for child in box.children:
                    lefts[child.node.number] = start
                    start += child.room + _BESIDE
                following += box.children
            top += max(box.height for box in level) + _BELOW
            level = following

    def draw(self, left: float, top: float) -> Iterator[str]:
        """The elements, with the upper left corner at some place."""
        yield f'<g transform="translate({left:.1f},{top:.1f})">'
        for number, (words, style) in enumerate(self._titles):
            yield text(0.0, number * LINE + 14.0, words, style)
        for box in self._boxes.values():
            for child in box.children:
                yield (
                    f'<line class="edge" x1="{box.middle:.1f}" y1="{box.y + box.height:.1f}" '
                    f'x2="{child.middle:.1f}" y2="{child.y:.1f}"/>'
                )
        for box in self._boxes.values():
            yield from _draw_box(box)
        yield "</g>"


def _draw_box(box: _Box) -> Iterator[str]:
    node, x, y = box.node, box.x + PADDING, box.y + PADDING + 11.0
    if node.parent:
        whole = ", ".join(node.shared) or "no variable"
        yield text(box.middle, box.y - 12.0, whole, "shared", _MOST)
    yield (
        f'<rect class="node" x="{box.x:.1f}" y="{box.y:.1f}" width="{box.width:.1f}" '
        f'height="{box.height:.1f}" rx="6"/>'
    )
    yield text(x, y, box.title, "relation", _MOST)
    y += LINE
    for number, row in enumerate(box.variables):
        yield _variables(x, y, "  " if number else "χ ", row, node)
        y += LINE
    for number, atom in enumerate(box.atoms):
        yield text(x, y, ("  " if number else "λ ") + atom, "", _MOST)
        y += LINE
    yield text(x, y, box.rows, "note", _MOST)


def _variables(x: float, y: float, mark: str, row: Sequence[str], node: NodeView) -> str:
    """A line of variables, with those that are kept in bold; all are a tooltip."""
    kept = {shortened(name, _MOST - 3) for name in node.kept}
    shown = ", ".join(
        f'<tspan class="kept">{safe(name)}</tspan>' if name in kept else safe(name) for name in row
    )
    whole = f"<title>{safe(', '.join(node.variables))}</title>"
    return f'<text x="{x:.1f}" y="{y:.1f}" xml:space="preserve">{mark}{shown}{whole}</text>'


def _wrapped(names: Sequence[str], most: int) -> list[list[str]]:
    """The names in as many lines as they need; one that is too long for a line is cut."""
    rows: list[list[str]] = [[]]
    for name in (shortened(name, most) for name in names):
        if rows[-1] and len(", ".join([*rows[-1], name])) > most:
            rows.append([])
        rows[-1].append(name)
    return rows
