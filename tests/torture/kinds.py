"""What one case of each kind does.

A kind takes a seed and says how many things it tried; whatever goes wrong is raised. The same seed does the
same, but for what depends on the clock (when a process is killed, how threads interleave).
"""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import hypothesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import gpuengine as ge
from gpuengine.errors import EvaluationError, GpuEngineError, Interrupted
from tests.cyclic_programs import cyclic_programs
from tests.differential.compare import engine_facts, is_refusal, oracle_facts
from tests.differential.test_wide_programs import ways
from tests.language.test_fuzz import SEED as ANY_SYNTAX
from tests.language.test_fuzz import TOKENS
from tests.maintenance.store_processes import CALLS
from tests.maintenance.streams import (
    ANY_CASE,
    NUMBERS,
    STRUCTURED,
    WIDE,
    Model,
    Stream,
    assert_follows,
    commit,
    fact_streams,
    facts_of,
    is_possible,
    rule_streams,
    started,
    state_of,
)
from tests.maintenance.test_store_crashes import failing
from tests.maintenance.test_update_failures import POINTS, failing_at
from tests.strategies import counters
from tests.wide_programs import wide_program

ROOT = Path(__file__).parents[2]
#: How much one case of the kinds that count for themselves does.
KILLS, CUTS, FILES, TRANSACTIONS, MUTANTS = 10, 40, 40, 20, 20
PROGRAMS = (STRUCTURED, NUMBERS, ANY_CASE, cyclic_programs(), counters())
STREAMS = (*PROGRAMS[:4], WIDE, st.builds(wide_program, st.integers(0, 10**9)))


def drawn(strategy: st.SearchStrategy[Any], seed: int) -> Any:
    """The last of a few examples (the first one of hypothesis is always the simplest)."""
    found: list[Any] = []

    @hypothesis.seed(seed)
    @settings(
        max_examples=4,
        database=None,
        phases=[Phase.generate],
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def collect(example: Any) -> None:
        found.append(example)

    collect()
    return found[-1]


def fuzz(seed: int) -> int:
    """A random program derives what the oracle derives, whatever way it is evaluated."""
    random = Random(seed)
    case = wide_program(seed) if random.random() < 0.6 else drawn(random.choice(PROGRAMS), seed)
    options = ways(seed)
    try:
        found = engine_facts(str(case), case.facts, **options)
    except EvaluationError as error:
        assert is_refusal(error), error
        return 1
    assert found == oracle_facts(str(case), case.facts), f"with {options} on {case.facts}\n{case}"
    return 1


def streams(seed: int) -> int:
    """Updates of facts and rules, saved and opened on the way, against the oracle."""
    random = Random(seed)
    kind = random.choice([fact_streams, rule_streams])
    stream: Stream = drawn(kind(random.choice(STREAMS)), seed)
    try:
        if random.random() < 0.5:
            assert_follows(stream, maintained=False)
        else:
            _follow_saved(stream, random.randint(0, len(stream.transactions)))
    except AssertionError as error:
        error.add_note(_told(stream))
        raise
    return max(1, len(stream.transactions))


def _follow_saved(stream: Stream, saved_after: int) -> None:
    """The first transactions in memory; then it is saved, and opened anew for each of the others."""
    model = Model(stream)
    before = model.state()
    try:
        kb = started(stream)
    except EvaluationError as error:
        assert before is None or is_refusal(error)
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kb"
        for number, transaction in enumerate((*stream.transactions, ())):
            if number == saved_after:
                kb.save(path)
            if number >= saved_after:
                kb.close()
                kb = ge.open(path)
            assert state_of(kb) == before, f"before transaction {number}"
            calls = [call for call in transaction if is_possible(model, call)]
            before = model.state()
            try:
                commit(kb, calls)
            except EvaluationError as error:
                assert before is None or is_refusal(error)
                return
            assert before is not None, f"transaction {number}: an error of evaluation went unnoticed"
        kb.close()


def _told(stream: Stream) -> str:
    calls = "\n".join("; ".join(map(repr, transaction)) for transaction in stream.transactions)
    return f'"""{stream.text}""", facts={dict(stream.facts)}, options={dict(stream.options)}\n{calls}'


def mutants(seed: int) -> int:
    """Damaged programs are refused with clear errors, or they are programs: parsed and planned."""
    random = Random(seed)
    for _ in range(MUTANTS):
        text = random.choice([ANY_SYNTAX, wide_program(random.randrange(10**9)).text])
        for _ in range(random.choice([1, 1, 2, 4, 8])):
            text = _damaged(text, random)
        try:
            ge.Engine(text)
        except GpuEngineError as error:
            assert str(error).strip(), "an error without a word"
        except Exception as error:
            error.add_note(f"the program:\n{text}")
            raise
    return MUTANTS


def _damaged(text: str, random: Random) -> str:
    """A stretch of characters, or a whole line, deleted, doubled, moved, turned round or replaced."""
    if random.random() < 0.3:
        lines = text.splitlines(keepends=True)
        line = lines.pop(random.randrange(len(lines))) if lines else ""
        for _ in range(random.choice([0, 1, 2])):
            lines.insert(random.randint(0, len(lines)), line)
        return "".join(lines)
    start = random.randrange(len(text) + 1)
    end = min(len(text), start + random.choice((0, 1, 1, 2, 5, 40)))
    piece = text[start:end]
    number = str(random.choice([0, -1, 2**31, 2**63, 2**64, 10**30]))
    other = random.choice(
        ["", piece * 2, piece[::-1], random.choice(TOKENS), number, chr(random.randrange(256))]
    )
    return text[:start] + other + text[end:]


def files(seed: int) -> int:
    """Damaged data files are refused, or read: no crash, nothing of the process in the output."""
    from tests.io import damage

    return sum(damage.run(seed, FILES, "mtl" if seed % 3 == 0 else "datalog").values())


def kills(seed: int) -> int:
    """Processes that update, compact and save are killed; what they acknowledged is there."""
    random = Random(seed)
    longest = {"update": 0.1, "compact": 0.2, "save": 0.05, "command": 0.4}
    writer = random.choice(sorted(longest))
    with tempfile.TemporaryDirectory() as folder:
        where = Path(folder) / "knowledge"
        module = ("tests.cli.kb_processes", where, writer, KILLS, longest[writer], seed)
        if random.random() < 0.3:
            module = ("tests.maintenance.store_processes", "kill-at-random", where, KILLS, seed)
        command = [sys.executable, "-m", *map(str, module)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, f"{' '.join(command)}\n{done.stderr}"
        return int(json.loads(done.stdout.splitlines()[-1])["kills"])


def errors(seed: int) -> int:
    """Updates fail midway, by what they call or by the disk: nothing has changed, or all of it."""
    return (_failing_calls if seed % 2 else _failing_disk)(Random(seed), seed)


def _stream_of_one(seed: int, programs: Iterable[Any]) -> tuple[Stream, Model, Any] | None:
    """A stream with one transaction, its model and an engine that has begun with it."""
    stream: Stream = drawn(rule_streams(Random(seed).choice([*programs])), seed)
    stream = replace(stream, transactions=stream.transactions[:1])
    model = Model(stream)
    if model.state() is None:
        return None
    try:
        return stream, model, started(stream)
    except EvaluationError as error:
        assert is_refusal(error), error
        return None


def _failing_calls(random: Random, seed: int) -> int:
    """Any error in any call of maintenance, again and again until the update works."""
    begun = _stream_of_one(seed, STREAMS)
    if begun is None:
        return 1
    stream, model, kb = begun
    before, stated = model.state(), model.shown_facts()
    calls = [call for call in stream.transactions[0] if is_possible(model, call)]
    after = model.state()
    points = POINTS[random.choice(sorted(POINTS))]
    error = random.choice([MemoryError, Interrupted, KeyboardInterrupt])
    number, tried = 1, 0
    while True:
        tried += 1
        try:
            with failing_at(number, points, error):
                commit(kb, calls)
            break
        except error:
            assert state_of(kb) == before, f"after call {number} failed\n{_told(stream)}"
            assert facts_of(kb) == stated, f"stated after call {number} failed\n{_told(stream)}"
        except EvaluationError as failure:
            assert after is None or is_refusal(failure), failure
            assert state_of(kb) == before
            return tried
        number += random.randint(1, 3)
    assert state_of(kb) == after, _told(stream)
    return tried


def _failing_disk(random: Random, seed: int) -> int:
    """Any call of the system fails while an update is committed; then the directory is opened anew."""
    begun = _stream_of_one(seed, STREAMS)
    if begun is None:
        return 1
    stream, model, kb = begun
    before = model.state()
    calls = [call for call in stream.transactions[0] if is_possible(model, call)]
    after = model.state()
    if after is None:
        return 1
    code = random.choice([errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EACCES])
    name = random.choice(CALLS)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kb"
        kb.save(path)
        kb.close()
        tried, failed = 0, True
        while failed:
            failed = False
            with ge.open(path) as opened, failing(name, OSError(code, os.strerror(code)), tried):
                try:
                    commit(opened, calls)
                except GpuEngineError as error:
                    if is_refusal(error):
                        return tried + 1
                    failed = True
            with ge.open(path) as again:
                found = state_of(again)
            assert found in ([before, after] if failed else [after]), (name, code, tried, _told(stream))
            if found == after:
                return tried + 1
            tried += 1
    return tried


def power(seed: int) -> int:
    """The power is cut: any unsynced block, length or name may be lost, no acknowledged commit is."""
    from tests.maintenance import power_cuts

    return power_cuts.run(seed, CUTS)["cuts"]


def threads(seed: int) -> int:
    """Two threads update and four read: each read is one of the states that existed."""
    from tests.maintenance import thread_stress

    return thread_stress.run(seed, TRANSACTIONS)


KINDS: dict[str, Callable[[int], int]] = {
    kind.__name__: kind for kind in (fuzz, streams, mutants, files, kills, errors, power, threads)
}
