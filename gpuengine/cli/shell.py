"""``gpuengine shell``: talk to a program or a knowledge base, at a terminal or through a pipe."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from gpuengine import __version__
from gpuengine.cli.failures import OUT_OF_TIME
from gpuengine.cli.knowledge_bases import (
    is_knowledge_base,
    is_rdf_base,
    is_temporal_base,
    open_knowledge_base,
)
from gpuengine.cli.live import live_line
from gpuengine.cli.sources import load, locate, needed_inputs, open_engine
from gpuengine.errors import GpuEngineError, Interrupted, ProgramErrors
from gpuengine.interactive import Session, history_file, is_complete, statements

if TYPE_CHECKING:
    from gpuengine.engine import Engine

_PROMPT, _MORE = "gpuengine> ", "      ...> "
_HISTORY = 10_000


def shell(arguments: argparse.Namespace) -> int:
    """Read statements until the end; of a pipe, ends with 1 if one of them failed."""
    session = Session(_engine(arguments))
    # Here an interrupt ends what is being done, not the process.
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGALRM, lambda number, frame: os._exit(OUT_OF_TIME))
    try:
        if sys.stdin.isatty():
            return _talk(session)
        failed = 0
        for statement in statements(iter(sys.stdin.readline, "")):
            failed += not _run(session, statement)
            if session.is_over:
                break
        return 1 if failed else 0
    finally:
        session.engine.close()


def _engine(arguments: argparse.Namespace) -> Engine | None:
    path: Path | None = arguments.program
    if path is None:
        return None
    if is_knowledge_base(path):
        if is_temporal_base(path) or is_rdf_base(path):
            raise GpuEngineError(f"{path} is no knowledge base of Datalog, which the shell speaks")
        return open_knowledge_base(path, arguments, read_only=False)
    if path.suffix == ".mtl":
        raise GpuEngineError(f"{path} is DatalogMTL; the shell speaks Datalog")
    engine = open_engine(arguments)
    line = live_line(False)
    try:
        load(engine, locate(needed_inputs(engine, None), arguments.fact_dir), arguments, line)
        engine.materialise(watch=line.evaluating)
    finally:
        line.clear()
    return engine


def _run(session: Session, statement: str) -> bool:
    """Show what a statement gives, or what is wrong with it; was it right?"""
    try:
        sys.stdout.write(session.execute(statement))
        sys.stdout.flush()
        return True
    except ProgramErrors as error:
        print(error.render(), file=sys.stderr)
    except (KeyboardInterrupt, Interrupted):
        print("interrupted; nothing was changed", file=sys.stderr)
    except GpuEngineError as error:
        print(f"error: {error}", file=sys.stderr)
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            raise
        print(f"error: {error}", file=sys.stderr)
    return False


def _talk(session: Session) -> int:
    print(f"gpuengine {__version__}: .help says what can be said, .quit leaves")
    history = _prepare_readline(session)
    try:
        for statement in _typed(session):
            _run(session, statement)
            if session.is_over:
                break
    finally:
        if history is not None:
            import readline

            with suppress(OSError):
                readline.write_history_file(history)
    return 0


def _typed(session: Session) -> Iterator[str]:
    """The statements that are typed; Ctrl-C forgets what is not complete, Ctrl-D ends."""
    waiting = ""
    while True:
        try:
            waiting += input(_MORE if waiting else _PROMPT) + "\n"
        except KeyboardInterrupt:
            print()
            waiting = ""
            continue
        except EOFError:
            print()
            return
        if is_complete(waiting):
            statement, waiting = waiting, ""
            yield statement


def _prepare_readline(session: Session) -> Path | None:
    """Have lines edited, completed and remembered, where Python can."""
    try:
        import readline
    except ImportError:
        return None

    def complete(text: str, state: int) -> str | None:
        words = [word for word in session.words() if word.startswith(text)] if text else []
        return words[state] if state < len(words) else None

    readline.set_completer(complete)
    readline.set_completer_delims(' \t\n(),:!<>=+*/{}[]"')
    readline.parse_and_bind("tab: complete")
    readline.set_history_length(_HISTORY)
    history = history_file()
    if history is not None:
        with suppress(OSError):
            readline.read_history_file(history)
    return history
