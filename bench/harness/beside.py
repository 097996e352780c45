"""Commands that measure workloads of ours beside one peer: what runs them, and what is wrong with answers."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from typing import Any

from bench.harness.cells import Cell, Outcome, Settings, fill
from bench.harness.command import Session, settings_of
from bench.harness.sheets import Report, print_sheet

Outcomes = Mapping[Cell, Outcome]


def measure(
    options: argparse.Namespace,
    module: str,
    specs: Callable[[Settings], Mapping[Cell, dict[str, Any]]],
    add_sheet: Callable[[Report, Outcomes], None],
) -> int:
    """Run the cells of `module`, and print the sheets; 1 if there are problems, 130 if stopped."""
    session = Session(settings_of(options, options.timeout))
    report = Report(options.timeout, options.quick)
    outcomes: dict[Cell, Outcome] = {}
    with session.console.status("") as status:
        try:
            fill(outcomes, module, specs(session.settings), session.settings, status.update)
        except KeyboardInterrupt:
            session.stopped = True
    add_sheet(report, outcomes)
    for sheet in report.sheets:
        print_sheet(sheet, session.console)
    return session.end(report.problems, report.sheets, outcomes, options.json)


def disagreement(name: str, ours: Outcome, peer: Outcome, peer_name: str, step: str) -> list[str]:
    """That ours failed, that the peer did, or that they give other answers in a step."""
    if ours.status != "ok":
        return [f"{name}: {ours.status} {ours.reason}".rstrip()]
    if peer.status != "ok":  # there is nothing to compare with
        failure = f"{name}: {peer_name.lower()} {peer.status} {peer.reason}".rstrip()
        return [] if peer.status == "skipped" else [failure]
    one, other = ours.sizes(step), peer.sizes(step)
    return [] if one is not None and one == other else [f"{name}: {one} by rules, {other} by {peer_name}"]
