"""Run something long so that Ctrl-C ends it and its progress can be shown meanwhile."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

from gpuengine.errors import Interrupted
from gpuengine.evaluation.progress import Progress

Watcher = Callable[[Progress], None]
_WATCH_SECONDS = 0.1


def run_interruptibly(
    work: Callable[[], None], stop: np.ndarray, progress: Progress, watch: Watcher | None
) -> BaseException | None:
    """Run in a second thread, so that the main one can see Ctrl-C and show progress while kernels run.

    Ctrl-C sets ``stop[0]``, upon which `work` must end soon, and raises `Interrupted`; so does an error of
    `watch`, which is then raised. Nothing is raised before `work` has ended. If it was done all the same,
    what came too late is returned, and it is for the caller to say so.
    """
    if threading.current_thread() is not threading.main_thread():
        work()
        return None
    failure: list[BaseException] = []
    stopped: list[BaseException] = []
    finished = threading.Event()  # a thread whose join() is interrupted is called dead while it still runs

    def guarded() -> None:
        try:
            work()
        except BaseException as error:
            failure.append(error)
        finally:
            finished.set()

    def end(error: BaseException) -> None:
        stopped.append(error)
        stop[0] = 1

    with _on_interrupt(lambda: end(KeyboardInterrupt())):
        threading.Thread(target=guarded, name="gpuengine-fixpoint", daemon=True).start()
        is_done = False
        while not is_done:  # so that `watch` sees the end as well
            is_done = finished.is_set()
            try:
                finished.wait(_WATCH_SECONDS)
                if watch is not None and not stopped:
                    watch(progress)
            except BaseException as error:
                end(error)
    if stopped and failure:
        if isinstance(stopped[0], KeyboardInterrupt):
            raise Interrupted("interrupted; nothing was changed") from failure[0]
        raise stopped[0]
    if failure:
        raise failure[0]
    return stopped[0] if stopped else None


@contextmanager
def _on_interrupt(act: Callable[[], None]) -> Iterator[None]:
    """Have Ctrl-C do something instead of raising wherever the main thread is; not if it is not Python's."""
    previous = signal.getsignal(signal.SIGINT)
    if not callable(previous):
        yield
        return
    signal.signal(signal.SIGINT, lambda number, frame: act())
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)
