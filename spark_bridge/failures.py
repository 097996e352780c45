"""What fails in Spark, told as an error of this package: what failed, where, and what to do."""

from __future__ import annotations

import re
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from gpuengine import errors
from gpuengine.errors import GpuEngineError, Interrupted, ProgramErrors, SparkError
from gpuengine.spark_bridge.versions import has

_SHIP = (
    "ship the wheel (spark-submit --py-files gpuengine-<version>-py3-none-any.whl), or install it on\n"
    "    the workers (pip install gpuengine), or send an environment by spark.archives (venv-pack)"
)
_INSTALL = (
    "a wheel on --py-files brings no dependencies: install {package} on the workers (pip install\n"
    "    gpuengine does), or send an environment by spark.archives (venv-pack)"
)
_PYTHON = "set PYSPARK_PYTHON to a Python of the same version on driver and workers"
# Signs of what ran out, in the order in which they are looked for, and what to do about it.
_EXHAUSTED = (
    (
        r"spark\.driver\.maxResultSize",
        "results are larger than the driver may fetch",
        "raise spark.driver.maxResultSize, or write the relation from the cluster instead of fetching it",
    ),
    (
        r"No space left on device",
        "a disk is full",
        "let spark.local.dir point to a larger one; cached rounds and shuffles are kept there",
    ),
    (
        r"java\.lang\.OutOfMemoryError|GC overhead limit|SparkOutOfMemoryError|Not enough memory to build",
        "Spark ran out of memory",
        "raise spark.executor.memory (spark.driver.memory on local masters), or spark.sql.shuffle.partitions",
    ),
    (
        r"\bMemoryError\b|Python worker exited unexpectedly|Python worker process terminated",
        "a Python worker ran out of memory, or was killed",
        "raise spark.executor.memoryOverhead, or use more partitions so that each task has less to do",
    ),
    (
        r"ExecutorLostFailure|Executor heartbeat timed out|exited caused by one of the running tasks",
        "executors were lost again and again",
        "see their logs; if they were killed for memory, raise spark.executor.memory and memoryOverhead",
    ),
)
_NOTE = "\nin rule: "
"""How the note begins that an engine adds to errors; a traceback has it after the message."""

_CANCELLED = (
    r"cancelled part of cancelled job group|Job \d+ cancelled|SparkContext was shut down|JOB_CANCELLED"
)


@contextmanager
def spark_failures(what: str) -> Iterator[None]:
    """Raise failures of Spark inside as errors of this package; `what` says what was being done.

    An error of this package that a task raised is raised here as the task raised it. An interrupt (Ctrl-C)
    cancels the session's jobs, as PySpark does.
    """
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        with _without_log(), _plain_interrupts():
            yield
    except KeyboardInterrupt:
        _cancel_jobs()
        raise Interrupted("interrupted; nothing was changed") from None
    except (Py4JError, PySparkException) as error:
        raise translate(what, error) from error


@contextmanager
def _plain_interrupts() -> Iterator[None]:
    """Have Ctrl-C raise `KeyboardInterrupt`, and nothing else.

    PySpark's handler calls the JVM by the connection that waits for the answer of another call, and fails.
    """
    before: Any = signal.getsignal(signal.SIGINT)
    if getattr(before, "__module__", "") != "pyspark.core.context" or not _in_main_thread():
        yield
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


@contextmanager
def _without_log() -> Iterator[None]:
    """PySpark would write the stack traces of failed queries to the terminal; the error tells the same."""
    if not has("loggers of queries"):
        yield
        return
    from pyspark.logger import PySparkLogger

    loggers = [PySparkLogger.getLogger(f"{kind}QueryContextLogger") for kind in ("SQL", "DataFrame")]
    before = [logger.disabled for logger in loggers]
    for logger in loggers:
        logger.disabled = True
    try:
        yield
    finally:
        for logger, was_disabled in zip(loggers, before, strict=True):
            logger.disabled = was_disabled


def translate(what: str, error: BaseException) -> GpuEngineError:
    """The error of this package that tells the same."""
    from py4j.protocol import Py4JNetworkError

    if isinstance(error, Py4JNetworkError):
        return SparkError(f"{what}: the JVM of Spark has ended\n  hint: see what it wrote to the terminal")
    text = _full_text(error)
    traceback = _worker_traceback(text)
    return (
        _own_error(traceback)
        or _missing_package(what, traceback)
        or _cancelled(text)
        or _exhausted(what, text)
        or SparkError(f"{what}: {_reason(traceback, text)}")
    )


def _cancel_jobs() -> None:
    from py4j.protocol import Py4JError
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    context: Any = SparkContext._active_spark_context
    if context is None:
        remote: Any = SparkSession.getActiveSession()
        if remote is not None:
            # What a server of Spark Connect does for this session, and for no other.
            with suppress(Exception):
                remote.interruptAll()
        return
    # All of them: the interrupt cut the connection by which the JVM knew this thread and its job group.
    # Whatever goes wrong here, the interrupt is what the user has to be told.
    with suppress(Py4JError, OSError):
        context.cancelAllJobs()


def _full_text(error: Any) -> str:
    """Message and stack traces, those of the JVM and of Python workers included."""
    parts = [str(getattr(error, "_desc", None) or ""), str(getattr(error, "_stackTrace", None) or "")]
    if not any(parts):
        parts = [str(error)]
    return "\n".join(parts)


def _worker_traceback(text: str) -> str:
    """The traceback of a Python worker, up to where the JVM's own begins; empty if there is none."""
    start = text.find("Traceback (most recent call last):")
    if start < 0:
        return ""
    traceback = text[start:]
    end = re.search(r"\n\s*\n?\s*at [\w.$/]+\(|\n\s*JVM stacktrace:|\nDriver stacktrace:", traceback)
    return traceback[: end.start()].rstrip() if end else traceback.rstrip()


def _own_error(traceback: str) -> GpuEngineError | None:
    """The last error of this package in a traceback is the one that left the task."""
    matches = list(re.finditer(r"^gpuengine\.errors\.(\w+): ?", traceback, re.MULTILINE))
    if not matches:
        return None
    kind: Any = getattr(errors, matches[-1][1], None)
    message, noted, rule = traceback[matches[-1].end() :].partition(_NOTE)
    if not (isinstance(kind, type) and issubclass(kind, GpuEngineError)) or kind is ProgramErrors:
        kind = SparkError
    made: GpuEngineError = kind(message)
    if noted:
        made.add_note(f"{noted.lstrip()}{rule}")
    return made


def _missing_package(what: str, traceback: str) -> SparkError | None:
    module = re.search(r"ModuleNotFoundError: No module named '([\w.]+)'", traceback)
    absent = re.search(r"PACKAGE_NOT_INSTALLED\] (\w+)", traceback)
    if module is not None and module[1].split(".")[0] == "gpuengine":
        return SparkError(f"{what}: the package gpuengine is not on an executor\n  hint: {_SHIP}")
    if module is not None or absent is not None:
        match = module or absent
        assert match is not None
        package = match[1].split(".")[0].lower()
        hint = _INSTALL.format(package=package)
        return SparkError(f"{what}: the package {package} is not on an executor\n  hint: {hint}")
    if "PYTHON_VERSION_MISMATCH" in traceback:
        return SparkError(f"{what}: driver and workers run different versions of Python\n  hint: {_PYTHON}")
    return None


def _cancelled(text: str) -> Interrupted | None:
    return (
        Interrupted("the jobs were cancelled; nothing was changed") if re.search(_CANCELLED, text) else None
    )


def _exhausted(what: str, text: str) -> SparkError | None:
    for sign, summary, hint in _EXHAUSTED:
        if re.search(sign, text):
            return SparkError(f"{what}: {summary}\n  hint: {hint}")
    return None


def _reason(traceback: str, text: str) -> str:
    """The line that says most: the last of a Python traceback, else the innermost cause in the JVM."""
    if traceback:
        return f"a task failed: {_final_line(traceback)}"
    causes = re.findall(r"^Caused by: (.+)$", text, re.MULTILINE)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    # The first line of a `Py4JJavaError` only names the method that was called.
    lines = [
        line.removeprefix(": ") for line in lines if not line.startswith("An error occurred while calling")
    ]
    return causes[-1] if causes else (lines[0] if lines else "Spark does not say why")


def _final_line(traceback: str) -> str:
    """Where the message of the last exception begins: the last line that is not indented."""
    plain = [line for line in traceback.splitlines() if line.strip() and not line.startswith(" ")]
    named = [line for line in plain if re.match(r"[\w.]+(: |$)", line)]
    return (named or plain)[-1].strip()
