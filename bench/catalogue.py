"""Every workload: its name, groups, program, where its facts come from, and its right sizes.

Groups: ``nine`` (the programs the targets are stated for), ``nonlinear``, ``packed`` (both),
``graphs`` (real graphs), ``generated``, ``large`` (minutes and gigabytes; only when named), and ``all``,
which is everything but ``large``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from bench.published import NINE

PROGRAMS = Path(__file__).parent / "programs"
SIZES_FILE = Path(__file__).parent / "sizes.json"


class UnknownWorkload(Exception):
    """Neither a workload nor a group has this name."""


@dataclass(frozen=True, slots=True)
class Source:
    """Where facts come from: ``packed`` (a folder), ``graph`` (a file) or ``generated`` (a generator)."""

    kind: str
    name: str
    size: int = 0


@dataclass(frozen=True, slots=True)
class Workload:
    """A program on facts. `program` is a file name in the folder of the facts or in ``bench/programs``.

    `expected` maps relations to their right sizes, as far as they are known.
    """

    name: str
    groups: frozenset[str]
    program: str
    source: Source
    expected: dict[str, int]
    note: str = ""

    def at(self, size: int) -> Workload:
        """The same generated workload at another size."""
        name = self.name if size == self.source.size else f"{self.name}@{size}"
        expected = recorded_sizes().get(f"{self.name}@{size}", {})
        return replace(self, name=name, source=replace(self.source, size=size), expected=expected)


_PACKED_SIZES: dict[str, tuple[str, dict[str, int]]] = {
    "closure-dag-linear": ("closure-dag", {"path": 22_324_428}),
    "closure-random-linear": ("closure-random", {"path": 1_000_000}),
    "closure-chain": ("closure-chain", {"path": 1_999_000}),
    "same-generation": ("same-generation", {"sg": 8_219_134}),
    "triangles": ("triangles", {"tri": 2_004_946}),
    "cyclic-recursive": ("cyclic-recursive", {"PC": 360_060}),
    "points-to-fields": ("points-to-fields", {"vP": 404_920, "hP": 6_426_797}),
    "andersen": ("andersen", {"pt": 2_396_169}),
    "cspa": ("cspa", {"vF": 305_199, "mA": 159_763, "vA": 1_016_085}),
    "closure-random-nonlinear": ("closure-random", {"path": 1_000_000}),
    "closure-dag-nonlinear": ("closure-dag", {"path": 22_324_428}),
}

# graph -> (file, closure size, same-generation size, groups of the closure, of same generation)
_GRAPHS: dict[str, tuple[str, int, int | None, str, str]] = {
    "OL": ("OL.cedge.facts.gz", 146_120, 285_431, "graphs", "graphs"),
    "TG": ("TG.cedge.facts.gz", 481_121, 608_090, "graphs", "graphs"),
    "cal": ("cal.cedge.facts.gz", 501_755, 23_519, "graphs", "graphs"),
    "SF": ("SF.cedge.facts.gz", 80_498_014, None, "large", "large"),
    "CA-HepTh": ("CA-HepTh.facts.gz", 74_619_885, 74_618_689, "large", "large"),
    "usroads": ("usroads.facts.gz", 871_365_688, None, "large", "large"),
}

# name -> (program, generator, size of a plain run, first of four doubling sizes, what it is)
_GENERATED: dict[str, tuple[str, str, int, int, str]] = {
    "gen-dag": ("closure.dl", "dag", 4_000, 1_000, "closure of a random DAG, 10 edges a node"),
    "gen-chain": ("closure.dl", "chain", 1_000, 500, "closure of a chain"),
    "gen-random": ("closure.dl", "random", 1_000, 250, "closure of a random graph, 10 edges a node"),
    "gen-same-generation": ("same-generation.dl", "tree", 4_000, 1_000, "same generation of a random tree"),
    "gen-triangles": ("triangles.dl", "power-law", 50_000, 25_000, "triangles of a power-law graph"),
    "gen-andersen": ("andersen.dl", "andersen", 100_000, 50_000, "Andersen points-to"),
    "gen-cspa": ("cspa.dl", "cspa", 16_000, 8_000, "context-sensitive pointer analysis"),
    "gen-points-to": ("points-to.dl", "points-to", 50_000, 25_000, "field-sensitive points-to"),
    "ontology-100": ("ontology.dl", "ontology", 50_000, 25_000, "100 rules over 30 classes, 20 properties"),
    "load-tsv": ("load-tsv.dl", "readings", 10_000_000, 1_250_000, "10 M rows of text, one selection"),
    "load-parquet": ("load-parquet.dl", "readings-parquet", 10_000_000, 1_250_000, "the same from Parquet"),
    "reach-chain-100k": ("reach.dl", "source-chain", 100_000, 12_500, "100,000 rounds of one fact"),
}  # fmt: skip

DOUBLINGS = (1, 2, 4, 8)


def recorded_sizes() -> dict[str, dict[str, int]]:
    """Right sizes of generated workloads by ``name@size``, recorded where several engines agreed."""
    sizes: dict[str, dict[str, int]] = json.loads(SIZES_FILE.read_text(encoding="utf-8"))
    return sizes


def record_sizes(name: str, size: int, sizes: dict[str, int]) -> None:
    """Add the sizes of a generated workload to the record."""
    known = recorded_sizes() | {f"{name}@{size}": sizes}
    lines = (f"  {json.dumps(key)}: {json.dumps(known[key])}" for key in sorted(known))
    SIZES_FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def scale_sizes(name: str) -> list[int]:
    """The doubling sizes at which a generated workload is run to see how it grows."""
    if name not in _GENERATED:
        raise UnknownWorkload(f"{name} has no size: only generated workloads scale ({', '.join(_GENERATED)})")
    return [_GENERATED[name][3] * factor for factor in DOUBLINGS]


def catalogue() -> dict[str, Workload]:
    """All workloads by name, in the order in which they are run and shown."""
    workloads: list[Workload] = []
    for name, (folder, sizes) in _PACKED_SIZES.items():
        group = "nine" if name in NINE else "nonlinear"
        groups = frozenset({group, "packed"})
        workloads.append(Workload(name, groups, f"{name}.dl", Source("packed", folder), sizes))
    for graph, (file, closure, generation, closure_group, generation_group) in _GRAPHS.items():
        source = Source("graph", file)
        workloads.append(
            Workload(f"tc-{graph}", frozenset({closure_group}), "closure.dl", source, {"path": closure})
        )
        if generation is not None:
            groups = frozenset({generation_group})
            workloads.append(
                Workload(f"sg-{graph}", groups, "same-generation.dl", source, {"sg": generation})
            )
    known = recorded_sizes()
    for name, (program, generator, size, _, note) in _GENERATED.items():
        source = Source("generated", generator, size)
        expected = known.get(f"{name}@{size}", {})
        workloads.append(Workload(name, frozenset({"generated"}), program, source, expected, note))
    return {w.name: w for w in workloads}


def choose(names: Iterable[str]) -> list[Workload]:
    """Workloads by names and groups, each once, in catalogue order."""
    everything = catalogue()
    groups = {group for w in everything.values() for group in w.groups} | {"all"}
    chosen: set[str] = set()
    for name in names:
        if name in everything:
            chosen.add(name)
        elif name == "all":
            chosen |= {w.name for w in everything.values() if "large" not in w.groups}
        elif name in groups:
            chosen |= {w.name for w in everything.values() if name in w.groups}
        else:
            raise UnknownWorkload(
                f"no workload or group named {name!r}; groups: {', '.join(sorted(groups))}; "
                "`python -m bench list` shows all workloads"
            )
    return [w for w in everything.values() if w.name in chosen]
