"""The LALR tables of grammar.lark, ready to drive.

lark builds them in about 0.3 s, which every start of the program would pay; so they are kept beside
the grammar in grammar.json, with the grammar's digest.  A test compares the two; a table that is
missing or older than the grammar is rebuilt in memory, for which lark must be there: it comes with the
extra `test`, since only who changes the grammar needs it.  ``python -m gpuengine.language.tables``
writes the file.
"""

from __future__ import annotations

import json
import zlib
from functools import cache
from pathlib import Path
from pkgutil import get_data
from typing import Any, NamedTuple

GRAMMAR = Path(__file__).with_name("grammar.lark")
TABLES = Path(__file__).with_name("grammar.json")
STARTS = ("program", "query")
END = "$END"
SEPARATOR = "SEPARATOR"


class Production(NamedTuple):
    """``origin: symbols``; `action` builds its value of the children `kept`, None hands the only one on."""

    origin: str
    length: int
    kept: tuple[int, ...]
    action: str | None


class Tables(NamedTuple):
    """A reserved word or mark is a terminal named by its own text.

    `actions[state][terminal]` is ``s + 1`` to shift to state s, ``-(r + 1)`` to reduce production r.
    """

    literals: frozenset[str]
    patterns: tuple[tuple[str, str], ...]  # other terminals and their regular expressions, in order
    productions: tuple[Production, ...]
    actions: tuple[dict[str, int], ...]
    gotos: tuple[dict[str, int], ...]
    starts: dict[str, int]
    ends: dict[str, int]


def digest(grammar: bytes) -> str:
    """Names a version of the grammar."""
    return f"{zlib.crc32(grammar):08x}-{len(grammar)}"


def build(grammar: str) -> dict[str, Any]:
    """Let lark compute the tables; the result is plain data for `json`, the same for the same grammar."""
    from lark import Lark
    from lark.grammar import Rule
    from lark.lexer import TerminalDef

    parser = Lark(grammar, parser="lalr", lexer="basic", start=list(STARTS))
    data, memo = parser.memo_serialize([TerminalDef, Rule])
    lalr = data["parser"]["parser"]
    rules = {key: entry for key, entry in memo.items() if entry["__type__"] == "Rule"}
    rule_index = {key: number for number, key in enumerate(rules)}
    terminals = [entry for entry in memo.values() if entry["__type__"] == "TerminalDef"]
    plain = [entry for entry in terminals if entry["pattern"]["__type__"] == "PatternStr"]
    literals = {entry["name"]: entry["pattern"]["value"] for entry in plain}
    patterns = [[t["name"], t["pattern"]["value"]] for t in terminals if t["name"] not in literals]
    states = {
        state: sorted((lalr["tokens"][symbol], *entry) for symbol, entry in row.items())
        for state, row in lalr["states"].items()
    }
    state_index = _number_states(states, [lalr["start_states"][start] for start in STARTS])
    nonterminals = {rule["origin"]["name"] for rule in rules.values()}
    actions: list[dict[str, int]] = []
    gotos: list[dict[str, int]] = []
    for state in state_index:
        actions.append({})
        gotos.append({})
        for symbol, is_reduce, target in states[state]:
            terminal = literals.get(symbol, symbol)
            if symbol in nonterminals:
                gotos[-1][symbol] = state_index[target]
            elif is_reduce or symbol != SEPARATOR:
                actions[-1][terminal] = -1 - rule_index[target["@"]] if is_reduce else 1 + state_index[target]
    return {
        "literals": sorted(literals.values()),
        "patterns": patterns,
        "productions": [_production(rule) for rule in rules.values()],
        "actions": actions,
        "gotos": gotos,
        "starts": {start: state_index[lalr["start_states"][start]] for start in STARTS},
        "ends": {start: state_index[lalr["end_states"][start]] for start in STARTS},
    }


def _number_states(states: dict[int, list[tuple[str, int, Any]]], starts: list[int]) -> dict[int, int]:
    """lark numbers states by hash order; number them by first visit instead."""
    order = dict.fromkeys(starts)
    queue = list(order)
    for state in queue:
        for _, is_reduce, target in states[state]:
            if not is_reduce and target not in order:
                order[target] = None
                queue.append(target)
    return {state: number for number, state in enumerate(order)}


def _production(rule: dict[str, Any]) -> list[Any]:
    symbols = rule["expansion"]
    kept = [at for at, symbol in enumerate(symbols) if not symbol.get("filter_out", False)]
    if rule["alias"] is None and len(kept) != 1:
        raise ValueError(f"the rule {rule['origin']['name']} has {len(kept)} children and needs an alias")
    return [rule["origin"]["name"], len(symbols), kept, rule["alias"]]


def _read(path: Path) -> bytes:
    """A file beside this module, which may be in an archive (a wheel)."""
    content = get_data("gpuengine.language", path.name)
    assert content is not None
    return content


@cache
def load() -> Tables:
    """The tables of the grammar as it is now."""
    grammar = _read(GRAMMAR)
    try:
        stored = json.loads(_read(TABLES))
    except OSError:
        stored = {}
    data = stored["tables"] if stored.get("digest") == digest(grammar) else build(grammar.decode())
    return Tables(
        frozenset(data["literals"]),
        tuple((name, pattern) for name, pattern in data["patterns"]),
        tuple(
            Production(origin, length, tuple(kept), action)
            for origin, length, kept, action in data["productions"]
        ),
        tuple(data["actions"]),
        tuple(data["gotos"]),
        data["starts"],
        data["ends"],
    )


def write() -> None:
    """Bring grammar.json up to date with grammar.lark."""
    grammar = GRAMMAR.read_bytes()
    content = {"digest": digest(grammar), "tables": build(grammar.decode())}
    TABLES.write_text(json.dumps(content, separators=(",", ":")) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write()
