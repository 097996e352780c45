"""``gpuengine run --on spark``: datasets read, checked and written by Spark, and evaluated where it suits."""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from gpuengine.cli import interrupts
from gpuengine.cli.clock import Clock, peak_rss
from gpuengine.cli.live import LiveLine, count, live_line, size
from gpuengine.cli.sources import needed_inputs, open_engine
from gpuengine.errors import GpuEngineError, Interrupted

if TYPE_CHECKING:
    import pyarrow as pa

    from gpuengine.engine import Engine
    from gpuengine.language.program import Directive, Relation
    from gpuengine.spark_bridge import Materialisation

_SECONDS_TO_END = 5.0
_LOG_LINES = 12


def run_on_spark(arguments: argparse.Namespace) -> int:
    """Run a program on Spark; raises before anything is written if it can't be done.

    The work has a thread of its own: a call to the JVM can't be interrupted, but from another thread jobs can
    be cancelled, so that the work ends in order.
    """
    interrupts.GRACE_SECONDS = _SECONDS_TO_END + 1
    line = live_line(arguments.quiet)
    run = _Run(arguments, line)
    thread = threading.Thread(target=run.work, name="gpuengine-run", daemon=True)
    thread.start()
    try:
        while thread.is_alive():
            thread.join(0.2)
    except KeyboardInterrupt:
        run.stop()
        thread.join(_SECONDS_TO_END)
        raise
    finally:
        line.clear()
    if run.failure is not None:
        raise run.failure
    return 0


class _Run:
    """One run: `work` in one thread, `stop` from another; then `failure` is what it came to, if not well."""

    def __init__(self, arguments: argparse.Namespace, line: LiveLine) -> None:
        self.failure: BaseException | None = None
        self._arguments = arguments
        self._line = line
        self._clock = Clock()
        self._stopped = threading.Event()
        self._spark: Any = None

    def work(self) -> None:
        try:
            self._work()
        except BaseException as error:
            self.failure = error

    def stop(self) -> None:
        """End the work soon."""
        self._stopped.set()
        if self._spark is not None:
            self._spark.sparkContext.cancelAllJobs()

    def _tell(self, text: str) -> None:
        if self._stopped.is_set():
            raise Interrupted("interrupted; nothing was changed")
        self._line.show(text)

    def _work(self) -> None:
        from gpuengine.spark_bridge import materialise
        from gpuengine.spark_bridge.filesystem import FileSystem
        from gpuengine.spark_bridge.reading import find_dataset, read_dataset
        from gpuengine.spark_bridge.writing import check_targets, find_targets, write_results

        arguments, clock = self._arguments, self._clock
        clock.lap("startup")
        engine = open_engine(arguments)
        directives = engine.program.directives
        asked = list(dict.fromkeys(d.relation for d in directives if d.kind in ("output", "printsize")))
        wanted = asked if asked and arguments.save is None else None
        targets = find_targets(directives, arguments.output_dir) if arguments.output_dir is not None else []
        printed = _printed(directives, everything=arguments.output_dir is None)
        if printed and arguments.json:
            raise GpuEngineError(
                f"--json needs standard output, but {printed[0].relation} is printed there\n"
                "  hint: write it to a file (-D DIR), or leave out --json"
            )
        inputs = needed_inputs(engine, wanted)
        clock.lap("parse")
        self._tell("starting Spark")
        spark = self._spark = _start(arguments)
        files = FileSystem(spark)
        paths = [find_dataset(files, d.relation, d.params, arguments.fact_dir) for d in inputs]
        check_targets(spark, targets)
        clock.lap("session")
        frames: dict[str, Any] = {}
        for directive, path in zip(inputs, paths, strict=True):
            name = directive.relation
            self._tell(f"reading {name} from {path}")
            frame = read_dataset(spark, path, engine.declared(name), params=directive.params)
            frames[name] = frame if name not in frames else frames[name].unionAll(frame)
        clock.lap("read")
        with materialise(
            spark,
            arguments.program,
            frames,
            where=arguments.where,
            wanted=wanted,
            nulls=arguments.nulls,
            checkpoint=arguments.checkpoint,
            watch=self._tell,
            include_dirs=arguments.include_dir,
            macros={name: value for group in arguments.macro for name, value in group.items()},
            memory=arguments.memory,
            schemes=engine.asked_schemes,
            evaluators=engine.asked_evaluators,
        ) as results:
            clock.lap("evaluate")
            if arguments.save is not None:
                self._tell(f"saving {arguments.save}")
                results.save(arguments.save, replace=arguments.replace)
                clock.lap("save")
            self._tell("writing")
            write_results(
                spark, results, targets, on_written=lambda relation: self._tell(f"{relation} is written")
            )
            counts = results.counts
            sizes = {name: counts[name] for name in asked or engine.relations}
            self._line.clear()
            _print(engine, results, printed)
            clock.lap("write")
            self._report(engine, sizes, results, everything=not asked)

    def _report(
        self, engine: Engine, sizes: dict[str, int], results: Materialisation, *, everything: bool
    ) -> None:
        arguments, report, clock = self._arguments, results.report, self._clock
        shown = [d.relation for d in engine.program.directives if d.kind == "printsize"]
        if arguments.json:
            content = {
                "program": str(arguments.program),
                "relations": sizes,
                "seconds": {**clock.seconds, "total": clock.total},
                "peak_rss_bytes": peak_rss(),
                "spark": report.to_json(),
            }
            print(json.dumps(content, ensure_ascii=False))
        else:
            for name in list(sizes) if everything else shown:
                sys.stdout.write(f"{name}\t{sizes[name]}\n")
        if arguments.stats:
            _print_tables(sizes, report, clock)
        elif self._line.on:
            facts = ", ".join(f"{name} {count(rows)}" for name, rows in list(sizes.items())[:4])
            print(
                f"{facts}  ({clock.total:.2f} s, evaluation {clock.seconds['evaluate']:.2f} s on the "
                f"{report.where}: {report.why})",
                file=sys.stderr,
            )


def _start(arguments: argparse.Namespace) -> Any:
    from gpuengine.spark_bridge.launching import session

    with _log_aside():
        spark = session(
            master=arguments.master,
            app_name=f"gpuengine run {arguments.program.name}",
            rapids=arguments.rapids is not None,
            rapids_jar=arguments.rapids or None,
            conf=arguments.conf,
        )
    spark.sparkContext.setLogLevel("ERROR")
    return spark


@contextmanager
def _log_aside() -> Iterator[None]:
    """Have a JVM that is started inside write to a file instead of the terminal; if it does not start, the
    error tells what it wrote."""
    sys.stderr.flush()
    terminal = os.dup(2)
    with tempfile.TemporaryFile() as log:
        os.dup2(log.fileno(), 2)
        try:
            yield
        except GpuEngineError as error:
            log.seek(0)
            for text in log.read().decode(errors="replace").splitlines()[-_LOG_LINES:]:
                error.add_note(f"| {text}")
            raise
        finally:
            os.dup2(terminal, 2)
            os.close(terminal)


def _printed(directives: tuple[Directive, ...], *, everything: bool) -> list[Directive]:
    outputs = [d for d in directives if d.kind == "output"]
    return [d for d in outputs if everything or d.params.get("IO") == "stdout"]


def _print(engine: Engine, results: Materialisation, printed: list[Directive]) -> None:
    if not printed:
        return
    from gpuengine.io import write_stdout

    for directive in printed:
        relation = engine.declared(directive.relation)
        batches = _batches(relation, results[relation.name])
        write_stdout(relation.name, batches, relation.attributes, directive.params)
    sys.stdout.flush()


def _batches(relation: Relation, frame: Any) -> Iterator[pa.RecordBatch]:
    """The facts of a frame as a local engine would have them printed."""
    import pyarrow as pa

    from gpuengine.io.schema import arrow_schema, nullary
    from gpuengine.spark_bridge.transfer import arrow_batches

    for piece in arrow_batches(frame):
        table = pa.Table.from_batches([piece]) if isinstance(piece, pa.RecordBatch) else piece
        if not relation.arity:
            table = nullary(table.num_rows > 0)
        else:
            schema = arrow_schema(relation.attributes)
            table = table.rename_columns(schema.names).cast(schema)
        yield from table.to_batches()


def _print_tables(sizes: dict[str, int], report: Any, clock: Clock) -> None:
    from rich.console import Console

    from gpuengine.cli.report import table_of

    console = Console(stderr=True, highlight=False, width=None if sys.stderr.isatty() else 140)
    relations = table_of("relation", "facts")
    for name, rows in sizes.items():
        relations.add_row(name, f"{rows:,}")
    run = table_of("run", "")
    for phase, seconds in clock.seconds.items():
        run.add_row(f"{phase} (s)", f"{seconds:.3f}")
    run.add_row("evaluated", f"on the {report.where}: {report.why}")
    run.add_row("shuffled", size(report.shuffle_bytes))
    run.add_row("peak memory", size(peak_rss()))
    console.print(relations)
    console.print(run)
    if report.strata:
        strata = table_of("stratum", "seconds", "rounds", "shuffled", "method")
        strata.add_column("relations", overflow="fold")
        for stratum in report.strata:
            strata.add_row(
                f"{stratum.number + 1}",
                f"{stratum.seconds:.3f}",
                f"{len(stratum.rounds):,}",
                size(stratum.shuffle_bytes),
                stratum.method,
                ", ".join(stratum.relations),
            )
        console.print(strata)
