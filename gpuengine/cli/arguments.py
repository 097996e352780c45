"""What can be typed: every option once, the commands that take it, and what does not go together."""

from __future__ import annotations

import argparse
import importlib
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

from gpuengine import __version__
from gpuengine.cli.knowledge_bases import is_knowledge_base, is_rdf_base, is_temporal_base
from gpuengine.cli.usage import Parser, refuse_command, refuse_rest
from gpuengine.errors import GpuEngineError
from gpuengine.rdf_names import is_rdf_name

Kind = Literal["insert", "delete", "add-rules", "remove-rules"]
Check = Callable[[argparse.ArgumentParser, argparse.Namespace], None]
STDIN = Path("-")
PROCEDURES = ("naive", "seminaive", "optimised")
_MTL = ".mtl"
_EXIT_CODES = (
    "exit codes: 0 done, 1 error in program, data or evaluation, 2 usage, 124 out of time, 130 interrupted"
)
_ON_SPARK = "on Spark"


class Operation(NamedTuple):
    """A part of an update. `given` is what was typed: a path, or a URI.

    `relation` is empty for rules, and for temporal facts that name their predicates themselves.
    """

    kind: Kind
    relation: str
    given: str

    @property
    def path(self) -> Path:
        return Path(self.given)

    @property
    def is_facts(self) -> bool:
        return self.kind in ("insert", "delete")


def parse_arguments(argv: Sequence[str]) -> argparse.Namespace:
    """The arguments, with the function that runs the command as `command`. Exits with 2 on bad usage."""
    parser, parsers = make_parsers(argv[0] if argv else None)
    refuse_command(parser, argv, parsers)
    arguments, rest = parser.parse_known_args(argv)
    if rest:
        refuse_rest(parsers[arguments.name], rest)
    arguments.check(arguments)
    if arguments.verbose:
        show_log()
    return arguments


def make_parsers(only: str | None = None) -> tuple[Parser, Mapping[str, Parser]]:
    """What reads the command line, and by name what reads the rest of it for each command.

    If `only` is a command, there is only that one: making all of them takes longer than many programs.
    """
    parser = Parser(
        prog="gpuengine", description="Datalog materialisation on columnar arrays.", epilog=_EXIT_CODES
    )
    parser.add_argument("--version", action="version", version=f"gpuengine {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True, dest="name")
    chosen = [command for command in _COMMANDS if command.name == only]
    for command in chosen or _COMMANDS:
        command.add_to(commands)
    return parser, commands.choices


def show_log() -> None:
    """Have what the engine logs on standard error."""
    import logging

    logging.basicConfig(format="%(asctime)s %(name)s: %(message)s", level=logging.INFO)


def is_temporal(arguments: argparse.Namespace) -> bool:
    """Is the program in DatalogMTL?"""
    language = getattr(arguments, "language", None)
    return bool(language == "mtl" if language else Path(arguments.program).suffix == _MTL)


def is_rdf(arguments: argparse.Namespace) -> bool:
    """Are rules over triples, or triples, given?"""
    language = getattr(arguments, "language", None)
    return bool(language == "rdf" if language else is_rdf_name(Path(arguments.program)))


# -- values --------------------------------------------------------------------------------------------


class _Record(argparse.Action):
    """Puts options that may be given several times into one list, in the order of the command line."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        relation, given = values if isinstance(values, tuple) else ("", str(values))
        namespace.operations = [*namespace.operations, Operation(self.const, relation, given)]


def _jobs(text: str) -> int | None:
    return None if text == "auto" else _positive(text)


def _positive(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,9}", text) or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return int(text)


def _natural(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,9}", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number")
    return int(text)


def _device(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,4}", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not the number of a GPU: 0 is the first")
    return int(text)


def _rounds(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or len(text) > 9:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of rounds")
    return int(text)


def _seconds(text: str) -> float:
    if not re.fullmatch(r"[0-9]{1,9}(\.[0-9]+)?|\.[0-9]+", text) or not float(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds above 0")
    return float(text)


def _memory(text: str) -> str:
    from gpuengine.limits import parse_size

    try:
        parse_size(text)
    except GpuEngineError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


def _macros(text: str) -> dict[str, str]:
    """``A=1 B`` as Soufflé's -M takes it: separated by spaces; a name alone means 1."""
    macros = {}
    for part in text.split():
        name, equals, value = part.partition("=")
        if not re.fullmatch(r"[A-Za-z_]\w*", name):
            raise argparse.ArgumentTypeError(f"{part!r} is not NAME=VALUE")
        macros[name] = value if equals else "1"
    return macros


def _parameter(text: str) -> tuple[str, int | float | str]:
    name, value = _pair("NAME=VALUE", "start=1", text)
    if not re.fullmatch(r"[A-Za-z_]\w*", name):
        raise argparse.ArgumentTypeError(f"{name!r} is not the name of a parameter")
    if re.fullmatch(r"-?[0-9]{1,20}", value):
        return name, int(value)
    return name, float(value) if re.fullmatch(r"-?[0-9]+\.[0-9]+", value) else value


def _pair(form: str, such_as: str, text: str) -> tuple[str, str]:
    """Two texts with an equals sign between them."""
    name, equals, value = text.partition("=")
    if not (equals and name.strip() and value.strip()):
        raise argparse.ArgumentTypeError(f"{text!r} is not {form}, such as {such_as}")
    return name, value


def _fact_file(text: str) -> tuple[str, str]:
    """A relation and its file, or for DatalogMTL a file alone."""
    return ("", text) if text and "=" not in text else _pair("RELATION=FILE", "edge=new.csv", text)


def _profiled(text: str) -> Path:
    if text != "-" and Path(text).suffix not in (".html", ".json"):
        raise argparse.ArgumentTypeError(f"{text!r} is neither FILE.html nor FILE.json, nor - for text")
    return Path(text)


def _pass_name(text: str) -> str:
    from gpuengine.planning.passes import PASSES, pass_name

    names = [pass_name(one) for one in PASSES]
    if text not in names:
        raise argparse.ArgumentTypeError(f"no pass {text!r}; it is one of {', '.join(names)}")
    return text


def _evaluator(text: str) -> tuple[str, str]:
    rule, evaluator = _pair("RULE=EVALUATOR", "path=hypertree or path:2=join", text)
    return rule.strip(), evaluator.strip()


def _setting(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not (equals and key):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not KEY=VALUE, such as spark.sql.shuffle.partitions=64"
        )
    return key, value


def _master(text: str) -> str:
    if re.fullmatch(r"local(\[.+\])?|local-cluster\[.+\]|spark://.+|k8s://.+|yarn", text) is None:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no master of Spark, such as local[4], spark://host:7077, k8s://https://host or yarn"
        )
    return text


# -- options -------------------------------------------------------------------------------------------


class Option(NamedTuple):
    """An option as argparse wants it, and under which heading of the help it stands."""

    flags: tuple[str, ...]
    settings: dict[str, Any]
    group: str | None = None

    def but(self, **settings: Any) -> Option:
        """The same with other settings."""
        return self._replace(settings={**self.settings, **settings})


def _option(*flags: str, group: str | None = None, **settings: Any) -> Option:
    return Option(flags, settings, group)


def _flag(*flags: str, help: str) -> Option:
    return Option(flags, {"action": "store_true", "help": help})


def _on_spark(*flags: str, **settings: Any) -> Option:
    return Option(flags, settings, _ON_SPARK)


_PROGRAM = _option("program", type=Path, metavar="PROGRAM.dl", help="the program")
_FACT_DIR = _option(
    "-F", "--fact-dir", type=Path, metavar="DIR", default=Path(), help="where the fact files are (default: .)"
)
_SOURCE = (
    _option(
        "-I",
        "--include-dir",
        type=Path,
        action="append",
        default=[],
        metavar="DIR",
        help="where included programs are looked for; can be given several times",
    ),
    _option(
        "-M",
        "--macro",
        type=_macros,
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="define macros, separated by spaces; can be given several times",
    ),
)
_FUNCTORS = (
    _option(
        "--functors",
        type=Path,
        action="append",
        default=[],
        metavar="FILE.py",
        help="run this Python file, and take the functors that @gpuengine.functor made in it; can be given "
        "several times",
    ),
    _option(
        "--functor-library",
        type=Path,
        action="append",
        default=[],
        metavar="FILE.so",
        help="load this shared library, and take functors of it; can be given several times",
    ),
)
_ON_ERROR = _option(
    "--on-error",
    choices=("fail", "skip"),
    default="fail",
    help="what to do with a bad row of a fact file (default: fail); skip leaves it out and counts it",
)
_READING = (
    _ON_ERROR,
    _option(
        "--nulls",
        metavar="fail|drop|VALUE",
        help="what to do with a null (default: fail): drop its row, or put a value in its place",
    ),
    _option(
        "--dates",
        choices=("days", "text"),
        help="have dates and times as numbers, or as text, where the program declares number or symbol",
    ),
)
_WARNINGS = (
    _flag("-w", "--no-warn", help="no warnings"),
    _flag("--werror", help="evaluate nothing if there are warnings about the program"),
    _option(
        "--error-limit",
        type=_natural,
        default=50,
        metavar="N",
        help="how many errors of a program are shown (default: 50); 0 for all",
    ),
)
_MACHINE = (
    _option(
        "-j",
        "--jobs",
        type=_jobs,
        metavar="N",
        help="threads; auto (the default) is all processors this process may use",
    ),
    _option(
        "--backend",
        choices=("auto", "cpu", "cuda"),
        default="auto",
        help="where rules run: cpu, cuda (an NVIDIA GPU), or auto (the default): on a GPU if there is one "
        "and the data is large enough",
    ),
    _option("--device", type=_device, default=0, metavar="N", help="which GPU, counted from 0 (default: 0)"),
    _option(
        "--device-memory",
        type=_memory,
        metavar="SIZE",
        help="how much of the GPU's memory may be used, as 8GB or 512MB (default: 80%% of what is free)",
    ),
    _option(
        "--memory",
        type=_memory,
        metavar="SIZE",
        help="what the process may take of the memory, as 8GB or 512MB (default: 80%% of what is free)",
    ),
)
_CHOICES = (
    _option(
        "--scheme",
        type=partial(_pair, "RELATION=SCHEME", "path=closure"),
        action="append",
        default=[],
        metavar="RELATION=SCHEME",
        help="how to store a relation: table, closure, equivalence, union or auto (the default); * is every "
        "relation; can be given several times",
    ),
    _option(
        "--evaluator",
        type=_evaluator,
        action="append",
        default=[],
        metavar="RULE=EVALUATOR",
        help="by what to evaluate a rule: join, hypertree, written or auto (the default); path is all rules "
        "of path, path:2 its second one, * every rule; can be given several times",
    ),
)
_NO_MODULES = _flag(
    "--no-modules", help="evaluate transitive and symmetric rules of tables rule by rule, for comparison"
)
_PROFILED = _option(
    "--profile",
    dest="profiled",
    type=_profiled,
    metavar="FILE",
    help="where the time and the memory went: FILE.html is a page with FILE.json beside it, FILE.json that "
    "alone, - text on standard error",
)
_JSON = _flag("--json", help="one JSON object instead of text")
_QUIET = _flag("--quiet", "--no-progress", help="no progress line, also on a terminal")
_SAVE = (
    _option(
        "--save",
        metavar="KB",
        help="derive everything and save it as a knowledge base: a directory, new or empty",
    ),
    _flag("--replace", help="with --save: replace the knowledge base that is there"),
    _flag(
        "--counting",
        help="with --save: updates keep derivation counters, which take memory and save overdeleting",
    ),
)
_KB = _option("kb", type=Path, metavar="KB", help="the directory of the knowledge base")


def _facts(kind: Kind, summary: str) -> Option:
    return _option(
        f"--{kind}",
        action=_Record,
        const=kind,
        type=_fact_file,
        metavar="RELATION=FILE",
        help=f"{summary}; text, Parquet or Arrow by extension, - is standard input; several times. For "
        "DatalogMTL also FILE alone: lines such as P(a)@[1,2], or a folder",
    )


def _rules(kind: Kind, summary: str) -> Option:
    return _option(
        f"--{kind}",
        action=_Record,
        const=kind,
        metavar="FILE",
        help=f"{summary}; facts among them are stated or stated no longer; several times",
    )


_OPERATIONS = (
    _facts("insert", "state the facts of a file"),
    _facts("delete", "state them no longer"),
    _rules("add-rules", "add the rules of a file"),
    _rules("remove-rules", "remove them"),
    _option(
        "--changes",
        type=Path,
        metavar="DIR",
        help="write what came and went: RELATION.inserted.EXT and RELATION.deleted.EXT for each relation "
        "that changed",
    ),
    _option(
        "--format",
        choices=("tsv", "csv", "parquet", "arrow"),
        help="of the files of --changes (default: tsv, as .output has it)",
    ),
)
_SESSION = (
    _on_spark(
        "--on",
        choices=("local", "spark"),
        default="local",
        help="where to run: in this process (local, the default), or with Spark",
    ),
    _on_spark("--master", type=_master, metavar="URL", help="such as 'local[4]', spark://host:7077 or yarn"),
    _on_spark(
        "--conf", type=_setting, action="append", metavar="KEY=VALUE", help="a setting of Spark; repeatable"
    ),
    _on_spark(
        "--rapids",
        nargs="?",
        const="",
        metavar="JAR",
        help="run Spark's part on GPUs, with the jar of the RAPIDS Accelerator",
    ),
)
_CLUSTER = (
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
_LANGUAGE = _option(
    "--language",
    choices=("datalog", "mtl", "rdf"),
    help="datalog; mtl, DatalogMTL, rules over metric time; rdf, triples and RDFox's rules (default: by the "
    "ending: .mtl, .dlog, .ttl …)",
)
_FILES = _option(
    "files",
    nargs="*",
    metavar="FILE",
    help="rdf: more files of triples (.nt .nq .ttl .trig .rdf .owl .jsonld, also .gz, .zst) or rules (.dlog)",
)
_PROFILE = [
    _option(
        "--owl2rl",
        dest="profile",
        action="store_const",
        const="owl2rl",
        help="rdf: reason with the axioms among the triples, by OWL 2 RL",
    ),
    _option("--rdfs", dest="profile", action="store_const", const="rdfs", help="rdf: the same, by RDFS"),
]
_REPRESENTATIVES = _option(
    "--representatives",
    action="store_true",
    help="rdf: of the terms that are owl:sameAs each other, show one only",
)
_OF_MTL = ("csv", "parquet", "text")
_OF_RDF = ("nt", "nt.gz", "nt.zst", "nq", "nq.gz", "nq.zst", "ttl", "ttl.gz", "trig", "parquet")
_OF_RDF_ON_SPARK = ("nt", "nt.gz", "nq", "nq.gz", "parquet")
_TIMESTAMPS = _flag(
    "--timestamps", help="mtl: times in text facts are ISO 8601, such as 2026-01-31T12:00:00Z"
)
_BOUNDS = (
    _option(
        "--rounds",
        type=_rounds,
        metavar="N",
        help="mtl: apply the rules N times, then stop (default: until nothing new follows)",
    ),
    _option(
        "--horizon",
        metavar="INTERVAL",
        help="mtl: keep facts within an interval, such as '[0,100]' or '(-inf,50]'",
    ),
    _option(
        "--procedure",
        choices=PROCEDURES,
        help="mtl: naive, seminaive or optimised (the default) materialisation",
    ),
    _TIMESTAMPS,
)


# -- what goes together --------------------------------------------------------------------------------


def _check_run(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> None:
    _check_language(parser, arguments)
    _check_place(parser, arguments)
    for option, given in (("--replace", arguments.replace), ("--counting", arguments.counting)):
        if given and arguments.save is None:
            parser.error(f"{option} goes with --save KB only")


def _check_plan(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> None:
    _check_language(parser, arguments)
    if arguments.profiled is not None and not arguments.analyse:
        parser.error("--profile goes with --analyse only: nothing is evaluated otherwise")
    if arguments.analyse and arguments.after is not None:
        parser.error("--analyse does not go with --after")


def _check_query(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> None:
    """Refuse what is for programs only if there is a knowledge base, else supply defaults."""
    if is_rdf(arguments):
        parser.error(f"{arguments.program} is RDF: ask it by gpuengine sparql")
    _check_language(parser, arguments)
    if arguments.query == "-":
        arguments.query = sys.stdin.read()
    arguments.is_saved = is_knowledge_base(arguments.program)
    if arguments.is_saved:
        given = {
            "-F": arguments.fact_dir is not None,
            "-I": arguments.include_dir,
            "-M": arguments.macro,
            "--on-error": arguments.on_error is not None,
            "--nulls": arguments.nulls is not None,
            "--dates": arguments.dates is not None,
            "--scheme": arguments.scheme,
            "--evaluator": arguments.evaluator,
            "--no-modules": arguments.no_modules,
        }
        for option in (name for name, value in given.items() if value):
            parser.error(
                f"{option} is for programs, but {arguments.program} is a knowledge base: its program, "
                "facts, schemes and evaluators are those that were saved"
            )
    if is_temporal_base(arguments.program) if arguments.is_saved else is_temporal(arguments):
        for name, option in (
            ("param", "--param"),
            ("order", "--order"),
            ("form", "--format"),
            ("output", "-o"),
        ):
            if getattr(arguments, name, None):
                parser.error(f"{option} is for Datalog, but {arguments.program} is DatalogMTL")
    arguments.fact_dir = arguments.fact_dir or Path()
    arguments.on_error = arguments.on_error or "fail"


def _check_explain(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> None:
    if is_rdf(arguments):
        parser.error(f"{arguments.program} is RDF, whose triples can't be explained yet")
    if arguments.why_not and (arguments.all or arguments.svg or arguments.html):
        parser.error("--why-not goes with text or --json only")
    svg, arguments.svg = arguments.svg, None  # --svg of plan takes a file, and is refused for some languages
    _check_query(parser, arguments)
    arguments.svg = svg


def _takes_files(kb: Path) -> bool:
    """Does a file alone say what its facts are of?"""
    return is_temporal_base(kb) or is_rdf_base(kb)


def _check_update(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> None:
    if not arguments.operations:
        parser.error("nothing to do: give --insert, --delete, --add-rules or --remove-rules")
    for operation in arguments.operations:
        if operation.is_facts and not operation.relation and not _takes_files(Path(arguments.kb)):
            what = f"--{operation.kind}: {operation.given!r} is not RELATION=FILE, such as edge=new.csv"
            parser.error(what)
    if arguments.timestamps and not is_temporal_base(Path(arguments.kb)):
        parser.error(f"--timestamps is for DatalogMTL, but {arguments.kb} is no knowledge base of it")
    from_stdin = sum(operation.path == STDIN for operation in arguments.operations)
    if from_stdin > 1:
        parser.error("standard input (-) can be read once only")
    if arguments.format and arguments.changes is None:
        parser.error("--format goes with --changes DIR only")
    if arguments.profiled is not None and _takes_files(Path(arguments.kb)):
        parser.error(f"--profile is for Datalog, and {arguments.kb} is no knowledge base of it")
    if arguments.on == "spark" and from_stdin:
        parser.error("executors of Spark have no standard input: give a file instead of -")
    if arguments.on == "local":
        arguments.kb = Path(arguments.kb)
        _refuse_those_of_spark(parser, arguments, _SESSION)
    else:
        others = {
            "--changes": arguments.changes is not None,
            "--profile": arguments.profiled is not None,
            "--memory": arguments.memory is not None,
            **{f"--{operation.kind}": not operation.relation for operation in arguments.operations},
        }
        _refuse_those_of_an_engine(parser, arguments, others)
    arguments.format = arguments.format or "tsv"


def _check_place(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> None:
    """Refuse options of the other place, and supply defaults. Directories are paths, or for Spark texts."""
    if arguments.output_dir == "-":
        arguments.output_dir = None
    if arguments.on == "local":
        _refuse_those_of_spark(parser, arguments, (*_SESSION, *_CLUSTER))
        for name in ("fact_dir", "output_dir", "save"):
            given = getattr(arguments, name)
            setattr(arguments, name, None if given is None else Path(given))
        return
    others = {
        "--no-modules": arguments.no_modules,
        "--counting": arguments.counting,
        "--sort": arguments.sort,
        "--profile": arguments.profiled is not None,
    }
    _refuse_those_of_an_engine(parser, arguments, others)
    if arguments.encoded is not None and arguments.where in ("driver", "executor"):
        parser.error(f"--encoded is for the cluster: it does not go with --where {arguments.where}")
    arguments.where = arguments.where or "auto"


def _refuse_those_of_spark(
    parser: argparse.ArgumentParser, arguments: argparse.Namespace, options: Sequence[Option]
) -> None:
    for (flag,) in (option.flags for option in options if option.flags != ("--on",)):
        if getattr(arguments, flag.removeprefix("--")) is not None:
            parser.error(f"{flag} goes with --on spark only")


def _refuse_those_of_an_engine(
    parser: argparse.ArgumentParser, arguments: argparse.Namespace, others: Mapping[str, bool]
) -> None:
    """Refuse what is for an engine in this process, and supply what a session needs."""
    if arguments.nulls not in (None, "fail", "drop"):
        parser.error("with --on spark, --nulls is fail or drop")
    of_local = {
        "--on-error": arguments.on_error != "fail",
        "--dates": arguments.dates is not None,
        "--device": arguments.device != 0,
        "--device-memory": arguments.device_memory is not None,
        "-j": arguments.jobs is not None,
        "--backend": arguments.backend != "auto",
        **others,
    }
    for option in (name for name, given in of_local.items() if given):
        parser.error(f"{option} does not go with --on spark")
    arguments.nulls = arguments.nulls or "fail"
    arguments.conf = dict(arguments.conf or ())


_OF_DATALOG = {
    "include_dir": "-I",
    "macro": "-M",
    "scheme": "--scheme",
    "evaluator": "--evaluator",
    "no_modules": "--no-modules",
    "counting": "--counting",
    "nulls": "--nulls",
    "dates": "--dates",
    "sort": "--sort",
    "profiled": "--profile",
    "analyse": "--analyse",
    "svg": "--svg",
    "after": "--after",
    "functors": "--functors",
    "functor_library": "--functor-library",
}


def _check_language(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> None:
    """Refuse options that the other language has."""
    form = getattr(arguments, "format", None)
    if is_rdf(arguments):
        _check_rdf(parser, arguments, form)
        return
    if getattr(arguments, "files", None):
        parser.error(f"one program at a time: {arguments.files[0]} is for RDF only")
    if getattr(arguments, "profile", None):
        parser.error(f"--{arguments.profile} is for RDF: give files of triples")
    if getattr(arguments, "representatives", False):
        parser.error("--representatives is for RDF: give files of triples")
    if is_temporal(arguments):
        if form not in (None, *_OF_MTL):
            parser.error(f"--format {form} is for RDF, but {arguments.program} is DatalogMTL")
        for name, option in _OF_DATALOG.items():
            if getattr(arguments, name, None):
                parser.error(f"{option} is for Datalog, but {arguments.program} is DatalogMTL")
        if getattr(arguments, "on", None) == "spark":
            parser.error(f"--on spark is for Datalog, but {arguments.program} is DatalogMTL")
        return
    for name in ("rounds", "horizon", "procedure", "timestamps", "format"):
        if getattr(arguments, name, None):
            parser.error(f"--{name} is for DatalogMTL: name the program PROGRAM{_MTL}, or say --language mtl")


_NOT_OF_RDF = {
    "nulls": "--nulls",
    "dates": "--dates",
    "sort": "--sort",
    "analyse": "--analyse",
    "profiled": "--profile",
    "include_dir": "-I",
    "macro": "-M",
    "rounds": "--rounds",
    "horizon": "--horizon",
    "procedure": "--procedure",
    "timestamps": "--timestamps",
    "svg": "--svg",
    "functors": "--functors",
    "functor_library": "--functor-library",
}


def _check_rdf(parser: argparse.ArgumentParser, arguments: argparse.Namespace, form: str | None) -> None:
    for name, option in _NOT_OF_RDF.items():
        if getattr(arguments, name, None):
            parser.error(f"{option} is not for RDF, and {arguments.program} is")
    if getattr(arguments, "on", None) == "spark":
        _check_rdf_on_spark(parser, arguments, form)
    if form not in (None, *_OF_RDF):
        parser.error(f"--format {form} is not for RDF")


def _check_rdf_on_spark(
    parser: argparse.ArgumentParser, arguments: argparse.Namespace, form: str | None
) -> None:
    for name in ("save", "representatives", "encoded", "checkpoint", "nulls"):
        if getattr(arguments, name, None):
            parser.error(f"--{name} does not go with --on spark for RDF")
    if form not in (None, *_OF_RDF_ON_SPARK):
        parser.error(f"Spark does not write {form}: --format is one of {', '.join(_OF_RDF_ON_SPARK)}")


# -- commands ------------------------------------------------------------------------------------------


class Command(NamedTuple):
    """A command: what `--help` says of it, its options, and whether what was given goes together.

    Options in a list of their own exclude each other. The function that runs it is in the module of its name.
    """

    name: str
    summary: str
    description: str
    options: tuple[Option | list[Option], ...]
    check: Check = lambda parser, arguments: None
    defaults: Mapping[str, Any] = {}

    def add_to(self, commands: argparse._SubParsersAction[Parser]) -> None:
        parser = commands.add_parser(
            self.name, help=self.summary, description=self.description, epilog=_EXIT_CODES
        )
        groups: dict[str | None, argparse._ActionsContainer] = {None: parser}
        for entry in (_TIMEOUT, _VERBOSE, *self.options):
            one_of = parser.add_mutually_exclusive_group() if isinstance(entry, list) else None
            for option in entry if isinstance(entry, list) else [entry]:
                if option.group not in groups:
                    groups[option.group] = parser.add_argument_group(option.group)
                (one_of or groups[option.group]).add_argument(*option.flags, **option.settings)
        parser.set_defaults(command=self.run, check=partial(self.check, parser), **self.defaults)

    def run(self, arguments: argparse.Namespace) -> int:
        """Run it; its module is imported now."""
        module = importlib.import_module(f"gpuengine.cli.{self.name}")
        return int(getattr(module, self.name)(arguments))


_TIMEOUT = _option(
    "--timeout",
    type=_seconds,
    metavar="SECONDS",
    help="end after so long, as an interrupt would: nothing is left half done; the exit code is 124 then",
)
_VERBOSE = _flag("-v", "--verbose", help="say on standard error what is done, and how long it takes")
_COMMANDS = (
    Command(
        "run",
        "evaluate a program and write its outputs",
        "Evaluate a Datalog program: read its .input relations, derive what its .output and .printsize "
        "relations need, and write them. -F, -D, -I, -M, -j, -v and -w mean what they mean to Soufflé. Or "
        "reason over triples: with RDFox's rules (.dlog), or the axioms of an ontology. With --on "
        "spark, Spark reads and writes datasets, and evaluates the program if one engine is too small; "
        "-F, -D and --save may be URIs then.",
        (
            _PROGRAM,
            _FILES,
            # Of what may be a URI the text is kept: Path would make s3a:/bucket of s3a://bucket.
            _FACT_DIR.but(type=str, default="."),
            *_SOURCE,
            *_FUNCTORS,
            *_READING,
            _option(
                "-D",
                "--output-dir",
                default=".",
                metavar="DIR",
                help="where output files go (default: .); made if missing; - prints to standard output",
            ),
            *_MACHINE,
            *_CHOICES,
            _NO_MODULES,
            *_WARNINGS,
            _flag("--sort", help="write rows in order, so that outputs of two runs can be compared"),
            _flag("--stats", help="seconds, sizes and what each rule cost, on standard error"),
            _PROFILED,
            _JSON.but(help="one JSON object on standard output instead of text"),
            _QUIET,
            *_SAVE,
            *_SESSION,
            *_CLUSTER,
            _LANGUAGE,
            *_BOUNDS,
            _PROFILE,
            _REPRESENTATIVES,
            _option(
                "--format",
                choices=tuple(dict.fromkeys((*_OF_MTL, *_OF_RDF))),
                help="mtl: of the files in -D, one for each predicate (default: csv); rdf: of the file "
                "closure.FORMAT in -D (default: nt, or nq if there are named graphs)",
            ),
        ),
        _check_run,
    ),
    Command(
        "plan",
        "show how a program would be evaluated",
        "Show strata, delta rules, join orders, hypertrees and indexes, and why. Nothing is evaluated. With "
        "-F the facts are loaded and the estimates come from them; without, default sizes are assumed. With "
        "--analyse it is evaluated, nothing is written, and what was measured is shown beside it.",
        (
            _PROGRAM,
            _FILES,
            _FACT_DIR.but(default=None, help="where the fact files are"),
            *_SOURCE,
            *_FUNCTORS,
            *_READING,
            _flag("--analyse", help="evaluate the program on the facts of -F (default: .), and measure"),
            _PROFILED.but(help="with --analyse: the profile of the evaluation too, as run --profile has it"),
            *_MACHINE,
            *_CHOICES,
            _NO_MODULES,
            *_WARNINGS,
            [
                _JSON.but(help="the plan as one JSON object"),
                _option("--svg", metavar="FILE", help="draw the plan; - is standard output"),
                _option(
                    "--after",
                    metavar="PASS",
                    type=_pass_name,
                    help="the program as the planner has rewritten it up to this pass; see docs/cli.md",
                ),
            ],
            _LANGUAGE,
            _PROFILE,
        ),
        _check_plan,
    ),
    Command(
        "query",
        "answer a query over a program and its facts, or over a knowledge base",
        "Evaluate what the query needs and print its answers: one column for each variable, tab-separated "
        "under a header. A query without variables prints true or false. PROGRAM.dl can be the directory of "
        "a knowledge base: then nothing is read or evaluated but the query.",
        (
            _PROGRAM,
            _FACT_DIR,
            *_SOURCE,
            *_FUNCTORS,
            *_READING,
            _option("query", metavar="QUERY", help="such as 'path(1, x), !edge(1, x)'; - is standard input"),
            *_MACHINE,
            *_CHOICES,
            _NO_MODULES,
            _option("--limit", type=_positive, metavar="N", help="print at most N answers"),
            _option(
                "--param",
                type=_parameter,
                action="append",
                default=[],
                metavar="NAME=VALUE",
                help="the value of $NAME in the query: a number, or else a text; several times",
            ),
            _option(
                "--order",
                type=lambda text: [name.strip() for name in text.split(",")],
                metavar="NAMES",
                help="in the order of these variables, such as x,-y (- is descending)",
            ),
            _option(
                "--format",
                dest="form",
                choices=("table", "tsv", "csv", "json", "parquet"),
                help="of the answers (default: tsv, or what the ending of -o FILE tells)",
            ),
            _option("-o", "--output", type=Path, metavar="FILE", help="write the answers to a file"),
            _JSON,
            *_WARNINGS,
            _LANGUAGE,
            *_BOUNDS,
        ),
        _check_query,
        # None is what was not given: a knowledge base takes neither.
        {"quiet": False, "fact_dir": None, "on_error": None},
    ),
    Command(
        "explain",
        "why a fact holds, or does not",
        "Show a proof of least height of a fact, or of each answer of a query: rules, with their places, "
        "and the facts that it rests on, down to stated ones. PROGRAM.dl can be the directory of a "
        "knowledge base. With --why-not: how far each rule gets that could derive it. Ends with 1 if there "
        "is nothing to explain.",
        (
            _PROGRAM,
            _FACT_DIR,
            *_SOURCE,
            *_READING,
            _option("query", metavar="FACT", help="such as 'path(1, 5)', or a query, such as 'path(1, x)'"),
            _flag("--why-not", help="say why it does not hold"),
            _flag("--all", help="all derivations of each fact, not only one of least height"),
            _option("--depth", type=_positive, metavar="N", help="show no more than N levels"),
            _option(
                "--limit",
                type=_positive,
                metavar="N",
                help="explain at most N answers (default: 100; all with -o)",
            ),
            _option(
                "-o",
                "--output",
                type=Path,
                metavar="FILE",
                help="write it to a file: .json, .svg or .html by its ending, else text",
            ),
            [
                _JSON,
                _flag("--svg", help="a drawing instead of text"),
                _flag("--html", help="a page that opens and closes instead of text"),
            ],
            *_MACHINE,
            *_CHOICES,
            _NO_MODULES,
            *_WARNINGS,
            _LANGUAGE,
        ),
        _check_explain,
        {"quiet": False, "fact_dir": None, "on_error": None, "param": []},
    ),
    Command(
        "shell",
        "talk to a program or a knowledge base",
        "Declarations, rules and facts are added as they are typed, each a transaction that shows what it "
        "changes; ?- asks a query; .help lists commands. Statements may come through a pipe. What is said to "
        "a knowledge base is kept.",
        (
            _PROGRAM.but(nargs="?", metavar="PROGRAM.dl|KB", help="what to begin with (default: nothing)"),
            _FACT_DIR,
            *_SOURCE,
            *_READING,
            *_MACHINE,
            *_CHOICES,
            _NO_MODULES,
            *_WARNINGS,
        ),
    ),
    Command(
        "update",
        "change facts and rules of a knowledge base",
        "Change a knowledge base that `run --save` or Engine.save made: all that is asked for in the order "
        "given, as one transaction. Prints for each relation that changed how many facts came and went. "
        "When it ends with 0 the change is on the disk; if it fails, nothing has changed. With --on spark "
        "the facts of what `run --on spark --save` made.",
        (
            _KB.but(type=str),
            *_OPERATIONS,
            *_FUNCTORS,
            *_READING,
            _TIMESTAMPS,
            *_MACHINE,
            _PROFILED,
            _JSON,
            _QUIET,
            *_SESSION,
        ),
        _check_update,
        {"operations": []},
    ),
    Command(
        "show",
        "what is in a knowledge base",
        "Show the relations of a knowledge base, how many facts they have and how they are stored, and "
        "what the directory takes. Nothing is changed; others may write meanwhile.",
        (
            _KB,
            _flag("--rules", help="print the rules too"),
            _flag(
                "--count",
                help="count the facts of closures, equivalences and unions too, which takes reading "
                "everything",
            ),
            _JSON,
        ),
    ),
    Command(
        "compact",
        "fold the updates of a knowledge base into its tables",
        "Fold the journal of a knowledge base, where updates are written, into its tables. That makes it "
        "smaller and opening it faster; what it holds stays the same.",
        (_KB, _JSON),
        defaults={"quiet": False},
    ),
    Command(
        "doctor",
        "what works on this machine, and what to install",
        "Check Python, processor, memory, libraries, kernel cache, GPU, Java and Spark. Ends with 0 unless "
        "the engine itself can't work, or the GPU that --device names does not do what it should.",
        (
            _option(
                "--device",
                type=_device,
                nargs="?",
                const=0,
                metavar="N",
                help="run every kernel of the CUDA backend on GPU N (default: 0), check the results, "
                "measure, and print a report to send to us",
            ),
            _flag("--warm", help="compile every kernel now, so that no later run has to"),
            _flag(
                "--tune",
                help="measure from which sizes on the GPU is faster than the CPU, and store that for "
                "--backend auto",
            ),
            _JSON,
        ),
    ),
    Command(
        "completion",
        "a script that has a shell complete gpuengine's commands and options",
        "Print a script for a shell, such as: source <(gpuengine completion bash). docs/cli.md says where to "
        "keep it.",
        (_option("shell", choices=("bash", "zsh", "fish"), help="the shell"),),
    ),
    Command(
        "sparql",
        "answer a SPARQL query over a knowledge base of triples, or update it",
        "Print the answer of a query in SPARQL 1.1, or do what an update says, as a transaction. Prefixes of "
        "the rules and triples that the knowledge base was made of need no declaration.",
        (
            _KB.but(help="a knowledge base, or a file of triples"),
            _option(
                "query",
                metavar="QUERY",
                help="the query or update, or @FILE that has it; @- is standard input",
            ),
            _option(
                "--format",
                choices=("table", "csv", "tsv", "json", "xml", "parquet", "nt", "ttl"),
                help="of the answer, on standard output (default: table, or nt for triples)",
            ),
            _PROFILE,
            _REPRESENTATIVES,
            _ON_ERROR,
            *_MACHINE,
        ),
        defaults={"quiet": False, "no_warn": False},
    ),
    Command(
        "check",
        "find where triples contradict their ontology",
        "Print each inconsistency by the name of the rule of OWL 2 RL, with the triples that make it. Ends "
        "with 0 if there is none, else with 1.",
        (
            _KB.but(metavar="FILE", help="a file of triples, or a knowledge base"),
            _FILES,
            _JSON,
            _PROFILE,
            _ON_ERROR,
            *_MACHINE,
        ),
        defaults={"quiet": False, "no_warn": False},
    ),
)
