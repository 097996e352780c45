"""Run something long so that Ctrl-C ends it and its progress can be shown meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np

from gpuengine.errors import Interrupted
from gpuengine.evaluation.progress import Progress

Watcher = Callable[[Progress], None]
_WATCH_SECONDS = 0.1


def run_interruptibly(
    work: Callable[[], None], stop: np.ndarray, progress: Progress, watch: Watcher | None
) -> bool:
    """Run in a second thread, so that the main one can see Ctrl-C and show progress while kernels run.

    Ctrl-C sets ``stop[0]``, upon which `work` must end soon, and raises `Interrupted`. If the work was done
    all the same, because Ctrl-C came too late, the result is True and it is for the caller to say so.
    """
    if threading.current_thread() is not threading.main_thread():
        work()
        return False
    failure: list[BaseException] = []
    finished = threading.Event()  # a thread whose join() is interrupted is called dead while it still runs

    def guarded() -> None:
        try:
            work()
        except BaseException as error:
            failure.append(error)
        finally:
            finished.set()

    threading.Thread(target=guarded, name="gpuengine-fixpoint", daemon=True).start()
    interrupted = False
    while not finished.is_set():
        try:
            finished.wait(_WATCH_SECONDS)
            if watch is not None and not interrupted:
                watch(progress)
        except KeyboardInterrupt:
            stop[0] = 1
            interrupted = True
    if interrupted and failure:
        raise Interrupted("interrupted; nothing was changed") from failure[0]
    if failure:
        raise failure[0]
    return interrupted
