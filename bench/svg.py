"""Plots as SVG text: horizontal bars and lines, both on logarithmic axes. Colours come from CSS classes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape

_LEFT, _RIGHT, _WIDTH = 190, 90, 860
_BAR, _GAP = 14, 14
Points = Sequence[tuple[float, float]]


def decades(low: float, high: float) -> list[float]:
    """Powers of ten that enclose the values (at least one decade)."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    return [10.0**e for e in range(first, max(last, first + 1) + 1)]


def plain(value: float) -> str:
    """A number as people write it on an axis."""
    if value >= 1_000_000:
        return f"{value / 1_000_000:g} M"
    return f"{value / 1000:g} k" if value >= 1000 else f"{value:g}"


def bars(
    groups: Mapping[str, Mapping[str, float]],
    classes: Mapping[str, str],
    unit: str,
    mark: float | None = None,
) -> str:
    """One group of bars for each workload; `mark` draws a vertical line at that value."""
    values = [v for group in groups.values() for v in group.values() if v > 0]
    if not values:
        return ""
    ticks = decades(min([*values, mark] if mark else values), max([*values, mark] if mark else values))
    span = _WIDTH - _LEFT - _RIGHT
    lowest, highest = math.log10(ticks[0]), math.log10(ticks[-1])

    def x(value: float) -> float:
        return _LEFT + span * (math.log10(value) - lowest) / (highest - lowest)

    parts: list[str] = []
    y = 26.0
    for label, group in groups.items():
        parts.append(f'<text x="{_LEFT - 8}" y="{y + 11}" text-anchor="end">{escape(label)}</text>')
        for name, value in group.items():
            if value <= 0:
                continue
            text = f"{name}: {value:.3g} {unit}"
            parts.append(
                f'<rect class="{classes.get(name, "s9")}" x="{_LEFT}" y="{y:.1f}" '
                f'width="{max(x(value) - _LEFT, 1):.1f}" height="{_BAR - 2}" rx="2">'
                f"<title>{escape(label)}, {escape(text)}</title></rect>"
                f'<text class="value" x="{max(x(value), _LEFT + 1) + 4:.1f}" y="{y + 10:.1f}">'
                f"{value:.3g}</text>"
            )
            y += _BAR
        y += _GAP
    axis = "".join(
        f'<line class="grid" x1="{x(t):.1f}" x2="{x(t):.1f}" y1="20" y2="{y - 8:.1f}"/>'
        f'<text x="{x(t):.1f}" y="14" text-anchor="middle">{plain(t)} {unit}</text>'
        for t in ticks
    )
    if mark is not None:
        axis += f'<line class="mark" x1="{x(mark):.1f}" x2="{x(mark):.1f}" y1="20" y2="{y - 8:.1f}"/>'
    return f'<svg viewBox="0 0 {_WIDTH} {y:.0f}" role="img">{axis}{"".join(parts)}</svg>'


def lines(
    series: Mapping[str, Points], classes: Mapping[str, str], x_label: str, y_label: str, reference: bool
) -> str:
    """Points joined by lines; `reference` adds a dashed line of slope one through the first point."""
    points = [p for s in series.values() for p in s if p[0] > 0 and p[1] > 0]
    if not points:
        return ""
    height, bottom, left = 320, 44, 70
    xs, ys = (
        decades(min(p[0] for p in points), max(p[0] for p in points)),
        decades(min(p[1] for p in points), max(p[1] for p in points)),
    )

    def place(p: tuple[float, float]) -> tuple[float, float]:
        across = math.log10(p[0] / xs[0]) / math.log10(xs[-1] / xs[0])
        up = math.log10(p[1] / ys[0]) / math.log10(ys[-1] / ys[0])
        return left + across * (_WIDTH - left - 20), (height - bottom) - up * (height - bottom - 16)

    parts = [_grid_x(place((t, ys[0]))[0], plain(t), height - bottom) for t in xs]
    parts += [_grid_y(place((xs[0], t))[1], plain(t), left) for t in ys]
    for name, data in series.items():
        style = classes.get(name, "s9")
        placed = [place(p) for p in data if p[0] > 0 and p[1] > 0]
        path = " ".join(f"{a:.1f},{b:.1f}" for a, b in placed)
        parts.append(f'<polyline class="line {style}" points="{path}"/>')
        parts += [
            f'<circle class="{style}" cx="{a:.1f}" cy="{b:.1f}" r="4"><title>{escape(name)}: '
            f"{plain(p[0])} facts, {p[1]:.3g} s</title></circle>"
            for (a, b), p in zip(placed, data, strict=False)
        ]
        if reference and len(data) > 1:
            end = (data[-1][0], data[0][1] * data[-1][0] / data[0][0])
            (x1, y1), (x2, y2) = place(data[0]), place(end)
            parts.append(
                f'<line class="mark" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}">'
                "<title>as much longer as the output is larger</title></line>"
            )
            reference = False
    parts.append(f'<text x="{_WIDTH / 2}" y="{height - 6}" text-anchor="middle">{escape(x_label)}</text>')
    parts.append(
        f'<text transform="translate(14 {height / 2}) rotate(-90)" text-anchor="middle">'
        f"{escape(y_label)}</text>"
    )
    return f'<svg viewBox="0 0 {_WIDTH} {height}" role="img">{"".join(parts)}</svg>'


def _grid_x(x: float, label: str, bottom: float) -> str:
    return (
        f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="8" y2="{bottom}"/>'
        f'<text x="{x:.1f}" y="{bottom + 16}" text-anchor="middle">{label}</text>'
    )


def _grid_y(y: float, label: str, left: float) -> str:
    return (
        f'<line class="grid" x1="{left}" x2="{_WIDTH - 20}" y1="{y:.1f}" y2="{y:.1f}"/>'
        f'<text x="{left - 8}" y="{y + 4:.1f}" text-anchor="end">{label}</text>'
    )
