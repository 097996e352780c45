"""``python -m bench table``: the published tables, ours beside the papers'."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial

from bench import rdf
from bench.cyclic import command as cyclic
from bench.harness.command import Session, add_options, settings_of
from bench.harness.sheets import print_sheet
from bench.prepare import Places
from bench.schemes import change_tables, tables
from bench.schemes.catalogue import TABLES
from bench.schemes.run import Runner
from bench.temporal import command as temporal

MAKERS: dict[str, tuple[Callable[[tables.Tables], None], ...]] = {
    "5.10": (change_tables.additions_510,),
    "5.11": (tables.benchmarks_511,),
    "5.12": (tables.initial_512, change_tables.updates_512),
    "5.13": (tables.memory_513,),
    "5.14": (change_tables.queries_514,),
    "modular-1": (tables.modular_1,),
    "real": (tables.real,),
    "eqrel": (tables.eqrel,),
}
NAMES = (*TABLES, cyclic.NAME, temporal.NAME, rdf.NAME)
_TIMEOUT = 300.0


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command and its options."""
    parser = commands.add_parser(
        "table", help="the papers' tables: storage schemes, modules, cyclic rules", description=__doc__
    )
    parser.add_argument(
        "names", nargs="+", metavar="NAME", choices=[*NAMES, "all"], help=", ".join((*NAMES, "all"))
    )
    parser.add_argument(
        "--timeout", type=float, default=None,
        help=f"seconds for each cell ({_TIMEOUT:.0f}; {cyclic.TIMEOUT:.0f} for {cyclic.NAME} alone)",
    )  # fmt: skip
    add_options(parser)
    parser.add_argument(
        "--mtl-facts", type=float, default=1e6, metavar="N", help="facts of the largest data of mtl (1e6)"
    )
    parser.add_argument(
        "--universities", type=int, nargs="+", default=rdf.SIZES, metavar="N",
        help=f"sizes of LUBM for rdf ({' '.join(map(str, rdf.SIZES))}; 50 and 100 are those of the papers)",
    )  # fmt: skip
    cyclic.add_options(parser)


def run_command(options: argparse.Namespace, places: Places) -> int:
    """Measure and print; 1 if sizes disagree or a cell fails, 130 if stopped."""
    cyclic.check_options(options)
    names = [name for name in NAMES if name in options.names or "all" in options.names]
    timeout = options.timeout or (cyclic.TIMEOUT if names == [cyclic.NAME] else _TIMEOUT)
    session = Session(settings_of(options, timeout))
    show = partial(print_sheet, console=session.console)
    with session.console.status("") as status:
        made = tables.Tables(Runner(session.settings, places, status.update))
        rules = cyclic.Table(options, session.settings, places, status.update)
        rounds = temporal.Tables(options.quick, int(options.mtl_facts), timeout, status.update)
        triples = rdf.Tables(options.quick, options.universities, status.update)
        shown = 0
        try:
            for name in [name for name in names if name in MAKERS]:
                for maker in MAKERS[name]:
                    maker(made)
                for sheet in made.sheets[shown:]:
                    show(sheet)
                shown = len(made.sheets)
            if cyclic.NAME in names:
                rules.make(show)
            if temporal.NAME in names:
                rounds.make(show)
            if rdf.NAME in names:
                triples.make(show)
        except KeyboardInterrupt:
            session.stopped = True
    return session.end(
        made.problems + rules.report.problems + rounds.problems + triples.problems,
        made.sheets + rules.report.sheets + rounds.sheets + triples.sheets,
        made.runner.outcomes | rules.runner.outcomes,
        options.json,
    )
