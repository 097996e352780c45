"""What does not go together on the command line, and what is meant where nothing is said."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from gpuengine.cli.knowledge_bases import is_knowledge_base, is_rdf_base, is_temporal_base
from gpuengine.cli.languages import MTL, is_rdf, is_temporal
from gpuengine.cli.options import CLUSTER, OF_MTL, OF_RDF, OF_RDF_ON_SPARK, SESSION, Option
from gpuengine.cli.values import STDIN


def check_run(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> None:
    _check_language(parser, arguments)
    _check_place(parser, arguments)
    for option, given in (("--replace", arguments.replace), ("--counting", arguments.counting)):
        if given and arguments.save is None:
            parser.error(f"{option} goes with --save KB only")


def check_plan(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> None:
    _check_language(parser, arguments)
    if arguments.profiled is not None and not arguments.analyse:
        parser.error("--profile goes with --analyse only: nothing is evaluated otherwise")
    if arguments.analyse and arguments.after is not None:
        parser.error("--analyse does not go with --after")


def check_query(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> None:
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


def check_explain(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> None:
    if is_rdf(arguments):
        parser.error(f"{arguments.program} is RDF, whose triples can't be explained yet")
    if arguments.why_not and (arguments.all or arguments.svg or arguments.html):
        parser.error("--why-not goes with text or --json only")
    svg, arguments.svg = arguments.svg, None  # --svg of plan takes a file, and is refused for some languages
    check_query(parser, arguments)
    arguments.svg = svg


def _takes_files(kb: Path) -> bool:
    """Does a file alone say what its facts are of?"""
    return is_temporal_base(kb) or is_rdf_base(kb)


def check_update(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> None:
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
        _refuse_those_of_spark(parser, arguments, SESSION)
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
        _refuse_those_of_spark(parser, arguments, (*SESSION, *CLUSTER))
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
        if form not in (None, *OF_MTL):
            parser.error(f"--format {form} is for RDF, but {arguments.program} is DatalogMTL")
        for name, option in _OF_DATALOG.items():
            if getattr(arguments, name, None):
                parser.error(f"{option} is for Datalog, but {arguments.program} is DatalogMTL")
        if getattr(arguments, "on", None) == "spark":
            parser.error(f"--on spark is for Datalog, but {arguments.program} is DatalogMTL")
        return
    for name in ("rounds", "horizon", "procedure", "timestamps", "format"):
        if getattr(arguments, name, None):
            parser.error(f"--{name} is for DatalogMTL: name the program PROGRAM{MTL}, or say --language mtl")


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
    if form not in (None, *OF_RDF):
        parser.error(f"--format {form} is not for RDF")


def _check_rdf_on_spark(
    parser: argparse.ArgumentParser, arguments: argparse.Namespace, form: str | None
) -> None:
    for name in ("save", "representatives", "encoded", "checkpoint", "nulls"):
        if getattr(arguments, name, None):
            parser.error(f"--{name} does not go with --on spark for RDF")
    if form not in (None, *OF_RDF_ON_SPARK):
        parser.error(f"Spark does not write {form}: --format is one of {', '.join(OF_RDF_ON_SPARK)}")
