"""A plan as a drawing: facts on top, a box for each stratum below, arrows to it from what it reads.

All boxes stand in one column and the arrows run in lanes to its left, so that no arrow crosses a box
however large the program is. The hypertrees of rules follow, one below the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from gpuengine.planning.evaluator_views import HypertreeView
from gpuengine.planning.explain import measured_bindings, place, rounded, spent
from gpuengine.planning.explanation import Explanation, RelationView, StratumView
from gpuengine.planning.hypertree_svg import STYLE as HYPERTREE_STYLE
from gpuengine.planning.hypertree_svg import Drawing
from gpuengine.planning.step_views import StepView, VariantView
from gpuengine.planning.svg_text import CHARACTER, LINE, PADDING, safe, shortened, text, wrapped

_GAP = 26
_LANE = 11
_MARGIN = 24

_STYLE = """
text { font: 12px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; fill: #1f2933; }
.title { font-weight: bold; } .note { fill: #6b7785; } .rule { fill: #123e6b; }
.box { fill: #f8fafc; stroke: #9aa8b7; } .facts { fill: #eef7ee; }
.recursive { fill: #fff8ea; stroke: #c79a3a; }
.reads { stroke: #5b7288; } .negates { stroke: #b3382c; stroke-dasharray: 5 3; }
.aggregates { stroke: #7a3fa0; stroke-dasharray: 2 3; }
.arrow { fill: none; stroke-width: 1.3; } .arrow:hover { stroke-width: 3; }
"""


@dataclass(slots=True)
class _Line:
    text: str
    style: str = ""
    indent: int = 0
    relations: tuple[str, ...] = ()


@dataclass(slots=True)
class _Box:
    """A titled list of lines; `top` is set by the layout, the height follows from the lines."""

    style: str
    lines: list[_Line]
    reads: list[tuple[str, str]] = field(default_factory=list)
    top: float = 0.0

    @property
    def height(self) -> float:
        return len(self.lines) * LINE + 2 * PADDING - 4

    @property
    def width(self) -> float:
        return (
            max(len(shortened(line.text)) + 2 * line.indent for line in self.lines) * CHARACTER + 2 * PADDING
        )

    def middle(self, number: int) -> float:
        """The height at which line `number` is written."""
        return self.top + PADDING + number * LINE + LINE / 2 - 2


@dataclass(frozen=True, slots=True)
class _Arrow:
    relation: str
    how: str
    start: float
    end: float


def draw(explanation: Explanation) -> str:
    """An SVG document."""
    stored = {relation.name: relation for relation in explanation.relations}
    boxes = [_facts_box(explanation)]
    boxes += [_stratum_box(stratum, explanation.program, stored) for stratum in explanation.strata]
    if explanation.dropped:
        boxes.append(_dropped_box(explanation))
    top = float(_MARGIN + 2 * LINE)
    for box in boxes:
        box.top = top
        top += box.height + _GAP
    arrows = list(_arrows(boxes))
    lanes = _lanes(arrows)
    left = _MARGIN + _LANE * (max(lanes, default=0) + 2)
    width = max(box.width for box in boxes)
    trees = [
        Drawing(rule, rule.hypertree)
        for stratum in explanation.strata
        for rule in stratum.rules
        if rule.hypertree is not None and rule.hypertree.nodes
    ]
    total_width = max(left + width + _MARGIN, 560, *(2 * _MARGIN + tree.width for tree in trees))
    total_height = top + sum(tree.height + _GAP for tree in trees) + (3 if trees else 2) * LINE
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{total_width:.0f}" height="{total_height:.0f}" '
        f'viewBox="0 0 {total_width:.0f} {total_height:.0f}" role="img">',
        f"<title>{safe(f'Plan of {explanation.program}')}</title><style>{_STYLE}{HYPERTREE_STYLE}</style>",
        _markers(),
        '<rect width="100%" height="100%" fill="white"/>',
        text(_MARGIN, _MARGIN + 4, f"Plan of {explanation.program}", "title"),
        text(_MARGIN, _MARGIN + 4 + LINE, _sizes(explanation), "note"),
    ]
    for box in boxes:
        parts += _draw_box(box, left, width)
    parts += [_draw_arrow(arrow, lane, left) for arrow, lane in zip(arrows, lanes, strict=True)]
    for tree in trees:
        parts += tree.draw(_MARGIN, top)
        top += tree.height + _GAP
    parts += _legend(top + 4)
    if trees:
        meaning = "χ: the variables of a node, bold if it keeps them; λ: its atoms"
        parts.append(text(_MARGIN, top + 8 + LINE, meaning, "note"))
    return "\n".join([*parts, "</svg>\n"])


def _sizes(explanation: Explanation) -> str:
    sizes = {"loaded": "sizes of inputs as loaded", "measured": "as it was evaluated"}
    return sizes.get(explanation.statistics, "sizes of inputs are assumed") + "; [~bindings expected]"


def _facts_box(explanation: Explanation) -> _Box:
    lines = [_Line("Facts", "title")]
    lines += [
        _Line(_fact_line(relation), "", 1, (relation.name,))
        for relation in explanation.relations
        if relation.origin != "derived"
    ]
    return _Box("box facts", lines if len(lines) > 1 else [*lines, _Line("none", "note", 1)])


def _fact_line(relation: RelationView) -> str:
    assumed = "" if relation.known else " (assumed)"
    return (
        f"{relation.name}({', '.join(relation.columns)})  {relation.origin}, {relation.facts:,.0f}{assumed}"
    )


def _stratum_box(stratum: StratumView, program: str, stored: Mapping[str, RelationView]) -> _Box:
    kind = "recursive, until nothing new" if stratum.recursive else "once"
    title = f"Stratum {stratum.number}: {', '.join(stratum.relations)}  ({kind})"
    first, *rest = wrapped(title)
    lines = [_Line(first, "title", 0, stratum.relations), *(_Line(line, "title") for line in rest)]
    for rule in stratum.rules:
        lines += _wrapped(f"{rule.name}, {place(rule.where, program)}: {rule.text}", "rule", 1)
        if rule.measured is not None:
            lines += _wrapped(spent(rule.measured), "note", 2)
        if rule.implied_by:
            lines += _wrapped(f"the {rule.implied_by} implies it", "note", 2)
        if rule.hypertree is not None:
            lines += _wrapped(f"{_nodes(rule.hypertree)}:  {rule.hypertree.over}", "", 2)
        for variant in rule.variants:
            lines += _wrapped(_order(variant), "", 2)
    if stratum.indexes:
        lines += _wrapped(f"indexes: {'; '.join(stratum.indexes)}", "note", 1)
    for name in stratum.relations:
        lines += _stored(stored[name]) if name in stored else []
    reads = [(read.relation, read.how) for read in stratum.reads if read.relation not in stratum.relations]
    return _Box("box recursive" if stratum.recursive else "box", lines, reads)


def _stored(relation: RelationView) -> list[_Line]:
    """How a relation that rules derive is stored, if that is known or no table."""
    if relation.nbytes is None and relation.scheme == "table":
        return []
    facts = (
        f", {relation.facts:,.0f} facts in {relation.nbytes:,} bytes" if relation.nbytes is not None else ""
    )
    why = f": {relation.why}" if relation.why else ""
    return _wrapped(f"{relation.name} is stored as {relation.scheme}{facts}{why}", "note", 1)


def _wrapped(words: str, style: str, indent: int) -> list[_Line]:
    return [_Line(line, style, indent) for line in wrapped(words)]


def _dropped_box(explanation: Explanation) -> _Box:
    lines = [_Line("Dropped: no output depends on these", "title")]
    for rule in explanation.dropped:
        lines += _wrapped(f"{place(rule.where, explanation.program)}: {rule.text}", "note", 1)
    return _Box("box", lines)


def _nodes(hypertree: HypertreeView) -> str:
    if hypertree.shared_with:
        return f"over the nodes of {hypertree.shared_with}"
    return f"over {len(hypertree.nodes)} nodes, drawn below"


def _order(variant: VariantView) -> str:
    """``Δpath(x, y) → edge(y, z) by x``: the join order in one line."""
    steps = (_step(step, at_most=variant.at_most) for step in variant.steps)
    return "  →  ".join(steps) or "holds without reading anything"


def _step(step: StepView, *, at_most: bool) -> str:
    mark = {"new": "Δ", "old": "old "}.get(step.domain, "")
    by = f" by {','.join(step.columns)}" if step.access in ("probe", "exists") and step.columns else ""
    scan = " (every fact)" if step.access == "scan" else ""
    rivals = "".join(f" | {rival}" for rival in step.rivals)
    there = measured_bindings(step, at_most=at_most)
    there = f", {there} measured" if there else ""
    return f"{mark}{step.literal}{by}{scan}{rivals} [~{rounded(step.estimate)}{there}]"


def _arrows(boxes: list[_Box]) -> Iterator[_Arrow]:
    """From the line that shows a relation to the title of each box that reads it."""
    home = {
        name: box.middle(number)
        for box in boxes
        for number, line in enumerate(box.lines)
        for name in line.relations
    }
    for box in boxes:
        for relation, how in dict.fromkeys(box.reads):
            # What a stratum gives leaves a little below where what it reads arrives.
            yield _Arrow(relation, how, home[relation] + 3, box.middle(0) - 3)


def _lanes(arrows: list[_Arrow]) -> list[int]:
    """A lane for each arrow, short ones nearest to the boxes; arrows in one lane don't overlap."""
    taken: list[list[tuple[float, float]]] = []
    lanes = [0] * len(arrows)
    for number in sorted(range(len(arrows)), key=lambda n: arrows[n].end - arrows[n].start):
        start, end = arrows[number].start, arrows[number].end
        lane = next(
            (k for k, spans in enumerate(taken) if all(end < a or b < start for a, b in spans)), len(taken)
        )
        if lane == len(taken):
            taken.append([])
        taken[lane].append((start, end))
        lanes[number] = lane
    return lanes


def _markers() -> str:
    colours = {"reads": "#5b7288", "negates": "#b3382c", "aggregates": "#7a3fa0"}
    heads = "".join(
        f'<marker id="{how}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
        'orient="auto">'
        f'<path d="M0,0 L8,4 L0,8 z" fill="{colour}"/></marker>'
        for how, colour in colours.items()
    )
    return f"<defs>{heads}</defs>"


def _draw_box(box: _Box, left: float, width: float) -> Iterator[str]:
    yield (
        f'<rect class="{box.style}" x="{left:.1f}" y="{box.top:.1f}" width="{width:.1f}" '
        f'height="{box.height:.1f}" rx="6"/>'
    )
    for number, line in enumerate(box.lines):
        x = left + PADDING + 2 * line.indent * CHARACTER
        yield text(x, box.middle(number) + 4, line.text, line.style)


def _draw_arrow(arrow: _Arrow, lane: int, left: float) -> str:
    x = left - _LANE * (lane + 1.5)
    corner = 5
    start, end = arrow.start, arrow.end
    out = f"M{left:.1f},{start:.1f} H{x + corner:.1f} Q{x:.1f},{start:.1f} {x:.1f},{start + corner:.1f}"
    back = f"V{end - corner:.1f} Q{x:.1f},{end:.1f} {x + corner:.1f},{end:.1f} H{left - 1:.1f}"
    return (
        f'<path class="arrow {arrow.how}" d="{out} {back}" marker-end="url(#{arrow.how})">'
        f"<title>{safe(f'{arrow.how} {arrow.relation}')}</title></path>"
    )


def _legend(y: float) -> Iterator[str]:
    x = float(_MARGIN)
    for how in ("reads", "negates", "aggregates"):
        yield f'<path class="arrow {how}" d="M{x},{y} h34" marker-end="url(#{how})"/>'
        yield text(x + 40, y + 4, how, "note")
        x += 40 + len(how) * CHARACTER + 20
    yield text(x, y + 4, "Δ: the new facts of the last round", "note")
