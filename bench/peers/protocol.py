"""What every peer process shares: its command line and the JSON object it prints."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench.rules import RuleError, Rules, read_rules

# A peer that cannot take a program says so on standard error and ends with this code.
NOT_APPLICABLE = 3


class NotApplicable(Exception):
    """The peer has no reasonable way to run this program; the message says why."""


@dataclass(frozen=True, slots=True)
class Task:
    """One program on one folder of facts."""

    rules: Rules
    facts: Path
    threads: int
    variant: str


@dataclass(frozen=True, slots=True)
class Answer:
    """Sizes of the printed relations, seconds by phase, the peer's version."""

    relations: dict[str, int]
    seconds: dict[str, float]
    version: str
    rounds: int | None = None


def main(solve: Callable[[Task], Answer]) -> int:
    """Read the command line, solve, print the answer as one JSON object."""
    parser = argparse.ArgumentParser()
    parser.add_argument("program", type=Path)
    parser.add_argument("-F", dest="facts", type=Path, required=True)
    parser.add_argument("-j", dest="threads", type=int, default=2)
    parser.add_argument("--variant", default="")
    arguments = parser.parse_args()
    try:
        task = Task(read_rules(arguments.program), arguments.facts, arguments.threads, arguments.variant)
        answer = solve(task)
    except (NotApplicable, RuleError) as reason:
        print(reason, file=sys.stderr)
        return NOT_APPLICABLE
    print(
        json.dumps(
            {
                "relations": answer.relations,
                "seconds": answer.seconds,
                "version": answer.version,
                "rounds": answer.rounds,
            }
        )
    )
    return 0
