"""``run``, ``query`` and ``plan`` for DatalogMTL: read facts with times, materialise, write, ask."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from gpuengine.cli.failures import settled_when_ended
from gpuengine.cli.live import Clock, LiveLine, count, live_line, peak_rss, size
from gpuengine.cli.outputs import check_folder, finish_earlier
from gpuengine.cli.sources import check_program
from gpuengine.errors import GpuEngineError

if TYPE_CHECKING:
    import pyarrow as pa

    from gpuengine.temporal.engine import TemporalEngine
    from gpuengine.temporal.procedures import Round
    from gpuengine.temporal.view import TemporalView

_EXTENSIONS = {"csv": ".csv", "parquet": ".parquet", "text": ".txt"}


def run_temporal(arguments: argparse.Namespace) -> int:
    """Materialise a program and write its predicates.

    Raises before anything is written if it can't be done.
    """
    clock = Clock()
    line = live_line(arguments.quiet)
    try:
        return _run(arguments, clock, line)
    finally:
        line.clear()


def _run(arguments: argparse.Namespace, clock: Clock, line: LiveLine) -> int:
    printed = str(arguments.output_dir) == "-" or arguments.output_dir is None
    if printed and arguments.json:
        raise GpuEngineError(
            "--json needs standard output, but the facts are printed there\n"
            "  hint: write them to files (-D DIR), or leave out --json"
        )
    engine = _open(arguments, clock)
    if not printed:
        finish_earlier(Path(arguments.output_dir))
        check_folder(Path(arguments.output_dir))
    if arguments.save is not None:
        from gpuengine.cli.knowledge_bases import check_target

        check_target(arguments.save, replace=arguments.replace)
    clock.lap("parse")
    _load(engine, arguments, line)
    clock.lap("load")
    _materialise(engine, arguments, line)
    clock.lap("evaluate")
    if arguments.save is not None:
        engine.save(arguments.save, replace=arguments.replace)
        clock.lap("save")
    with engine.limits("writing").applied():
        sizes = _hand_out(arguments, engine, printed=printed)
    clock.lap("write")
    _say_notes(engine, arguments)
    if arguments.json:
        print(json.dumps(_report(arguments, engine, sizes, clock), ensure_ascii=False))
    if arguments.stats:
        _print_stats(engine, sizes, clock)
    return 0


def _hand_out(arguments: argparse.Namespace, engine: TemporalEngine, *, printed: bool) -> dict[str, int]:
    """Write or print all predicates; how many facts each has."""
    views = {name: engine[name] for name in engine.relations}
    if printed:
        out = sys.stdout
        for name in sorted(views):
            for text in views[name].lines():
                out.write(text + "\n")
    else:
        _write(views, Path(arguments.output_dir), arguments.format or "csv")
    sizes = {name: len(view) for name, view in views.items()}
    if not printed and not arguments.json:
        for name, facts in sizes.items():
            print(f"{name}\t{facts}")
    return sizes


def query_temporal(arguments: argparse.Namespace) -> int:
    """Say whether a fact holds (exit code 0 or 1), or print when a body does."""
    clock = Clock()
    line = live_line(arguments.quiet)
    try:
        if arguments.is_saved:
            from gpuengine.cli.temporal_kb import open_temporal

            engine = open_temporal(arguments.program, read_only=True, **engine_options(arguments))
        else:
            engine = _open(arguments, clock)
            _load(engine, arguments, line)
            _materialise(engine, arguments, line)
    finally:
        line.clear()
    _say_notes(engine, arguments)
    answer = engine.query(arguments.query)
    if isinstance(answer, bool):
        print(json.dumps({"holds": answer}) if arguments.json else "yes" if answer else "no")
        return 0 if answer else 1
    _print_answers(answer, arguments)
    return 0


def _print_answers(found: TemporalView, arguments: argparse.Namespace) -> None:
    rows = _text_rows(found)
    shown = rows if arguments.limit is None else rows[: arguments.limit]
    columns = [*found.arguments, "time"]
    if arguments.json:
        print(json.dumps({"columns": columns, "rows": shown, "count": len(rows)}, ensure_ascii=False))
        return
    for row in (columns, *shown):
        print("\t".join(row))


def _text_rows(view: TemporalView) -> list[list[str]]:
    from gpuengine.temporal.spelling import range_text

    stamped = view.is_stamped
    return [
        [*values, range_text(interval, as_timestamp=stamped)] for *values, interval in sorted(view, key=_key)
    ]


def _key(row: tuple[Any, ...]) -> tuple[Any, ...]:
    lower = row[-1].lower
    return (*row[:-1], lower is not None, lower or 0)


def plan_temporal(arguments: argparse.Namespace) -> int:
    """Print strata, recursion through time, directions, and what Procedure 3 may drop."""
    check_program(arguments.program)
    from gpuengine.temporal.language import parse_program
    from gpuengine.temporal.plan import plan_of

    plan = plan_of(parse_program(arguments.program))
    if arguments.json:
        print(json.dumps(plan.to_json(), ensure_ascii=False, indent=1))
    else:
        sys.stdout.write(plan.render())
    return 0


def _open(arguments: argparse.Namespace, clock: Clock) -> TemporalEngine:
    check_program(arguments.program)
    from gpuengine.temporal.engine import TemporalEngine

    clock.lap("startup")
    return TemporalEngine(arguments.program, **engine_options(arguments))


def engine_options(arguments: argparse.Namespace) -> dict[str, Any]:
    """The options of an engine: how much memory there is, and where interval operations run."""
    return {
        "memory": arguments.memory,
        "backend": arguments.backend,
        "device": arguments.device,
        "device_memory": arguments.device_memory,
    }


def _device_report(engine: TemporalEngine) -> dict[str, Any] | None:
    """What was asked of a device, and what crossed the bus; None without one."""
    if engine.backend is None:
        return None
    asked = engine.backend.statistics()
    return {
        "name": engine.backend.device_name,
        "launches": asked.launches,
        "waits": asked.syncs,
        "sent": asked.uploaded,
        "fetched": asked.downloaded,
        "peak_bytes": asked.peak_bytes,
    }


def _load(engine: TemporalEngine, arguments: argparse.Namespace, line: LiveLine) -> None:
    facts = Path(arguments.fact_dir)
    # Without -F a program may bring its own facts; the folder it is run in need not have any.
    if str(facts) == "." and engine.program.facts and not _has_facts(facts):
        return
    line.show(f"loading {facts}")
    engine.load(facts, on_error=arguments.on_error, timestamps=arguments.timestamps)
    line.clear()
    if getattr(arguments, "no_warn", False):
        return
    if engine.skipped_rows:
        plural = "s" if engine.skipped_rows != 1 else ""
        print(f"warning: {facts}: skipped {engine.skipped_rows} bad fact{plural}", file=sys.stderr)
        for message in engine.skipped:
            print(f"  {message}", file=sys.stderr)
    for warning in engine.warnings:
        print(f"warning: {warning}", file=sys.stderr)


def _has_facts(folder: Path) -> bool:
    from gpuengine.temporal.facts import fact_files

    return bool(fact_files(folder))


def _materialise(engine: TemporalEngine, arguments: argparse.Namespace, line: LiveLine) -> None:
    def watch(made: Round) -> None:
        line.show(f"round {made.number:,}  {count(made.facts)} facts  {made.new:,} new  {made.seconds:.2f} s")

    line.show("materialising")
    engine.materialise(
        rounds=arguments.rounds,
        horizon=arguments.horizon,
        procedure=arguments.procedure or "optimised",
        watch=watch,
    )
    line.clear()


def _say_notes(engine: TemporalEngine, arguments: argparse.Namespace) -> None:
    if not getattr(arguments, "no_warn", False):
        for note in engine.notes:
            print(f"note: {note}", file=sys.stderr)


def _write(views: dict[str, TemporalView], folder: Path, format: str) -> None:
    """A file for each predicate: all of them, or none."""

    def writer(view: TemporalView) -> Callable[[BinaryIO], None]:
        return lambda sink: _write_one(view, sink, format)

    files = {folder / f"{name}{_EXTENSIONS[format]}": writer(view) for name, view in views.items()}
    write_together(files, folder)


def write_together(files: Mapping[Path, Callable[[BinaryIO], None]], folder: Path) -> None:
    """Replace all files at once; whatever stops that earlier leaves them as they were."""
    from gpuengine.io.replacing import Replacement

    with Replacement(folder) as replacement, settled_when_ended(replacement.settle):
        for path, write in files.items():
            with replacement.file(path) as sink:
                write(sink)
        replacement.finish()


def _write_one(view: TemporalView, sink: BinaryIO, format: str) -> None:
    if format == "text":
        sink.writelines(f"{line}\n".encode() for line in view.lines())
    else:
        write_table(view.to_arrow(), sink, format)


def write_table(table: pa.Table, sink: BinaryIO, format: str) -> None:
    """A table as CSV, TSV, Parquet or Arrow."""
    if format in ("csv", "tsv"):
        from pyarrow import csv

        delimiter = "," if format == "csv" else "\t"
        csv.write_csv(table, sink, csv.WriteOptions(delimiter=delimiter))
    elif format == "parquet":
        import pyarrow.parquet

        pyarrow.parquet.write_table(table, sink)
    else:
        import pyarrow.ipc

        with pyarrow.ipc.new_file(sink, table.schema) as out:
            out.write_table(table)


def _report(
    arguments: argparse.Namespace, engine: TemporalEngine, sizes: dict[str, int], clock: Clock
) -> dict[str, Any]:
    progress = engine.progress
    report = {
        "program": str(arguments.program),
        "language": "mtl",
        "relations": sizes,
        "procedure": progress.procedure,
        "rounds": len(progress.rounds),
        "fixpoint": progress.is_fixpoint,
        "exact": engine.is_exact,
        "notes": engine.notes,
        "skipped": engine.skipped_rows,
        "seconds": {
            **{phase: round(s, 6) for phase, s in clock.seconds.items()},
            "total": round(clock.total, 6),
        },
        "peak_rss": peak_rss(),
    }
    if arguments.stats:
        report["each_round"] = [{**asdict(r), "seconds": round(r.seconds, 6)} for r in progress.rounds]
        report["dropped"] = [asdict(dropped) for dropped in progress.dropped]
        report["device"] = _device_report(engine)
        report["rule_seconds"] = {str(n): round(s, 6) for n, s in sorted(progress.rule_seconds.items())}
    return report


def _print_stats(engine: TemporalEngine, sizes: dict[str, int], clock: Clock) -> None:
    progress = engine.progress

    def say(text: str = "") -> None:
        print(text, file=sys.stderr)

    say("  ".join(f"{phase} {seconds:.3f} s" for phase, seconds in clock.seconds.items()))
    say(f"total {clock.total:.3f} s, {size(peak_rss())}; {sum(sizes.values()):,} facts")
    end = "fixpoint" if progress.is_fixpoint else "stopped after the last round"
    say(f"{progress.procedure}, {len(progress.rounds)} rounds, {end}")
    say("round    seconds        facts          new    instances  rules")
    for r in progress.rounds:
        say(
            f"{r.number:>5}  {r.seconds:>9.4f}  {r.facts:>11,}  {r.new:>11,}"
            f"  {r.instances:>11,}  {r.rules:>5}"
        )
    device = _device_report(engine)
    if device is not None:
        say(
            f"intervals on {device['name']}: {device['launches']:,} launches, {device['waits']:,} waits, "
            f"{size(device['sent'])} sent, {size(device['fetched'])} fetched, "
            f"{size(device['peak_bytes'])} of its memory"
        )
    slowest = sorted(progress.rule_seconds.items(), key=lambda item: -item[1])[:5]
    for number, seconds in slowest:
        say(f"rule {number}: {seconds:.4f} s  {engine.program.rules[number - 1]}")
    for dropped in progress.dropped:
        say(f"round {dropped.round}: dropped {dropped.rule}: {dropped.why}")
