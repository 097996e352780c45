"""One process that runs cases of one kind, seed after seed, and tells its runner line by line.

A line is ``@begin SEED``, ``@done SEED COUNT`` or ``@failed SEED TEXT`` with the text as JSON.
"""

from __future__ import annotations

import faulthandler
import json
import os
import sys
import time
import traceback
from collections.abc import Callable

MOST_TEXT = 20_000


def work(run: Callable[[int], int], seed: int, cases: int, seconds: float) -> None:
    """So many cases, or as many as begin within so many seconds."""
    faulthandler.enable()
    told = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what a case prints is not for the runner
    until = time.monotonic() + seconds
    for one in range(seed, seed + cases):
        if time.monotonic() > until:
            break
        print(f"@begin {one}", file=told)
        try:
            count = run(one)
        except (KeyboardInterrupt, Exception):
            text = json.dumps(traceback.format_exc()[-MOST_TEXT:])
            print(f"@failed {one} {text}", file=told)
        else:
            print(f"@done {one} {count}", file=told)
    told.flush()
    sys.stderr.flush()
    os._exit(0)  # without the threads and pools that a case may have left
