"""``run --on spark`` for RDF: tasks read files of triples, and the closure is written as a dataset."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

from gpuengine.cli.live import peak_rss
from gpuengine.cli.spark import SparkWork
from gpuengine.errors import GpuEngineError
from gpuengine.rdf_names import RULES, suffix_of

if TYPE_CHECKING:
    from gpuengine.spark_bridge.triples import MaterialisedTriples

CLOSURE = "closure"


def run_rdf_on_spark(arguments: argparse.Namespace) -> int:
    """Materialise triples on Spark, and write the closure; raises before anything is written, if at all."""
    return _RdfRun(arguments).perform()


class _RdfRun(SparkWork):
    """One run, from files of triples and rules to the closure."""

    def _work(self) -> None:
        from gpuengine.rdf.engine import as_rules
        from gpuengine.spark_bridge import materialise_triples
        from gpuengine.spark_bridge.datasets import check_targets
        from gpuengine.spark_bridge.triples import read_triples

        arguments, clock = self._arguments, self._clock
        clock.lap("startup")
        if arguments.json and arguments.output_dir is None:
            raise GpuEngineError("--json needs standard output, but the triples are printed there")
        files = [str(arguments.program), *arguments.files]
        rule_files = [name for name in files if suffix_of(PurePath(name)) == RULES]
        rules = [rule for name in rule_files for rule in as_rules(Path(name))]
        data = [name for name in files if name not in rule_files]
        if not data:
            raise GpuEngineError("there are no triples to run the rules over\n  hint: name files of them")
        spark = self._start(f"gpuengine run {arguments.program.name}")
        check_targets(spark, self._targets(arguments.format or "nq"))
        clock.lap("session")
        self._tell(f"reading {', '.join(data)}")
        frame = read_triples(spark, data)
        clock.lap("read")
        self._tell("materialising")
        with materialise_triples(
            spark,
            frame,
            rules=rules,
            profile=arguments.profile,
            where=arguments.where,
            memory=arguments.memory,
            schemes=dict(arguments.scheme),
            evaluators=dict(arguments.evaluator),
        ) as triples:
            clock.lap("evaluate")
            self._write(triples)
            clock.lap("write")

    def _targets(self, form: str) -> list[Any]:
        """Where the closure goes, if not to standard output."""
        from gpuengine.spark_bridge.datasets import PARQUET, TEXT, Target
        from gpuengine.spark_bridge.filesystem import join

        folder = self._arguments.output_dir
        if folder is None:
            return []
        path = join(folder, f"{CLOSURE}.{form}")
        return [Target(CLOSURE, path, PARQUET if form == "parquet" else TEXT, {})]

    def _write(self, found: MaterialisedTriples) -> None:
        from gpuengine.spark_bridge.datasets import write_results

        arguments = self._arguments
        whole = found.whole().cache()
        count = whole.count()
        form = arguments.format or ("nq" if whole.where("g is not null").limit(1).count() else "nt")
        frame = whole if form == "parquet" else found.lines(whole, graphs=form.startswith("nq"))
        targets = self._targets(form)
        self._tell("writing")
        if targets:
            write_results(self._spark, {CLOSURE: frame}, targets)
        else:
            self._line.clear()
            for line in _lines(frame):
                sys.stdout.write(f"{line}\n")
            sys.stdout.flush()
        whole.unpersist()
        self._line.clear()
        self._report(count, found, targets[0].path if targets else None)

    def _report(self, triples: int, found: MaterialisedTriples, written: str | None) -> None:
        arguments, clock = self._arguments, self._clock
        seconds = {**clock.seconds, "total": clock.total}
        if arguments.json:
            report = {
                "files": [str(arguments.program), *arguments.files],
                "language": "rdf",
                "profile": arguments.profile,
                "triples": triples,
                "written": written,
                "seconds": seconds,
                "peak_rss": peak_rss(),
                "spark": {"where": found.where, "why": found.why},
            }
            print(json.dumps(report, ensure_ascii=False))
        elif arguments.output_dir is not None:
            print(f"triples\t{triples}")
        if arguments.stats:
            print("  ".join(f"{name} {value:.2f} s" for name, value in seconds.items()), file=sys.stderr)


def _lines(frame: Any) -> Iterator[str]:
    from gpuengine.spark_bridge.frames import arrow_batches

    for batch in arrow_batches(frame):
        yield from batch.column(0).to_pylist()
