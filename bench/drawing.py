"""A run as a drawing that stands by itself, for pages that take no HTML: processor seconds of engines."""

from __future__ import annotations

from html import escape

from bench import svg
from bench.page import CLASSES, COLOURS
from bench.results import Report

_HEAD = 44
_STYLE = """
svg { font: 11px system-ui, sans-serif; background: #fff } text { fill: #1c2733 } .value { fill: #66737f }
.grid { stroke: #d9dfe4 }
@media (prefers-color-scheme: dark) {
  svg { background: #14191e } text { fill: #e4e9ee } .value { fill: #94a1ad } .grid { stroke: #323c45 }
}
"""


def draw(report: Report) -> str:
    """The least processor seconds of the warm processes of each engine, by workload, on a logarithmic axis.

    Time on the clock says little where others use the machine too; what a process takes of processors does.
    """
    groups = {
        workload.name: {
            name: min(sample.cpu for sample in outcome.warm)
            for name, outcome in workload.outcomes.items()
            if outcome.status == "ok" and outcome.warm
        }
        for workload in report.workloads
    }
    names = dict.fromkeys(name for group in groups.values() for name in group)
    plot = svg.bars({name: group for name, group in groups.items() if group}, CLASSES, "s")
    if not plot:
        raise ValueError("nothing was measured that could be drawn")
    view, _, rest = plot.removeprefix('<svg viewBox="0 0 ').partition('" role="img">')
    width, height = map(int, view.split())
    colours = "".join(f".s{i} {{ fill: {colour} }}" for i, colour in enumerate(COLOURS))
    machine = report.machine
    about = (
        f"whole processes, processor seconds, least of {report.settings['repeat']}; {machine['processor']}"
    )
    key = "".join(
        f'<rect class="{CLASSES.get(name, "s9")}" x="{190 + 130 * i}" y="26" width="11" height="11" rx="2"/>'
        f'<text x="{206 + 130 * i}" y="36">{escape(name)}</text>'
        for i, name in enumerate(names)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height + _HEAD}" role="img">'
        f'<style>{_STYLE}{colours}</style><text x="190" y="14">{escape(about)}</text>{key}'
        f'<g transform="translate(0 {_HEAD})">{rest.removesuffix("</svg>")}</g></svg>\n'
    )
