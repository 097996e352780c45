"""How the table of RDF tells what peers took."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import rdf


def spinning(path: str, limit: int) -> float:
    def spin() -> None:
        while True:
            pass

    return rdf.busy_seconds(limit, spin)


def quick(path: str, limit: int) -> float:
    return rdf.busy_seconds(limit, sum, range(1000))


def missing(path: str, limit: int) -> float:
    raise ImportError(path)


def _peer(work: object) -> tuple[float, bool] | None:
    return rdf.Tables(True, (1,), lambda _: None)._peer(work, Path("few.nt"))  # type: ignore[arg-type]


def test_a_peer_that_takes_too_long_gives_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rdf, "_QUICK_PEER_SECONDS", 1)
    assert _peer(spinning) == (1.0, False)
    assert [value.text for value in rdf._compared((1.0, False), 0.01)] == ["> 1", "> 100"]


def test_a_peer_that_is_done_gives_a_time() -> None:
    found = _peer(quick)
    assert found is not None
    assert found[1]
    assert [value.text for value in rdf._compared((2.0, True), 0.5)] == ["2", "4"]


def test_a_peer_that_is_missing_gives_nothing() -> None:
    assert _peer(missing) is None
    assert [value.text for value in rdf._compared(None, 0.5)] == ["–", "–"]
