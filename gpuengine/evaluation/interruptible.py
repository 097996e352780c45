"""Run something long so that Ctrl-C ends it and its progress can be shown meanwhile."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import copy_context

import numpy as np

from gpuengine.errors import GpuEngineError, Interrupted, TimedOut
from gpuengine.evaluation.progress import Progress

Watcher = Callable[[Progress], None]
_WATCH_SECONDS = 0.1


def run_interruptibly(
    work: Callable[[], None],
    stop: np.ndarray,
    progress: Progress,
    watch: Watcher | None,
    timeout: float | None = None,
) -> BaseException | None:
    """Run in a second thread, so that the main one can see Ctrl-C and show progress while kernels run.

    Ctrl-C sets ``stop[0]``, upon which `work` must end soon, and raises `Interrupted`; so does an error of
    `watch`, which is then raised. Nothing is raised before `work` has ended. If it was done all the same,
    what came too late is returned, and it is for the caller to say so.

    After `timeout` seconds `stop` is set as well, and `TimedOut` is raised, from whatever thread this is
    called; if `work` was done all the same, nothing is.
    """
    if timeout is None:
        return _run_interruptibly(work, stop, progress, watch)
    is_late = threading.Event()

    def end() -> None:
        is_late.set()
        stop[0] = 1

    timer = threading.Timer(timeout, end)
    timer.daemon = True
    timer.start()
    try:
        return _run_interruptibly(work, stop, progress, watch)
    except Interrupted as error:
        if not is_late.is_set():
            raise
        raise out_of_time(timeout, progress) from error
    finally:
        timer.cancel()


def check_timeout(timeout: float | None) -> None:
    """Raise if it is no number of seconds."""
    if timeout is None:
        return
    if (
        isinstance(timeout, bool)
        or not isinstance(timeout, int | float)
        or not (0 < timeout < threading.TIMEOUT_MAX)
    ):
        raise GpuEngineError(f"timeout must be a number of seconds above 0, not {timeout!r}")


def check_callable(name: str, given: object) -> None:
    """Raise if what is to be called can't be."""
    if given is not None and not callable(given):
        raise GpuEngineError(f"{name} must be a function, or None, not {given!r}")


def out_of_time(timeout: float, progress: Progress) -> TimedOut:
    """The error that says where it was."""
    where = f"\n  while {progress.where}" if progress.where else ""
    return TimedOut(f"out of time: stopped after {timeout:g} s; nothing was changed{where}")


def _run_interruptibly(
    work: Callable[[], None], stop: np.ndarray, progress: Progress, watch: Watcher | None
) -> BaseException | None:
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
        limited = copy_context()  # what limits the caller limits the work
        thread = threading.Thread(target=limited.run, args=(guarded,), name="gpuengine-fixpoint", daemon=True)
        thread.start()
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
            interrupted = Interrupted("interrupted; nothing was changed")
            interrupted.where = progress.where
            raise interrupted from failure[0]
        raise not_kept(stopped[0])
    if failure:
        raise failure[0]
    return stopped[0] if stopped else None


def not_kept(late: BaseException) -> BaseException:
    """What to raise where what came too late to stop the work has its result dropped all the same."""
    if isinstance(late, KeyboardInterrupt):
        interrupted = Interrupted("interrupted; nothing was changed")
        interrupted.__cause__ = late
        return interrupted
    late.add_note("raised by `watch`, which ends the work: nothing was changed")
    return late


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
