"""An engine for tests of the harness: a breadth-first closure, as a process with our command line."""

import argparse
import json
import sys
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from bench.contenders import OURS, Reported, read_json
from bench.prepare import Prepared


@dataclass(frozen=True)
class StandIn:
    """Runs this file in place of an engine; `extra` is added to every size, `mode` makes it misbehave."""

    name: str = OURS
    family: str = OURS
    extra: int = 0
    mode: str = "closure"

    def missing(self) -> str | None:
        return None

    def command(self, prepared: Prepared, threads: int, scratch: Path) -> list[str]:
        return [sys.executable, "-m", "tests.bench.stand_in", self.mode, str(prepared.facts), str(self.extra)]

    def read(self, stdout: str) -> Reported:
        return read_json(stdout)


def closure_size(facts: Path) -> int:
    """Pairs in the transitive closure of ``edge.facts``."""
    successors = defaultdict(set)
    for line in (facts / "edge.facts").read_text().splitlines():
        a, b = line.split("\t")
        successors[a].add(b)
    total = 0
    for start in list(successors):
        seen, frontier = set(), {start}
        while frontier:
            frontier = {b for a in frontier for b in successors.get(a, ())} - seen
            seen |= frontier
        total += len(seen)
    return total


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("mode")
    parser.add_argument("facts", type=Path)
    parser.add_argument("extra", type=int)
    options = parser.parse_args()
    if options.mode == "sleep":
        time.sleep(60)
    if options.mode == "crash":
        sys.exit("out of luck")
    if options.mode == "babble":
        print("hello")
        return
    if options.mode == "inapplicable":
        print("cannot do that", file=sys.stderr)
        sys.exit(3)
    size = closure_size(options.facts) + options.extra
    print(json.dumps({"relations": {"path": size}, "seconds": {"load": 0.1, "evaluate": 0.25}, "rounds": 5}))


if __name__ == "__main__":
    main()
