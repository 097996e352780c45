"""Facts like those of the iTemporal and weather experiments, of any size: tables with closed intervals."""

from __future__ import annotations

import numpy as np

from bench.temporal.lubm import TemporalFacts

_ITEMPORAL = {
    "g4854": (1, 0.27),
    "g4855": (2, 0.27),
    "g4856": (1, 0.27),
    "g4857": (2, 0.07),
    "g4858": (2, 0.12),
}
_LONG = ("g4857", "g4858")
_WEATHER = ("HeavyWindForce", "TempAbove24", "TempAbove41", "Precipitation", "NoPrecipitation")


def itemporal(facts: int, constants: int = 316, seed: int = 2) -> TemporalFacts:
    """Shares of predicates and lengths of intervals as published.

    One rule makes pairs of all constants, so it is their number that decides how much is derived.
    """
    random = np.random.default_rng(seed)
    tables = {}
    for name, (arity, share) in _ITEMPORAL.items():
        count = round(facts * share)
        columns = [random.integers(0, constants, count).astype(np.uint32) for _ in range(arity)]
        start = 9_000 * random.integers(0, 7, count) + 2_000 + random.integers(0, 200, count)
        length = np.full(count, 180_000) if name in _LONG else 18_000 + random.integers(0, 9_000, count)
        start = np.where(name in _LONG, start // 30, start)
        tables[name] = columns, start, start + length
    return TemporalFacts(tables, constants)


def weather(facts: int, seed: int = 3) -> TemporalFacts:
    """Stations in states, and what they report for some hours each."""
    random = np.random.default_rng(seed)
    stations = max(50, facts // 500)
    states = 50
    located = [
        np.arange(stations, dtype=np.uint32),
        random.integers(stations, stations + states, stations).astype(np.uint32),
    ]
    tables = {"LocatedInState": (located, np.full(stations, -50_000), np.full(stations, 50_000))}
    for name in _WEATHER:
        count = facts // len(_WEATHER)
        start = random.integers(-40_000, 40_000, count)
        station = random.integers(0, stations, count).astype(np.uint32)
        tables[name] = [station], start, start + random.integers(0, 12, count)
    return TemporalFacts(tables, stations + states)
