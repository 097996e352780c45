"""The workloads with cyclic rules: program, facts, sizes, right answers.

Nothing here imports numpy: the process that starts the others must stay small.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.catalogue import PROGRAMS
from bench.lubm import prepare_lubm
from bench.prepare import Places

if TYPE_CHECKING:
    import pyarrow as pa

LUBM, LABELLED = "lubm", "labelled"
QUICK_ROWS = 150
"""Facts of each relation of LUBM in quick runs."""
_FOLDER = PROGRAMS / "cyclic"
_SECTION = re.compile(r"^// -- (\w+)\n", re.MULTILINE)
_LABEL = re.compile(r"\bedge\d+\b")
_DECLARATION = re.compile(r"^\.decl ([^(]*)(\([^)]*\))", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Workload:
    """A program on generated facts.

    `size` and `quick` are the generator's parameter as measured and for ``--quick``. `files` are programs in
    ``bench/programs/cyclic``, of which only the section `section` is taken if it is named. `expected` has the
    known numbers of facts after the initial materialisation, by relation or in ``total``. `thesis` is the
    column of tables 4.3 and 4.4 to compare with.
    """

    name: str
    about: str
    generator: str
    size: int
    quick: int
    files: tuple[str, ...]
    section: str = ""
    thesis: str = ""
    expected: dict[str, int] = field(default_factory=dict)

    @property
    def program(self) -> str:
        """The text."""
        return self.read_program(Places())

    def facts(self, *, quick: bool = False) -> dict[str, pa.Table]:
        """All facts by relation."""
        from bench.cyclic import facts

        return facts.make(self.spec(Places(), quick=quick))

    def read_program(self, places: Places, *, quick: bool = False) -> str:
        """The text of the program."""
        text = "\n".join((_FOLDER / file).read_text(encoding="utf-8") for file in self.files)
        if self.section:
            declarations, *sections = _SECTION.split(text)
            rules = dict(zip(sections[::2], sections[1::2], strict=True))[self.section]
            text = _of_these(declarations, rules) + rules
        if self.generator == LUBM:
            text = (self._lubm(places, quick) / "lubm.dl").read_text(encoding="utf-8") + text
        return text

    def spec(self, places: Places, *, quick: bool = False) -> dict[str, Any]:
        """What a process needs to make program and facts, as JSON has it."""
        program = self.read_program(places, quick=quick)
        size = self.quick if quick else self.size
        spec: dict[str, Any] = {"generator": self.generator, "size": size, "program": program}
        if self.generator == LUBM:
            spec["file"] = str(self._lubm(places, quick) / "facts.npz")
            spec["rows"] = QUICK_ROWS if quick else None
        if self.generator == LABELLED:
            spec["labels"] = sorted(set(_LABEL.findall(program)))
        return spec

    def _lubm(self, places: Places, quick: bool) -> Path:
        return prepare_lubm(places, self.quick if quick else self.size)


def _of_these(declarations: str, rules: str) -> str:
    """The declarations without the names that the rules do not have."""
    used = set(re.findall(r"\w+", rules))

    def kept(found: re.Match[str]) -> str:
        names = [name for name in re.findall(r"\w+", found[1]) if name in used]
        return f".decl {', '.join(names)}{found[2]}" if names else ""

    return _DECLARATION.sub(kept, declarations)


def _yago(name: str, about: str, section: str = "") -> Workload:
    thesis = "" if section else "YAGO"
    return Workload(name, about, LABELLED, 50_000, 120, ("yago.dl",), section, thesis)


_ALL = (
    Workload(
        "Example-1", "example 1 of chapter 4, k = 60: few facts, many partial matches",
        "example-1", 2000, 20, ("example-1.dl",), expected={"pc": 360_060},
    ),
    Workload(
        "Exp", "expression trees of depth 1 to 5, with as many sets of values as trees", "expressions",
        300, 10, ("exp.dl",), thesis="Exp", expected={"total": 6_440_280},
    ),
    _yago("YAGO-like", "all 23 rules of appendix B.2 on a labelled graph with a power law"),
    _yago("YAGO-cycles", "its cycles of six edges", "cycles"),
    _yago("YAGO-flowers", "its flowers", "flowers"),
    _yago("YAGO-petals", "its petals", "petals"),
    _yago("YAGO-cliques", "its cliques of four nodes", "cliques"),
    Workload(
        "LUBM-L", "universities, 98 rules, none of them cyclic", LUBM, 10, 1, (), thesis="L",
        expected={"total": 1_737_937},
    ),
    Workload(
        "LUBM-L+C", "universities, the same rules and 16 with cyclic bodies", LUBM, 10, 1, ("lubm-c.dl",),
        thesis="L+C", expected={"total": 1_895_155},
    ),
    Workload(
        "Triangles", "cycles of three edges in a graph with a power law", "power-law", 50_000, 60,
        ("triangles.dl",), expected={"tri": 213_702},
    ),
)  # fmt: skip
WORKLOADS: dict[str, Workload] = {workload.name: workload for workload in _ALL}
