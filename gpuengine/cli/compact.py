"""``gpuengine compact``: fold the journal of a knowledge base into its tables."""

from __future__ import annotations

import argparse
import json

from gpuengine.cli.failures import say_when_failed, say_when_interrupted
from gpuengine.cli.knowledge_bases import refuse_those_of_spark
from gpuengine.cli.live import Clock, live_line, size


def compact(arguments: argparse.Namespace) -> int:
    """Compact, and say what that came to."""
    from gpuengine.maintenance.store import Store

    clock = Clock()
    clock.lap("startup")
    line = live_line(arguments.quiet)
    say_when_interrupted(lambda: "the knowledge base holds what it held")
    refuse_those_of_spark(arguments.kb)
    try:
        with Store.open(arguments.kb) as store:
            line.show(f"compacting {arguments.kb}")
            before = store.describe()
            store.compact()
            say_when_failed("the knowledge base is compacted")
            after = store.describe()
    finally:
        line.clear()
    clock.lap("compact")
    folded = before["journal"]["commits"]
    if arguments.json:
        content = {
            "commits": folded,
            "generation": after["generation"],
            "bytes": {"before": before["bytes"], "after": after["bytes"]},
            "seconds": {**clock.seconds, "total": clock.total},
        }
        print(json.dumps(content))
    elif folded:
        plural = "s" if folded != 1 else ""
        print(f"{folded:,} commit{plural} folded: {size(before['bytes'])} before, {size(after['bytes'])} now")
    else:
        print(f"nothing to fold: {size(after['bytes'])}")
    return 0
