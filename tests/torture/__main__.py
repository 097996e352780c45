"""``python -m tests.torture --minutes N [--seed S] [--only fuzz,streams,...]``: see the package."""

from __future__ import annotations

import argparse
import sys
import time

from tests.torture.runner import UNITS, Runner


def main(arguments: list[str] | None = None) -> int:
    """0: all went well; 1: something failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.torture", description=__doc__)
    parser.add_argument("--minutes", type=float, help="go on for so long")
    parser.add_argument("--cases", type=int, help="do so many cases of each kind instead")
    parser.add_argument("--seed", type=int, help="the first seed of each kind (default: by the clock)")
    parser.add_argument("--only", default=",".join(UNITS), help="kinds, separated by commas: %(default)s")
    parser.add_argument("--processes", type=int, default=2, help="workers at a time (default: %(default)s)")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--seconds", type=float, default=float("inf"), help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    kinds = tuple(options.only.split(","))
    unknown = [kind for kind in kinds if kind not in UNITS]
    if unknown:
        parser.error(f"no such kind: {', '.join(unknown)}; there are {', '.join(UNITS)}")
    if options.minutes is None and options.cases is None:
        parser.error("say for how long (--minutes), or how many cases (--cases)")
    seed = int(time.time()) % 1_000_000 * 1000 if options.seed is None else options.seed
    if options.worker:
        from tests.torture.kinds import KINDS  # what a runner does not need to import
        from tests.torture.worker import work

        work(KINDS[kinds[0]], seed, options.cases, options.seconds)
    runner = Runner(kinds, seed, options.minutes, options.cases, options.processes)
    failures = runner.run()
    print(runner.counts())
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
