"""``gpuengine update --on spark``: change the facts of a materialisation that Spark has saved."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from gpuengine.cli.arguments_kb import Operation, is_knowledge_base
from gpuengine.cli.interrupts import say_when_interrupted
from gpuengine.cli.spark_work import SparkWork
from gpuengine.errors import GpuEngineError, StoreError


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
        gained: dict[str, int] = {}
        reports: list[dict[str, Any]] = []
        steps = list(_steps(arguments.operations))
        for number, (kind, inputs) in enumerate(steps, 1):
            self._tell(f"{kind} {number}/{len(steps)}  {', '.join(inputs)}")
            change = saved.insert if kind == "insert" else saved.delete
            try:
                found = change(inputs, nulls=arguments.nulls, watch=self._tell)
            except GpuEngineError as error:
                if number > 1:
                    error.add_note(f"note: {_done(number - 1, len(steps))}")
                raise
            say_when_interrupted(lambda done=number: _done(done, len(steps)))  # type: ignore[misc]
            for name, rows in found.items():
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
