"""``run``, ``update`` and ``show`` with Spark: datasets that it reads, checks and writes, and what it saved.

The work has a thread of its own, so that it can be watched and ended.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import tempfile
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuengine.cli import failures
from gpuengine.cli.failures import say_when_failed, say_when_interrupted
from gpuengine.cli.functors import functions_of
from gpuengine.cli.knowledge_bases import is_knowledge_base
from gpuengine.cli.live import Clock, LiveLine, count, live_line, peak_rss, size
from gpuengine.cli.show import clause_texts, print_table
from gpuengine.cli.sources import needed_inputs, open_engine
from gpuengine.cli.values import Operation
from gpuengine.errors import DataError, GpuEngineError, Interrupted, StoreError

if TYPE_CHECKING:
    import pyarrow as pa

    from gpuengine.engine import Engine
    from gpuengine.language.program import Directive, Relation
    from gpuengine.spark_bridge import Materialisation
    from gpuengine.spark_bridge.encoding import Encoded

_SECONDS_TO_END = 5.0
_LOG_LINES = 6


class SparkWork(ABC):
    """Something to do on Spark. `perform` has a thread of its own do it: a call to the JVM can't be
    interrupted, but from another thread jobs can be cancelled, so that the work ends in order."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self._arguments = arguments
        self._line: LiveLine = live_line(arguments.quiet)
        self._clock = Clock()
        self._stopped = threading.Event()
        self._spark: Any = None
        self._failure: BaseException | None = None

    @abstractmethod
    def _work(self) -> None:
        """Do it, by way of `_tell` and `_start`."""

    def perform(self) -> int:
        """Do the work and wait for it; raises what it raises."""
        failures.GRACE_SECONDS = _SECONDS_TO_END + 1
        thread = threading.Thread(target=self._guarded, name="gpuengine-spark", daemon=True)
        thread.start()
        try:
            while thread.is_alive():
                thread.join(0.2)
        except KeyboardInterrupt:
            self._stop()
            thread.join(_SECONDS_TO_END)
            raise
        finally:
            self._line.clear()
        if self._failure is not None:
            raise self._failure
        return 0

    def _guarded(self) -> None:
        try:
            self._work()
        except BaseException as error:
            self._failure = error

    def _stop(self) -> None:
        self._stopped.set()
        if self._spark is not None:
            # The signal may have ended the JVM too; what is to be told is the interrupt.
            with suppress(Exception):
                self._spark.sparkContext.cancelAllJobs()

    def _tell(self, text: str) -> None:
        """Show what is going on; ends the work if it was stopped."""
        if self._stopped.is_set():
            raise Interrupted("interrupted; nothing was changed")
        self._line.show(text)

    def _start(self, name: str) -> Any:
        """A session as the arguments ask for."""
        from gpuengine.spark_bridge.sessions import session

        arguments = self._arguments
        self._tell("starting Spark")
        with _log_aside():
            self._spark = session(
                master=arguments.master,
                app_name=name,
                rapids=arguments.rapids is not None,
                rapids_jar=arguments.rapids or None,
                conf=arguments.conf,
            )
        self._spark.sparkContext.setLogLevel("ERROR")
        return self._spark


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
            for text in telling_lines(log.read().decode(errors="replace")):
                error.add_note(f"| {text}")
            raise
        finally:
            os.dup2(terminal, 2)
            os.close(terminal)


def telling_lines(log: str) -> list[str]:
    """The last lines of a log that say what went wrong, or else just the last ones."""
    lines = [line for line in log.splitlines() if line.strip() and not re.match(r"\s+(at|\.\.\.) ", line)]
    telling = [line for line in lines if re.search(r"\bERROR\b|Exception|Error:|^Caused by", line)]
    return list(dict.fromkeys(telling or lines))[-_LOG_LINES:]


def run_on_spark(arguments: argparse.Namespace) -> int:
    """Run a program on Spark; raises before anything is written if it can't be done."""
    return _Run(arguments).perform()


class _Run(SparkWork):
    """One run, from the program to its outputs."""

    def _work(self) -> None:
        from gpuengine.spark_bridge import materialise
        from gpuengine.spark_bridge.datasets import check_targets, find_targets, write_results
        from gpuengine.spark_bridge.saved import check_target

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
        spark = self._start(f"gpuengine run {arguments.program.name}")
        check_targets(spark, targets)
        if arguments.save is not None:
            check_target(spark, engine.program, arguments.save, replace=arguments.replace)
        clock.lap("session")
        facts = self._facts(engine, inputs)
        clock.lap("read")
        with materialise(
            spark,
            arguments.program,
            facts,
            where=arguments.where,
            wanted=wanted,
            nulls=arguments.nulls,
            checkpoint=arguments.checkpoint,
            watch=self._tell,
            include_dirs=arguments.include_dir,
            macros=_macros(arguments),
            memory=arguments.memory,
            schemes=engine.options.schemes,
            evaluators=engine.options.evaluators,
            **functions_of(arguments),
        ) as results:
            clock.lap("evaluate")
            if arguments.save is not None:
                self._tell(f"saving {arguments.save}")
                results.save(arguments.save, replace=arguments.replace)
                say_when_interrupted(lambda: f"no output file was changed, but {arguments.save} is saved")
                say_when_failed(f"{arguments.save} is saved")
                clock.lap("save")
            self._tell("writing")
            write_results(
                spark,
                results,
                targets,
                on_written=lambda relation: self._tell(f"{relation} is written"),
                on_replaced=_say_what_is_replaced,
            )
            counts = results.counts
            sizes = {name: counts[name] for name in asked or engine.relations}
            self._line.clear()
            _print(engine, results, printed)
            clock.lap("write")
            self._report(engine, sizes, results, everything=not asked)

    def _facts(self, engine: Engine, inputs: list[Directive]) -> dict[str, Any] | Encoded:
        """The inputs as frames, or encoded: those that are saved, or all saved now."""
        arguments, spark = self._arguments, self._spark
        if arguments.encoded is None:
            return self._frames(engine, inputs)
        from gpuengine.spark_bridge import encode, load_encoded
        from gpuengine.spark_bridge.encoding import is_encoded

        if not is_encoded(spark, arguments.encoded):
            frames = self._frames(engine, inputs)
            self._tell(f"encoding to {arguments.encoded}")
            encode(
                spark,
                arguments.program,
                frames,
                nulls=arguments.nulls,
                include_dirs=arguments.include_dir,
                macros=_macros(arguments),
            ).save(arguments.encoded)
        elif not arguments.no_warn:
            self._line.clear()
            print(f"note: the inputs are those in {arguments.encoded}; -F is not read", file=sys.stderr)
        encoded = load_encoded(spark, arguments.encoded)
        for directive in inputs:
            if directive.relation not in encoded.frames:
                raise DataError(
                    f"{arguments.encoded} has no facts of {directive.relation}\n"
                    "  hint: delete it, and it is written anew; or name another directory"
                )
        return encoded

    def _frames(self, engine: Engine, inputs: list[Directive]) -> dict[str, Any]:
        from gpuengine.spark_bridge.datasets import find_dataset, read_dataset
        from gpuengine.spark_bridge.filesystem import FileSystem

        files = FileSystem(self._spark)
        paths = [find_dataset(files, d.relation, d.params, self._arguments.fact_dir) for d in inputs]
        frames: dict[str, Any] = {}
        for directive, path in zip(inputs, paths, strict=True):
            name = directive.relation
            self._tell(f"reading {name} from {path}")
            frame = read_dataset(self._spark, path, engine.declared(name), params=directive.params)
            frames[name] = frame if name not in frames else frames[name].unionAll(frame)
        return frames

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


def _say_what_is_replaced(done: list[str], left: list[str]) -> None:
    told = f"replaced: {', '.join(done)}; not replaced: {', '.join(left)}"
    say_when_interrupted(lambda: told if left else "all output files are written")


def _macros(arguments: argparse.Namespace) -> dict[str, str]:
    return {name: value for group in arguments.macro for name, value in group.items()}


def _printed(directives: tuple[Directive, ...], *, everything: bool) -> list[Directive]:
    from gpuengine.cli.outputs import as_printed
    from gpuengine.language.parameters import is_a_stream

    outputs = [d for d in directives if d.kind == "output"]
    if everything:
        return [as_printed(d) for d in outputs]
    return [d for d in outputs if is_a_stream(d.params)]


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
    from gpuengine.spark_bridge.frames import arrow_batches

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


def update_on_spark(arguments: argparse.Namespace) -> int:
    """Do what was asked for in the order given: each step wholly or not at all."""
    if is_knowledge_base(Path(arguments.kb)):
        raise StoreError(
            f"{arguments.kb} is a knowledge base of one engine, not one that Spark has saved\n"
            "  hint: leave out --on spark"
        )
    return _Update(arguments).perform()


class _Update(SparkWork):
    def _work(self) -> None:
        from gpuengine.spark_bridge.saved import SavedMaterialisation

        arguments, clock = self._arguments, self._clock
        say_when_interrupted(lambda: f"{arguments.kb} is as it was")
        clock.lap("startup")
        spark = self._start(f"gpuengine update {arguments.kb}")
        clock.lap("session")
        self._tell(f"opening {arguments.kb}")
        saved = SavedMaterialisation(spark, arguments.kb)
        clock.lap("open")
        first = saved.generation
        gained: dict[str, int] = {}
        reports: list[dict[str, Any]] = []
        steps = list(_steps(arguments.operations))

        def outcome() -> str:
            done = saved.generation - first
            return _done(done, len(steps)) if done else f"{arguments.kb} is as it was"

        say_when_interrupted(outcome)
        for number, (kind, inputs) in enumerate(steps, 1):
            self._tell(f"{kind} {number}/{len(steps)}  {', '.join(inputs)}")
            change = saved.insert if kind == "insert" else saved.delete
            counts = change(inputs, nulls=arguments.nulls, watch=self._tell)
            say_when_failed(_done(number, len(steps)))
            for name, rows in counts.items():
                gained[name] = gained.get(name, 0) + rows
            if saved.report is not None:
                reports.append(saved.report.to_json())
        clock.lap("update")
        self._line.clear()
        changed = {name: rows for name, rows in gained.items() if rows}
        if arguments.json:
            seconds = {**clock.seconds, "total": clock.total}
            content = {"relations": changed, "facts": saved.counts, "seconds": seconds, "spark": reports}
            print(json.dumps(content, ensure_ascii=False))
            return
        for name, rows in changed.items():
            sys.stdout.write(f"{name}\t{rows:+}\n")


def _done(number: int, of: int) -> str:
    return "the update is committed" if number == of else f"{number} of {of} steps are committed"


def _steps(operations: Iterable[Operation]) -> Iterable[tuple[str, dict[str, str]]]:
    """Operations that can be one change: all of one kind, a dataset for each relation."""
    kind, inputs = "", dict[str, str]()
    for operation in operations:
        if inputs and (operation.kind != kind or operation.relation in inputs):
            yield kind, inputs
            inputs = {}
        kind = operation.kind
        inputs[operation.relation] = operation.given
    yield kind, inputs


def show_saved(arguments: argparse.Namespace) -> int:
    """Print its relations, how many facts they have, and how to read and change it."""
    from gpuengine.language.editing import ProgramText
    from gpuengine.planning.prepared import prepare
    from gpuengine.spark_bridge.saved import MANIFEST, VERSION

    path: Path = arguments.kb
    try:
        saved: dict[str, Any] = json.loads((path / MANIFEST).read_text(encoding="utf-8"))
        if saved["version"] != VERSION:
            raise StoreError(f"{path / MANIFEST}: version {saved['version']!r} is not known")
        prepared = prepare(ProgramText.from_json(saved["program"]), None)
        relations: dict[str, dict[str, Any]] = {
            name: {
                "attributes": {a.name: a.type.name for a in prepared.source.relations[name].attributes},
                "facts": _rows(saved["relations"], prepared.stored(name)),
                "stated": _rows(saved["stated"], prepared.stored(name)),
            }
            for name in saved["wanted"]
        }
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise StoreError(f"{path / MANIFEST} is damaged: {error}") from error
    rules = clause_texts([rule for rule in prepared.source.rules if rule.body])
    if arguments.json:
        content: dict[str, Any] = {
            "path": str(path),
            "saved_by": "spark",
            "version": saved["version"],
            "generation": saved["generation"],
            "relations": relations,
        }
        if arguments.rules:
            content["rule_texts"] = rules
        print(json.dumps(content, ensure_ascii=False))
        return 0
    print(f"{path} was saved by Spark, as Parquet: generation {saved['generation']}\n")
    rows = [("relation", "facts", "stated")]
    for name, one in relations.items():
        signature = ", ".join(f"{attribute}: {type}" for attribute, type in one["attributes"].items())
        rows.append((f"{name}({signature})", f"{one['facts']:,}", f"{one['stated']:,}"))
    print_table(rows)
    if arguments.rules:
        print("\n" + "\n".join(rules) if rules else "\nno rules")
    print(
        f"\nhint: gpuengine update {path} --on spark --insert RELATION=DATASET adds facts;\n"
        f"  in Python, gpuengine.spark_bridge.open(spark, '{path}') reads and changes it"
    )
    return 0


def _rows(pieces: dict[str, Any], name: str) -> int:
    return sum(int(rows) for _, rows in pieces.get(name, ()))
