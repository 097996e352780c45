"""``gpuengine run --on spark``: datasets read, checked and written by Spark, and evaluated where it suits."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from gpuengine.cli.clock import Clock, peak_rss
from gpuengine.cli.interrupts import say_when_interrupted
from gpuengine.cli.live import count, size
from gpuengine.cli.sources import needed_inputs, open_engine
from gpuengine.cli.spark_work import SparkWork
from gpuengine.errors import DataError, GpuEngineError

if TYPE_CHECKING:
    import pyarrow as pa

    from gpuengine.engine import Engine
    from gpuengine.language.program import Directive, Relation
    from gpuengine.spark_bridge import Materialisation
    from gpuengine.spark_bridge.encoding import Encoded


def run_on_spark(arguments: argparse.Namespace) -> int:
    """Run a program on Spark; raises before anything is written if it can't be done."""
    return _Run(arguments).perform()


class _Run(SparkWork):
    """One run, from the program to its outputs."""

    def _work(self) -> None:
        from gpuengine.spark_bridge import materialise
        from gpuengine.spark_bridge.saved import check_target
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
            schemes=engine.asked_schemes,
            evaluators=engine.asked_evaluators,
        ) as results:
            clock.lap("evaluate")
            if arguments.save is not None:
                self._tell(f"saving {arguments.save}")
                results.save(arguments.save, replace=arguments.replace)
                say_when_interrupted(lambda: f"no output file was changed, but {arguments.save} is saved")
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
        from gpuengine.spark_bridge.filesystem import FileSystem
        from gpuengine.spark_bridge.reading import find_dataset, read_dataset

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


def _macros(arguments: argparse.Namespace) -> dict[str, str]:
    return {name: value for group in arguments.macro for name, value in group.items()}


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
