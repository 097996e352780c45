"""The options that several commands take, each once."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from gpuengine.cli import values
from gpuengine.cli.values import Kind

PROCEDURES = ("naive", "seminaive", "optimised")
_ON_SPARK = "on Spark"


class Option(NamedTuple):
    """An option as argparse wants it, and under which heading of the help it stands."""

    flags: tuple[str, ...]
    settings: dict[str, Any]
    group: str | None = None

    def but(self, **settings: Any) -> Option:
        """The same with other settings."""
        return self._replace(settings={**self.settings, **settings})


def option(*flags: str, group: str | None = None, **settings: Any) -> Option:
    return Option(flags, settings, group)


def flag(*flags: str, help: str) -> Option:
    return Option(flags, {"action": "store_true", "help": help})


def _on_spark(*flags: str, **settings: Any) -> Option:
    return Option(flags, settings, _ON_SPARK)


PROGRAM = option("program", type=Path, metavar="PROGRAM.dl", help="the program")
FACT_DIR = option(
    "-F", "--fact-dir", type=Path, metavar="DIR", default=Path(), help="where the fact files are (default: .)"
)
SOURCE = (
    option(
        "-I",
        "--include-dir",
        type=Path,
        action="append",
        default=[],
        metavar="DIR",
        help="where included programs are looked for; can be given several times",
    ),
    option(
        "-M",
        "--macro",
        type=values.macros,
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="define macros, separated by spaces; can be given several times",
    ),
)
FUNCTORS = (
    option(
        "--functors",
        type=Path,
        action="append",
        default=[],
        metavar="FILE.py",
        help="run this Python file, and take the functors that @gpuengine.functor made in it; can be given "
        "several times",
    ),
    option(
        "--functor-library",
        type=Path,
        action="append",
        default=[],
        metavar="FILE.so",
        help="load this shared library, and take functors of it; can be given several times",
    ),
)
ON_ERROR = option(
    "--on-error",
    choices=("fail", "skip"),
    default="fail",
    help="what to do with a bad row of a fact file (default: fail); skip leaves it out and counts it",
)
READING = (
    ON_ERROR,
    option(
        "--nulls",
        metavar="fail|drop|VALUE",
        help="what to do with a null (default: fail): drop its row, or put a value in its place",
    ),
    option(
        "--dates",
        choices=("days", "text"),
        help="have dates and times as numbers, or as text, where the program declares number or symbol",
    ),
)
WARNINGS = (
    flag("-w", "--no-warn", help="no warnings"),
    flag("--werror", help="evaluate nothing if there are warnings about the program"),
    option(
        "--error-limit",
        type=values.natural,
        default=50,
        metavar="N",
        help="how many errors of a program are shown (default: 50); 0 for all",
    ),
)
MACHINE = (
    option(
        "-j",
        "--jobs",
        type=values.jobs,
        metavar="N",
        help="threads; auto (the default) is all processors this process may use",
    ),
    option(
        "--backend",
        choices=("auto", "cpu", "cuda"),
        default="auto",
        help="where rules run: cpu, cuda (an NVIDIA GPU), or auto (the default): on a GPU if there is one "
        "and the data is large enough",
    ),
    option(
        "--device", type=values.device, default=0, metavar="N", help="which GPU, counted from 0 (default: 0)"
    ),
    option(
        "--device-memory",
        type=values.memory,
        metavar="SIZE",
        help="how much of the GPU's memory may be used, as 8GB or 512MB (default: 80%% of what is free)",
    ),
    option(
        "--memory",
        type=values.memory,
        metavar="SIZE",
        help="what the process may take of the memory, as 8GB or 512MB (default: 80%% of what is free)",
    ),
)
CHOICES = (
    option(
        "--scheme",
        type=partial(values.pair, "RELATION=SCHEME", "path=closure"),
        action="append",
        default=[],
        metavar="RELATION=SCHEME",
        help="how to store a relation: table, closure, equivalence, union or auto (the default); * is every "
        "relation; can be given several times",
    ),
    option(
        "--evaluator",
        type=values.evaluator,
        action="append",
        default=[],
        metavar="RULE=EVALUATOR",
        help="by what to evaluate a rule: join, hypertree, written or auto (the default); path is all rules "
        "of path, path:2 its second one, * every rule; can be given several times",
    ),
)
NO_MODULES = flag(
    "--no-modules", help="evaluate transitive and symmetric rules of tables rule by rule, for comparison"
)
PROFILED = option(
    "--profile",
    dest="profiled",
    type=values.profiled,
    metavar="FILE",
    help="where the time and the memory went: FILE.html is a page with FILE.json beside it, FILE.json that "
    "alone, - text on standard error",
)
JSON = flag("--json", help="one JSON object instead of text")
QUIET = flag("--quiet", "--no-progress", help="no progress line, also on a terminal")
SAVE = (
    option(
        "--save",
        metavar="KB",
        help="derive everything and save it as a knowledge base: a directory, new or empty",
    ),
    flag("--replace", help="with --save: replace the knowledge base that is there"),
    flag(
        "--counting",
        help="with --save: updates keep derivation counters, which take memory and save overdeleting",
    ),
)
KB = option("kb", type=Path, metavar="KB", help="the directory of the knowledge base")


def _facts(kind: Kind, summary: str) -> Option:
    return option(
        f"--{kind}",
        action=values.Record,
        const=kind,
        type=values.fact_file,
        metavar="RELATION=FILE",
        help=f"{summary}; text, Parquet or Arrow by extension, - is standard input; several times. For "
        "DatalogMTL also FILE alone: lines such as P(a)@[1,2], or a folder",
    )


def _rules(kind: Kind, summary: str) -> Option:
    return option(
        f"--{kind}",
        action=values.Record,
        const=kind,
        metavar="FILE",
        help=f"{summary}; facts among them are stated or stated no longer; several times",
    )


OPERATIONS = (
    _facts("insert", "state the facts of a file"),
    _facts("delete", "state them no longer"),
    _rules("add-rules", "add the rules of a file"),
    _rules("remove-rules", "remove them"),
    option(
        "--changes",
        type=Path,
        metavar="DIR",
        help="write what came and went: RELATION.inserted.EXT and RELATION.deleted.EXT for each relation "
        "that changed",
    ),
    option(
        "--format",
        choices=("tsv", "csv", "parquet", "arrow"),
        help="of the files of --changes (default: tsv, as .output has it)",
    ),
)
SESSION = (
    _on_spark(
        "--on",
        choices=("local", "spark"),
        default="local",
        help="where to run: in this process (local, the default), or with Spark",
    ),
    _on_spark(
        "--master", type=values.master, metavar="URL", help="such as 'local[4]', spark://host:7077 or yarn"
    ),
    _on_spark(
        "--conf",
        type=values.setting,
        action="append",
        metavar="KEY=VALUE",
        help="a setting of Spark; repeatable",
    ),
    _on_spark(
        "--rapids",
        nargs="?",
        const="",
        metavar="JAR",
        help="run Spark's part on GPUs, with the jar of the RAPIDS Accelerator",
    ),
)
CLUSTER = (
    _on_spark(
        "--where",
        choices=("auto", "driver", "executor", "cluster"),
        help="where rules are evaluated: by one engine on the driver or on an executor, distributed over the "
        "cluster, or auto (the default): by one engine if the facts fit",
    ),
    _on_spark("--checkpoint", metavar="DIR", help="where a distributed run that was cut short goes on from"),
    _on_spark(
        "--encoded",
        metavar="DIR",
        help="read inputs that were encoded and saved there instead of -F; save them there if it is new",
    ),
)
LANGUAGE = option(
    "--language",
    choices=("datalog", "mtl", "rdf"),
    help="datalog; mtl, DatalogMTL, rules over metric time; rdf, triples and RDFox's rules (default: by the "
    "ending: .mtl, .dlog, .ttl …)",
)
FILES = option(
    "files",
    nargs="*",
    metavar="FILE",
    help="rdf: more files of triples (.nt .nq .ttl .trig .rdf .owl .jsonld, also .gz, .zst) or rules (.dlog)",
)
PROFILE = [
    option(
        "--owl2rl",
        dest="profile",
        action="store_const",
        const="owl2rl",
        help="rdf: reason with the axioms among the triples, by OWL 2 RL",
    ),
    option("--rdfs", dest="profile", action="store_const", const="rdfs", help="rdf: the same, by RDFS"),
]
REPRESENTATIVES = option(
    "--representatives",
    action="store_true",
    help="rdf: of the terms that are owl:sameAs each other, show one only",
)
OF_MTL = ("csv", "parquet", "text")
OF_RDF = ("nt", "nt.gz", "nt.zst", "nq", "nq.gz", "nq.zst", "ttl", "ttl.gz", "trig", "parquet")
OF_RDF_ON_SPARK = ("nt", "nt.gz", "nq", "nq.gz", "parquet")
TIMESTAMPS = flag("--timestamps", help="mtl: times in text facts are ISO 8601, such as 2026-01-31T12:00:00Z")
BOUNDS = (
    option(
        "--rounds",
        type=values.rounds,
        metavar="N",
        help="mtl: apply the rules N times, then stop (default: until nothing new follows)",
    ),
    option(
        "--horizon",
        metavar="INTERVAL",
        help="mtl: keep facts within an interval, such as '[0,100]' or '(-inf,50]'",
    ),
    option(
        "--procedure",
        choices=PROCEDURES,
        help="mtl: naive, seminaive or optimised (the default) materialisation",
    ),
    TIMESTAMPS,
)
