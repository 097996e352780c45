"""A profile as one HTML page that needs no network: time line, rules with their plans, memory."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from gpuengine.profiling import words
from gpuengine.profiling.profile import (
    Profile,
    RelationProfile,
    RuleProfile,
    StratumProfile,
    ThreadProfile,
)

_LEAST_SHARE = 0.005
"""Strata that took less of the evaluation stand in a part of their own, unless there are few."""
_FEW = 30
_ON_HOST = "cpu"
_STYLE = """
:root { color-scheme: light dark; --ground: #ffffff; --panel: #f4f6f8; --ink: #1c2733; --dim: #5b6875;
  --line: #d9dfe5; --host: #2f6fb3; --host2: #6d9fd2; --device: #b8610b; --device2: #dc9a52; --bar: #cfe0f2; }
@media (prefers-color-scheme: dark) { :root { --ground: #14181d; --panel: #1c2229; --ink: #dfe6ee;
  --dim: #93a1b0; --line: #323b46; --host: #4d8fd6; --host2: #2f6199; --device: #d98b36; --device2: #93591a;
  --bar: #26405c; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.5em 2em 4em; max-width: 1500px; background: var(--ground);
  color: var(--ink); font: 14px/1.5 system-ui, sans-serif; }
h1 { font-size: 20px; margin: 0 0 .2em; overflow-wrap: anywhere; } h2 { font-size: 16px; margin: 2em 0 .5em; }
p { margin: .3em 0; } .dim { color: var(--dim); }
code, pre, .mono { font: 12.5px/1.5 ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; background: var(--ground);
  border: 1px solid var(--line); border-radius: 4px; padding: .6em .8em; margin: .4em 0; }
.tiles { display: flex; flex-wrap: wrap; gap: .6em; margin-top: 1em; }
.tile { background: var(--panel); border-radius: 6px; padding: .5em .9em; min-width: 7em; }
.tile b { display: block; font-size: 17px; font-weight: 600; }
.tile span { color: var(--dim); font-size: 12px; }
.phases { display: flex; height: 22px; border-radius: 4px; overflow: hidden; margin: .6em 0 .2em; }
.phases div { background: var(--host); border-right: 1px solid var(--ground); }
.phases div:nth-child(even) { background: var(--host2); }
.lanes { max-height: 36em; overflow-y: auto; }
.lane { display: grid; grid-template-columns: minmax(8em, 22em) 1fr 6em; gap: .8em; align-items: center;
  padding: 1px 0; }
.lane .name { white-space: nowrap; overflow: hidden; text-overflow: ellipsis; }
.track { position: relative; height: 16px; background: var(--panel); border-radius: 3px; overflow: hidden; }
.track i { position: absolute; top: 0; bottom: 0; min-width: 1px; background: var(--host); }
.track i.odd { background: var(--host2); } .track i.device { background: var(--device); }
.track i.device.odd { background: var(--device2); }
.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.key { display: inline-block; width: .9em; height: .9em; border-radius: 2px; vertical-align: -.1em;
  background: var(--host); margin: 0 .3em 0 .8em; } .key.device { background: var(--device); }
.rules { border: 1px solid var(--line); border-radius: 6px; overflow: hidden; }
.row { display: grid; grid-template-columns: 6.5em 7em 7em 7em 6em 5em minmax(10em, 1fr); gap: .8em;
  padding: .25em .8em; align-items: baseline; }
.head { background: var(--panel); font-weight: 600; position: sticky; top: 0; z-index: 1; }
.head button { all: unset; cursor: pointer; }
.head button:hover, .head button:focus-visible { text-decoration: underline; }
details.rule { border-top: 1px solid var(--line); }
details.rule > summary { cursor: pointer; list-style: none;
  background: linear-gradient(to right, var(--bar) var(--share), transparent var(--share)); }
details.rule > summary::-webkit-details-marker { display: none; }
details.rule > summary:hover code { text-decoration: underline; }
details.rule > summary code { white-space: nowrap; overflow: hidden; text-overflow: ellipsis; }
details.rule[open] > summary { font-weight: 600; }
.inside { padding: .4em 1.2em 1em; background: var(--panel); }
table { border-collapse: collapse; }
th, td { text-align: left; padding: .15em .9em .15em 0; vertical-align: top; }
th { font-weight: 600; color: var(--dim); } td.number, th.number { text-align: right; }
input { font: inherit; color: inherit; background: var(--panel); border: 1px solid var(--line);
  border-radius: 4px; padding: .3em .6em; width: 24em; max-width: 100%; margin-bottom: .6em; }
.wide { overflow-x: auto; }
@media (max-width: 900px) { .row { grid-template-columns: 5em 6em 6em 1fr; } .row .small { display: none; } }
"""
_SCRIPT = """
const list = document.getElementById("rules"), rows = [...list.querySelectorAll("details.rule")];
document.getElementById("filter").addEventListener("input", event => {
  const wanted = event.target.value.toLowerCase();
  for (const row of rows) row.hidden = !row.textContent.toLowerCase().includes(wanted);
});
for (const button of list.querySelectorAll("button")) button.addEventListener("click", () => {
  const by = button.dataset.by;
  rows.sort((a, b) => Number(b.dataset[by]) - Number(a.dataset[by]));
  list.append(...rows);
});
"""
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"


def page(profile: Profile) -> str:
    """The whole document."""
    title = escape(f"profile of {profile.program}" if profile.program else "profile")
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{title}</title><style>{_STYLE}</style></head><body><h1>{title}</h1>"
        f"{''.join(_parts(profile))}<script>{_SCRIPT}</script></body></html>\n"
    )


def _parts(profile: Profile) -> Iterator[str]:
    yield from _summary(profile)
    yield from _time_line(profile)
    yield from _rules(profile)
    yield from _memory(profile)
    yield from _compiling(profile)


# -- what it came to -----------------------------------------------------------------------------------


def _summary(profile: Profile) -> Iterator[str]:
    total = profile.seconds.get("total", sum(profile.seconds.values()))
    if profile.work != "evaluation":
        yield f"<p>{escape(profile.work)}</p>"
    tiles = {
        "in all": words.seconds(total),
        **{
            told: words.seconds(profile.seconds[phase])
            for phase, told in (("evaluate", "evaluating"), ("update", "updating"))
            if phase in profile.seconds
        },
        "of it outside rules": words.seconds(profile.outside_rules),
        "facts": words.count(profile.facts),
        "rounds": words.count(profile.rounds),
        "threads": f"{profile.threads} ({profile.backend})",
        "in relations": words.nbytes(sum(one.nbytes + one.counter_nbytes for one in profile.relations)),
        "in terms": words.nbytes(profile.terms_nbytes),
        "kernels compiled": words.seconds(sum(profile.compiled_kernels.values()))
        if profile.compiled_kernels
        else "none",
    }
    if "peak_rss_bytes" in profile.process:
        tiles["most memory"] = words.nbytes(profile.process["peak_rss_bytes"])
    yield '<div class="tiles">'
    for name, value in tiles.items():
        yield f'<div class="tile"><b>{escape(value)}</b><span>{escape(name)}</span></div>'
    yield "</div>"
    phases = {name: spent for name, spent in profile.seconds.items() if name != "total"}
    if len(phases) > 1 and total:
        yield "<h2>Phases</h2>"
        yield '<div class="phases">'
        for name, spent in phases.items():
            told = escape(f"{name}: {words.seconds(spent)}")
            yield f'<div style="width:{_percent(spent, total)}" title="{told}"></div>'
        yield "</div><p>"
        yield " &middot; ".join(f"{escape(name)} {words.seconds(spent)}" for name, spent in phases.items())
        yield "</p>"
    device = profile.process.get("device")
    if device is not None:
        yield (
            f"<p>Device {escape(str(device['name']))}: {device['rounds']:,} rounds, "
            f"{device['launches']:,} launches, "
            f"{device['syncs']:,} host syncs, {words.nbytes(device['uploaded_bytes'])} to it, "
            f"{words.nbytes(device['downloaded_bytes'])} back, at most {words.nbytes(device['peak_bytes'])} "
            "there.</p>"
        )


# -- when ----------------------------------------------------------------------------------------------


def _time_line(profile: Profile) -> Iterator[str]:
    yield "<h2>Time line of strata and rounds</h2>"
    if not profile.strata:
        is_update = profile.work != "evaluation"
        yield f"<p>{'Nothing had to be derived.' if is_update else 'There are no rules to evaluate.'}</p>"
        return
    end = max(one.began + one.seconds for one in profile.strata) or 1e-9
    places = dict.fromkeys(where for one in profile.strata for where in one.rounds)
    keys = "".join(
        f'<span class="key{"" if where == _ON_HOST else " device"}"></span>{escape(where)}'
        for where in places
    )
    yield f'<p class="dim">From the start of the evaluation to {words.seconds(end)}; shades change with '
    yield f"each round.{keys}</p>"
    small = [one for one in profile.strata if one.seconds < _LEAST_SHARE * end]
    if len(profile.strata) <= _FEW:
        small = []
    hidden = {one.number for one in small}
    yield '<div class="lanes">'
    for stratum in profile.strata:
        if stratum.number not in hidden:
            yield _lane(stratum, end)
    if small:
        spent = words.seconds(sum(one.seconds for one in small))
        yield f"<details><summary>{len(small):,} strata that took little: {spent} together</summary>"
        for stratum in small:
            yield _lane(stratum, end)
        yield "</details>"
    for number, thread in enumerate(profile.threads_busy if len(profile.threads_busy) > 1 else (), 1):
        yield _thread_lane(number, thread, profile.strata[0].began, end)
    yield "</div>"


def _thread_lane(number: int, thread: ThreadProfile, began: float, end: float) -> str:
    """When a thread worked: as wide a part of each stretch is filled."""
    marks = [
        _mark(began + place * thread.stretch, busy, end, "", f"thread {number} worked {words.seconds(busy)}")
        for place, busy in enumerate(thread.busy)
        if busy
    ]
    return (
        f'<div class="lane"><span class="name">thread {number}</span>'
        f'<div class="track">{"".join(marks)}</div>'
        f'<span class="number">{words.seconds(thread.seconds)}</span></div>'
    )


def _lane(stratum: StratumProfile, end: float) -> str:
    name = f"{stratum.number}. {', '.join(stratum.relations)}"
    rounds = ", ".join(f"{number:,} on {where}" for where, number in stratum.rounds.items())
    moves = f", {stratum.moves:,} moves" if stratum.moves else ""
    marks = []
    ended = stratum.began
    for number, span in enumerate(stratum.spans):
        last = span.first + span.rounds - 1
        which = "rules outside the recursion" if span.first == 0 else f"round {span.first:,}"
        which = f"rounds {span.first:,} to {last:,}" if last > span.first > 0 else which
        came = f"then {span.delta:,} facts were new"
        if span.step != "derive":
            which = f"{span.step}, {'what changed below' if span.first == 0 else which}"
            came = f"then {span.delta:,} facts were found to go or to come"
        told = f"{which}: {words.seconds(span.seconds)} on {span.where}, {came}"
        style = ("odd " if number % 2 else "") + ("" if span.where == _ON_HOST else "device")
        marks.append(_mark(span.began, span.seconds, end, style.strip(), told))
        ended = span.began + span.seconds
    left = stratum.began + stratum.seconds - ended
    if left > 0.001 * end:
        marks.append(_mark(ended, left, end, "odd", f"settling: {words.seconds(left)}"))
    return (
        f'<div class="lane"><span class="name mono" title="{escape(name)}">{escape(name)}</span>'
        f'<div class="track" title="{escape(rounds + moves)}">{"".join(marks)}</div>'
        f'<span class="number">{words.seconds(stratum.seconds)}</span></div>'
    )


def _mark(began: float, spent: float, end: float, style: str, told: str) -> str:
    kind = f' class="{style}"' if style else ""
    style = f"left:{_percent(began, end)};width:{_percent(spent, end)}"
    return f'<i{kind} style="{style}" title="{escape(told)}"></i>'


def _percent(part: float, whole: float) -> str:
    return f"{min(max(100 * part / whole, 0.0), 100.0):.3f}%"


# -- rules ---------------------------------------------------------------------------------------------


def _rules(profile: Profile) -> Iterator[str]:
    yield f"<h2>Rules, slowest first ({len(profile.rules):,})</h2>"
    yield (
        '<p class="dim">Candidates are bindings that reached the head; of these some were new (derived), '
        "others known (duplicates). Expected are the candidates that the plans last made had expected, if "
        "the sizes of relations were known; one that only begins to grow is assumed large. A + says that "
        "there are more: of some candidates it is unknown whether they were new. Small rounds run all rules "
        "of a stratum in one call, whose time is divided evenly among them. A click shows text, place and "
        "plans.</p>"
    )
    yield '<input id="filter" type="search" placeholder="show rules with …" aria-label="show rules with">'
    yield '<div class="rules" id="rules"><div class="row head">'
    columns = {
        "seconds": "time",
        "candidates": "candidates",
        "derived": "derived",
        "duplicates": "duplicates",
        "expected": "expected",
    }
    for by, header in columns.items():
        small = " small" if by in ("duplicates", "expected") else ""
        yield f'<span class="number{small}"><button data-by="{by}">{header}</button></span>'
    yield '<span class="small">on</span><span>rule</span></div>'
    slowest = max((rule.seconds for rule in profile.rules), default=0.0) or 1e-9
    for rule in profile.rules:
        yield from _rule(rule, slowest)
    yield "</div>"


def _rule(rule: RuleProfile, slowest: float) -> Iterator[str]:
    more = "+" if rule.uncounted else ""
    line = escape(" ".join(rule.text.split()))
    yield (
        f'<details class="rule" data-seconds="{rule.seconds:.9f}" data-candidates="{rule.candidates}" '
        f'data-derived="{rule.derived}" data-duplicates="{rule.duplicates}" '
        f'data-expected="{rule.expected or 0:.6g}">'
        f'<summary class="row" style="--share:{_percent(0.12 * rule.seconds, slowest)}">'
        f'<span class="number">{words.seconds(rule.seconds)}</span>'
        f'<span class="number">{rule.candidates:,}</span><span class="number">{rule.derived:,}{more}</span>'
        f'<span class="number small">{rule.duplicates:,}{more}</span>'
        f'<span class="number small">{words.expected(rule)}</span>'
        f'<span class="small">{escape(", ".join(rule.backends) or "-")}</span><code>{line}</code></summary>'
        f'<div class="inside"><pre>{escape(rule.text)}</pre><p>'
    )
    facts = []
    if rule.places:
        facts.append(f"at <code>{escape(', '.join(rule.places))}</code>")
    else:
        facts.append("made by the planner")
    if rule.names:
        facts.append(f"called <code>{escape(', '.join(rule.names))}</code>")
    if rule.strata:
        facts.append(f"stratum {', '.join(map(str, rule.strata))}")
    if rule.evaluations:
        times = "once" if rule.evaluations == 1 else f"{rule.evaluations:,} times"
        facts.append(f"evaluated {times}, on {escape(words.spent_in(rule))}")
    yield " &middot; ".join(facts) + "</p>"
    if rule.note:
        yield f"<p>{escape(rule.note)}</p>"
    if rule.evaluator:
        yield f"<p>{escape(rule.evaluator)}</p>"
    if rule.nodes:
        yield '<div class="wide"><table><tr><th>node</th><th class="number">expected</th>'
        yield '<th class="number">facts</th></tr>'
        for node in rule.nodes:
            facts_there = f"{node.facts:,}" if node.facts is not None else "freed"
            yield (
                f"<tr><td><code>{escape(node.atom)}</code></td>"
                f'<td class="number">~{words.rounded(node.expected)}</td>'
                f'<td class="number">{facts_there}</td></tr>'
            )
        yield "</table></div>"
    for plan in rule.plans:
        yield f"<p>{escape(words.when(plan))}</p>"
        if plan.steps:
            yield '<div class="wide"><table><tr><th>step</th><th>reads</th>'
            is_measured = any(step.measured is not None for step in plan.steps)
            yield '<th class="number">facts there</th><th class="number">bindings expected</th>'
            yield ('<th class="number">there were</th>' if is_measured else "") + "</tr>"
            for step in plan.steps:
                there = f'<td class="number">{words.bindings(step, plan)}</td>' if is_measured else ""
                yield (
                    f"<tr><td>{escape(step.access)}</td><td><code>{escape(words.step(step))}</code></td>"
                    f'<td class="number">{f"{step.facts:,}" if step.facts is not None else ""}</td>'
                    f'<td class="number">~{words.rounded(step.expected)}</td>{there}</tr>'
                )
            yield "</table></div>"
    if rule.evaluations:
        unknown = f", {rule.uncounted:,} of them uncounted" if rule.uncounted else ""
        yield (
            f"<p>What it came to: candidates {rule.candidates:,}{unknown}; new facts {rule.derived:,}; "
            f"duplicates {rule.duplicates:,}{f'; lost a derivation {rule.lost:,}' if rule.lost else ''}.</p>"
        )
    yield "</div></details>"


# -- memory --------------------------------------------------------------------------------------------


def _memory(profile: Profile) -> Iterator[str]:
    yield "<h2>Memory by relation</h2>"
    by_scheme: dict[str, int] = {}
    for one in profile.relations:
        by_scheme[one.scheme] = by_scheme.get(one.scheme, 0) + one.nbytes + one.counter_nbytes
    yield "<p>" + " &middot; ".join(
        f"{escape(scheme)}: {words.nbytes(taken)}" for scheme, taken in by_scheme.items()
    )
    yield f" &middot; terms: {words.nbytes(profile.terms_nbytes)}</p>"
    yield (
        '<div class="wide"><table><tr><th>relation</th><th class="number">facts</th>'
        '<th class="number">memory</th>'
        "<th>stored as</th><th>why</th></tr>"
    )
    for one in profile.relations:
        yield _relation(one)
    yield "</table></div>"


def _relation(one: RelationProfile) -> str:
    return (
        f'<tr><td><code>{escape(one.name)}</code></td><td class="number">{one.facts:,}</td>'
        f'<td class="number">{words.nbytes(one.nbytes + one.counter_nbytes)}</td>'
        f'<td>{escape(one.scheme)}</td><td class="dim">{escape(one.why)}</td></tr>'
    )


def _compiling(profile: Profile) -> Iterator[str]:
    yield f"<h2>Kernels compiled</h2><p>{escape(words.kernels(profile))}</p>"
    if profile.compiled_kernels:
        yield '<table><tr><th>kernel</th><th class="number">took</th></tr>'
        for name, spent in sorted(profile.compiled_kernels.items(), key=lambda item: -item[1]):
            took = words.seconds(spent)
            yield f'<tr><td><code>{escape(name)}</code></td><td class="number">{took}</td></tr>'
        yield "</table>"
