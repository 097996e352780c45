"""A proof as a drawing: steps in rows by how deep they are, goals on top, lines to what they rest on."""

from __future__ import annotations

from gpuengine.explaining.proof import FactPremise, Proof, Step
from gpuengine.explaining.text import told_derivation, told_premise
from gpuengine.planning.svg_text import CHARACTER, LINE, PADDING, safe, shortened, text

_MARGIN = 20
_GAP = 18
_BETWEEN = 44
_MOST = 56
_STYLE = """
text { font: 12px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; fill: #1f2933; }
.title { font-weight: bold; } .note { fill: #5b6775; } .box { fill: #f8fafc; stroke: #9aa8b7; }
.stated { fill: #eef7ee; stroke: #6fa76f; } .goal { fill: #fff8ea; stroke: #c79a3a; }
.line { fill: none; stroke: #7b8a9a; stroke-width: 1.2; }
@media (prefers-color-scheme: dark) {
  svg { background: #14181d; } text { fill: #dfe6ee; } .note { fill: #9fb0c0; }
  .box { fill: #1d242c; stroke: #52606d; } .stated { fill: #1c2b1f; stroke: #4d7d52; }
  .goal { fill: #2d2615; stroke: #a07c2c; } .line { stroke: #66788a; }
}
"""


def draw(proof: Proof, depth: int | None = None) -> str:
    """An SVG document."""
    levels = proof.within(depth)
    rows: dict[int, list[int]] = {}
    for number in levels:
        rows.setdefault(proof.steps[number].height, []).append(number)
    boxes: dict[int, tuple[float, float, float, float]] = {}
    parts: list[str] = []
    top = float(_MARGIN)
    widest = 0.0
    for height in sorted(rows, reverse=True):
        left, tallest = float(_MARGIN), 0.0
        for number in rows[height]:
            lines = _lines(proof.steps[number])
            width = max(len(shortened(line, _MOST)) for line in lines) * CHARACTER + 2 * PADDING
            tall = float(len(lines) * LINE + 2 * PADDING - 4)
            boxes[number] = left, top, width, tall
            parts.append(_box(proof, number, lines, boxes[number]))
            left += width + _GAP
            tallest = max(tallest, tall)
        widest = max(widest, left)
        top += tallest + _BETWEEN
    lines_drawn = []
    for number, (start, above, width, tall) in boxes.items():
        for step in dict.fromkeys(proof.steps[number].derivation.steps):
            if step in boxes:
                to_left, to_top, to_width, _ = boxes[step]
                x, y = start + width / 2, above + tall
                to_x = to_left + to_width / 2
                lines_drawn.append(
                    f'<path class="line" d="M{x:.1f},{y:.1f} C{x:.1f},{y + 24:.1f} '
                    f'{to_x:.1f},{to_top - 24:.1f} {to_x:.1f},{to_top:.1f}"/>'
                )
    title = f"<title>{safe('proof of ' + proof.query)}</title>"
    if not proof.holds:
        parts.append(text(_MARGIN, _MARGIN + LINE, f"{proof.query} does not hold", "title"))
        widest, top = 400.0, float(_MARGIN + 3 * LINE)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{widest + _MARGIN:.0f}" height="{top:.0f}">'
        f"{title}<style>{_STYLE}</style>{''.join(lines_drawn)}{''.join(parts)}</svg>\n"
    )


def _lines(step: Step) -> list[str]:
    others = [told_premise(one) for one in step.derivation.premises if not isinstance(one, FactPremise)]
    return [step.fact.text, told_derivation(step.derivation), *others]


def _box(proof: Proof, number: int, lines: list[str], place: tuple[float, float, float, float]) -> str:
    left, top, width, tall = place
    is_stated = proof.steps[number].derivation.kind == "stated"
    style = "goal" if number in proof.goals else "stated" if is_stated else ""
    shown = [
        f'<rect class="box {style}" x="{left:.1f}" y="{top:.1f}" width="{width:.1f}" '
        f'height="{tall:.1f}" rx="5"/>'
    ]
    for at, line in enumerate(lines):
        y = top + PADDING + at * LINE + LINE / 2
        shown.append(text(left + PADDING, y, line, "title" if at == 0 else "note", _MOST))
    return "".join(shown)
