"""The report as one self-contained HTML page."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from html import escape

from bench import compare, published, svg
from bench.contenders import OURS, PEERS
from bench.results import Report, WorkloadResult
from bench.table import RUN_HEADERS, run_cells, seconds, times

CLASSES = {OURS: "s0", f"{OURS}, evaluation": "s7"} | {peer.name: f"s{i}" for i, peer in enumerate(PEERS, 1)}

_PUBLISHED_HEADERS = (
    "", "Soufflé compiled -j2, whole", "the same / our evaluation", "datafrog / our evaluation", "",
)  # fmt: skip
COLOURS = (
    "#d9480f", "#1971c2", "#4dabf7", "#2f9e44", "#9c36b5",
    "#868e96", "#495057", "#e8a100", "#0b7285", "#adb5bd",
)  # fmt: skip

_STYLE = """
:root { color-scheme: light dark; --ink: #1c2733; --soft: #66737f; --paper: #fff; --rule: #d9dfe4;
        --bad: #b3261e; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e4e9ee; --soft: #94a1ad; --paper: #14191e; --rule: #323c45; --bad: #ff8a80; }
}
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper);
       max-width: 960px; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; width: 100%; margin: 1rem 0 2rem; font-variant-numeric: tabular-nums; }
th, td { padding: .2rem .6rem; border-bottom: 1px solid var(--rule); text-align: right; vertical-align: top; }
th { font-weight: 600; color: var(--soft); } th:first-child, td:first-child, .left { text-align: left; }
tr.ours { font-weight: 600; } tr.off { color: var(--soft); } .bad { color: var(--bad); font-weight: 600; }
figure { margin: 1rem 0; overflow-x: auto; } svg { width: 100%; min-width: 620px; font-size: 11px; }
svg text { fill: var(--ink); } svg .value { fill: var(--soft); } svg .grid { stroke: var(--rule); }
svg .mark { stroke: var(--bad); stroke-dasharray: 4 3; } svg .line { fill: none !important; stroke-width: 2; }
p.note { color: var(--soft); } .key span { display: inline-block; margin-right: 1rem; }
.key svg { width: 12px; min-width: 12px; height: 12px; margin-right: .3rem; }
""" + "\n".join(f".s{i} {{ fill: {c}; stroke: {c}; }}" for i, c in enumerate(COLOURS))


def table(headers: Sequence[str], rows: Iterable[tuple[str, Sequence[str]]]) -> str:
    """Rows as (CSS class, cells); cells are HTML already escaped."""
    head = "".join(f"<th>{escape(h)}</th>" for h in headers)
    body = "".join(
        f'<tr class="{style}">{"".join(f"<td>{cell}</td>" for cell in cells)}</tr>' for style, cells in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def document(title: str, report: Report, sections: Iterable[str]) -> str:
    """A whole page with the machine it was measured on."""
    machine = report.machine
    packages = ", ".join(f"{k} {v}" for k, v in machine["packages"].items())
    about = (
        f"{machine['time']}; {machine['processor']}, {machine['cores']} cores, "
        f"{machine['memory_bytes'] / 1e9:.0f} GB; {machine['system']}; "
        f"Python {machine['python']}; {packages}; "
        f"load {machine['load_average']:.1f} at the start; {report.settings['threads']} threads, "
        f"{report.settings['repeat']} warm runs each; np.sort of 10 M uint64 {report.unit_seconds:.3f} s."
    )
    warning = f'<p class="bad">{escape(report.busy)}</p>' if report.busy else ""
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style>'
        f"<body><h1>{escape(title)}</h1>"
        f'<p class="note">{escape(about)}</p>{warning}{"".join(sections)}</body></html>\n'
    )


def run_page(report: Report) -> str:
    """The page of ``python -m bench run``."""
    sections = [_problems(report), _targets(report), _plots(report)]
    sections += [_published(report, scale) for scale in compare.scales(report)]
    sections += [_runs(report), _missing(report)]
    return document("gpuengine beside its peers", report, sections)


def legend(names: Iterable[str]) -> str:
    """Colours of the engines."""
    swatch = '<svg viewBox="0 0 12 12"><rect class="{}" width="12" height="12" rx="2"/></svg>'
    keys = "".join(f"<span>{swatch.format(CLASSES.get(n, 's9'))}{escape(n)}</span>" for n in names)
    return f'<p class="key">{keys}</p>'


def _problems(report: Report) -> str:
    lines = [f"{w.name}: sizes disagree: {p}" for w in report.workloads for p in w.problems]
    lines += [
        f"{w.name}: {OURS}: {w.ours.status}: {w.ours.reason}"
        for w in report.workloads
        if w.ours is not None and w.ours.status != "ok"
    ]
    return "".join(f'<p class="bad">{escape(line)}</p>' for line in lines)


def _targets(report: Report) -> str:
    rows = [
        ("", (escape(t.text), escape(t.value), "holds" if t.holds else '<span class="bad">missed</span>'))
        for t in compare.targets(report)
    ]
    return f"<h2>Targets</h2>{table(('target', 'measured', ''), rows)}" if rows else ""


def _plots(report: Report) -> str:
    names = list(dict.fromkeys(n for w in report.workloads for n in w.outcomes))
    walls = _values(report.workloads, "best")
    memory = {w: {n: v / 1e6 for n, v in g.items()} for w, g in _values(report.workloads, "peak_rss").items()}
    ratios = {
        w.name: {n: r for n in w.outcomes if n != OURS and (r := w.ratio(n)) is not None}
        for w in report.workloads
    }
    plots = [
        ("Whole process, best, seconds", svg.bars(walls, CLASSES, "s")),
        ("Times longer than gpuengine", svg.bars(_filled(ratios), CLASSES, "x", mark=1.0)),
        ("Peak resident memory", svg.bars(memory, CLASSES, "MB")),
    ]
    return legend(names) + "".join(f"<h2>{t}</h2><figure>{plot}</figure>" for t, plot in plots if plot)


def _values(workloads: Iterable[WorkloadResult], column: str) -> dict[str, dict[str, float]]:
    return _filled(
        {
            w.name: {n: v for n, o in w.outcomes.items() if (v := getattr(o, column)) is not None}
            for w in workloads
        }
    )


def _filled(groups: dict[str, dict[str, float]]) -> dict[str, dict[str, float]]:
    return {name: group for name, group in groups.items() if group}


def _published(report: Report, scale: compare.Scale) -> str:
    rows = compare.comparisons(report, scale)
    if not rows:
        return ""
    cells: list[tuple[str, Sequence[str]]] = [
        ("", (r.workload, times(r.whole), times(r.evaluation), times(r.datafrog), r.basis)) for r in rows
    ]
    means = [times(compare.mean_over_nine(rows, c)) for c in ("whole", "evaluation", "datafrog")]
    cells.append(("ours", ("geometric mean without the nonlinear closures", *means, "")))
    groups: dict[str, dict[str, float]] = {}
    for row in rows:
        known = published.SECONDS[row.workload]
        groups[row.workload] = {c: s * scale.factor for c, s in known.items() if math.isfinite(s)}
    return (
        f"<h2>Against published figures x {scale.factor:.2f}: scaled, not measured here</h2>"
        f'<p class="note">{escape(scale.meaning)}</p>{table(_PUBLISHED_HEADERS, cells)}'
        f"{_published_seconds(groups)}"
    )


def _published_seconds(groups: dict[str, dict[str, float]]) -> str:
    rows = []
    for workload, values in groups.items():
        cells = [
            (">" if (workload, c) in published.MORE_THAN else "") + seconds(values.get(c))
            for c in published.COLUMNS
        ]
        rows.append(("", [workload, *(escape(c) for c in cells)]))
    shown = table(["seconds, scaled", *published.COLUMNS.values()], rows)
    return f"<details><summary>all published columns, scaled</summary>{shown}</details>"


def _runs(report: Report) -> str:
    rows = []
    for workload in report.workloads:
        label = f"{escape(workload.name)}<br>{workload.output_rows:,} facts"
        for name, outcome in workload.outcomes.items():
            style = "ours" if name == OURS else ("" if outcome.status == "ok" else "off")
            rows.append((style, (label, *map(escape, run_cells(workload, name, outcome)))))
            label = ""
    return f"<h2>All runs</h2>{table(RUN_HEADERS, rows)}"


def _missing(report: Report) -> str:
    return "".join(
        f'<p class="note">{escape(n)} did not run: {escape(reason)}</p>'
        for n, reason in report.missing.items()
    )
