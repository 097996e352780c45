"""What can be typed: commands, options, and their checks."""

from __future__ import annotations

import argparse
import importlib
import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from gpuengine import __version__
from gpuengine.cli.arguments_kb import (
    add_compact,
    add_operations,
    add_save,
    add_show,
    check_query,
    check_run,
    check_update,
)
from gpuengine.cli.arguments_spark import add_session, add_spark, check_place

Command = Callable[[argparse.Namespace], int]

_EXIT_CODES = "exit codes: 0 done, 1 error in program, data or evaluation, 2 usage, 130 interrupted"


def parse_arguments(argv: Sequence[str]) -> argparse.Namespace:
    """The arguments, with the function that runs the command as `command`. Exits with 2 on bad usage."""
    parser = argparse.ArgumentParser(
        prog="gpuengine", description="Datalog materialisation on columnar arrays.", epilog=_EXIT_CODES
    )
    parser.add_argument("--version", action="version", version=f"gpuengine {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True, dest="name")
    _add_run(commands)
    _add_plan(commands)
    _add_query(commands)
    _add_update(commands)
    _add_show(commands)
    _add_compact(commands)
    _add_doctor(commands)
    arguments = parser.parse_args(argv)
    arguments.check(arguments)
    return arguments


def _lazily(name: str) -> Command:
    """The function `name` of the module of the same name, imported when it is called."""

    def command(arguments: argparse.Namespace) -> int:
        module = importlib.import_module(f"gpuengine.cli.{name}")
        return int(getattr(module, name)(arguments))

    return command


def _command(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], name: str, summary: str, description: str
) -> argparse.ArgumentParser:
    parser = commands.add_parser(name, help=summary, description=description, epilog=_EXIT_CODES)
    parser.set_defaults(command=_lazily(name), check=_nothing_to_check)
    return parser


def _nothing_to_check(arguments: argparse.Namespace) -> None:
    """What `check` is unless options must fit each other."""


def _add_run(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    run = _command(
        commands,
        "run",
        "evaluate a program and write its outputs",
        "Evaluate a Datalog program: read its .input relations, derive what its .output and .printsize "
        "relations need, and write them. -F, -D, -I, -M, -j and -w mean what they mean to Soufflé. With --on "
        "spark, Spark reads and writes datasets, and evaluates the program if one engine is too small; "
        "-F, -D and --save may be URIs then.",
    )
    # Of what may be a URI the text is kept: Path would make s3a:/bucket of s3a://bucket.
    _add_program(run, facts_default=".", facts_type=str)
    run.add_argument(
        "-D",
        "--output-dir",
        default=".",
        metavar="DIR",
        help="where output files go (default: .); made if missing; - prints to standard output",
    )
    _add_engine(run)
    run.add_argument("-w", "--no-warn", action="store_true", help="no warnings")
    run.add_argument(
        "--stats", action="store_true", help="seconds, sizes and what each rule cost, on standard error"
    )
    run.add_argument("--json", action="store_true", help="one JSON object on standard output instead of text")
    _add_quiet(run)
    add_save(run)
    add_spark(run)
    run.set_defaults(check=partial(_check_run, run))


def _check_run(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> None:
    check_place(parser, arguments)
    check_run(parser, arguments)


def _add_plan(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    plan = _command(
        commands,
        "plan",
        "show how a program would be evaluated",
        "Show strata, delta rules, join orders, hypertrees and indexes, and why. Nothing is evaluated. With "
        "-F the facts are loaded and the estimates come from them; without, default sizes are assumed.",
    )
    _add_program(plan, facts_default=None)
    _add_schemes(plan)
    _add_evaluators(plan)
    form = plan.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="the plan as one JSON object")
    form.add_argument("--svg", metavar="FILE", help="draw the plan; - is standard output")


def _add_query(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    query = _command(
        commands,
        "query",
        "answer a query over a program and its facts, or over a knowledge base",
        "Evaluate what the query needs and print its answers: one column for each variable, tab-separated "
        "under a header. A query without variables prints true or false. PROGRAM.dl can be the directory of "
        "a knowledge base: then nothing is read or evaluated but the query.",
    )
    _add_program(query)
    query.add_argument("query", metavar="QUERY", help="such as 'path(1, x), !edge(1, x)'")
    _add_engine(query)
    query.add_argument("--limit", type=_positive, metavar="N", help="print at most N answers")
    query.add_argument("--json", action="store_true", help="one JSON object instead of text")
    # None is what was not given: a knowledge base takes neither.
    query.set_defaults(quiet=False, no_warn=False, fact_dir=None, on_error=None)
    query.set_defaults(check=partial(check_query, query))


def _add_update(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    update = _command(
        commands,
        "update",
        "change facts and rules of a knowledge base",
        "Change a knowledge base that `run --save` or Engine.save made: all that is asked for in the order "
        "given, as one transaction. Prints for each relation that changed how many facts came and went. "
        "When it ends with 0 the change is on the disk; if it fails, nothing has changed. With --on spark "
        "the facts of what `run --on spark --save` made.",
    )
    add_operations(update)
    _add_on_error(update)
    _add_machine(update)
    update.add_argument("--json", action="store_true", help="one JSON object instead of text")
    _add_quiet(update)
    add_session(update)
    update.set_defaults(check=partial(check_update, update))


def _add_show(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    add_show(
        _command(
            commands,
            "show",
            "what is in a knowledge base",
            "Show the relations of a knowledge base, how many facts they have and how they are stored, and "
            "what the directory takes. Nothing is changed; others may write meanwhile.",
        )
    )


def _add_compact(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    add_compact(
        _command(
            commands,
            "compact",
            "fold the updates of a knowledge base into its tables",
            "Fold the journal of a knowledge base, where updates are written, into its tables. That makes it "
            "smaller and opening it faster; what it holds stays the same.",
        )
    )


def _add_doctor(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    doctor = _command(
        commands,
        "doctor",
        "what works on this machine, and what to install",
        "Check Python, processor, memory, libraries, kernel cache, GPU, Java and Spark. Ends with 0 unless "
        "the engine itself can't work, or the GPU that --device names does not do what it should.",
    )
    doctor.add_argument(
        "--device",
        type=_device,
        nargs="?",
        const=0,
        metavar="N",
        help="run every kernel of the CUDA backend on GPU N (default: 0), check the results, measure, and "
        "print a report to send to us",
    )
    doctor.add_argument(
        "--tune",
        action="store_true",
        help="measure from which sizes on the GPU is faster than the CPU, and store that for --backend auto",
    )
    doctor.add_argument("--json", action="store_true", help="one JSON object instead of text")


def _add_program(
    parser: argparse.ArgumentParser,
    facts_default: Path | str | None = Path(),
    facts_type: type[Path] | type[str] = Path,
) -> None:
    parser.add_argument("program", type=Path, metavar="PROGRAM.dl", help="the program")
    parser.add_argument(
        "-F",
        "--fact-dir",
        type=facts_type,
        default=facts_default,
        metavar="DIR",
        help="where the fact files are" + (" (default: .)" if facts_default is not None else ""),
    )
    parser.add_argument(
        "-I",
        "--include-dir",
        type=Path,
        action="append",
        default=[],
        metavar="DIR",
        help="where included programs are looked for; can be given several times",
    )
    parser.add_argument(
        "-M",
        "--macro",
        type=_macros,
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="define macros, separated by spaces; can be given several times",
    )
    _add_on_error(parser)


def _add_on_error(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--on-error",
        choices=("fail", "skip"),
        default="fail",
        help="what to do with a bad row of a fact file (default: fail); skip leaves it out and counts it",
    )


def _add_quiet(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--quiet", "--no-progress", action="store_true", help="no progress line, also on a terminal"
    )


def _add_engine(parser: argparse.ArgumentParser) -> None:
    _add_machine(parser)
    _add_schemes(parser)
    _add_evaluators(parser)
    parser.add_argument(
        "--no-modules",
        action="store_true",
        help="evaluate transitive and symmetric rules of tables rule by rule, for comparison",
    )


def _add_machine(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-j",
        "--jobs",
        type=_jobs,
        default=None,
        metavar="N",
        help="threads; auto (the default) is all processors this process may use",
    )
    parser.add_argument(
        "--backend",
        choices=("auto", "cpu", "cuda"),
        default="auto",
        help="where rules run: cpu, cuda (an NVIDIA GPU), or auto (the default): on a GPU if there is one "
        "and the data is large enough",
    )
    parser.add_argument(
        "--device", type=_device, default=0, metavar="N", help="which GPU, counted from 0 (default: 0)"
    )
    parser.add_argument(
        "--device-memory",
        type=_memory,
        metavar="SIZE",
        help="how much of the GPU's memory may be used, as 8GB or 512MB (default: 80%% of what is free)",
    )
    parser.add_argument(
        "--memory",
        type=_memory,
        metavar="SIZE",
        help="memory budget, as 8GB or 512MB (default: 80%% of what is free)",
    )


def _add_schemes(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--scheme",
        type=_scheme,
        action="append",
        default=[],
        metavar="RELATION=SCHEME",
        help="how to store a relation: table, closure, equivalence, union or auto (the default); * is every "
        "relation; can be given several times",
    )


def _add_evaluators(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--evaluator",
        type=_evaluator,
        action="append",
        default=[],
        metavar="RULE=EVALUATOR",
        help="by what to evaluate a rule: join, hypertree, written or auto (the default); path is all rules "
        "of path, path:2 its second one, * every rule; can be given several times",
    )


def _jobs(text: str) -> int | None:
    return None if text == "auto" else _positive(text)


def _positive(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,9}", text) or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return int(text)


def _device(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,4}", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not the number of a GPU: 0 is the first")
    return int(text)


def _macros(text: str) -> dict[str, str]:
    """``A=1 B`` as Soufflé's -M takes it: separated by spaces; a name alone means 1."""
    macros = {}
    for part in text.split():
        name, equals, value = part.partition("=")
        if not re.fullmatch(r"[A-Za-z_]\w*", name):
            raise argparse.ArgumentTypeError(f"{part!r} is not NAME=VALUE")
        macros[name] = value if equals else "1"
    return macros


def _scheme(text: str) -> tuple[str, str]:
    relation, equals, scheme = text.partition("=")
    if not (equals and relation and scheme):
        raise argparse.ArgumentTypeError(f"{text!r} is not RELATION=SCHEME, such as path=closure")
    return relation, scheme


def _evaluator(text: str) -> tuple[str, str]:
    rule, equals, evaluator = (part.strip() for part in text.partition("="))
    if not (equals and rule and evaluator):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not RULE=EVALUATOR, such as path=hypertree or path:2=join"
        )
    return rule, evaluator


def _memory(text: str) -> str:
    if not re.fullmatch(r"\s*\d+(\.\d+)?\s*[KMGT]?(I?B)?\s*", text.upper()):
        raise argparse.ArgumentTypeError(f"{text!r} is not a size; write it like 8GB or 512MB")
    return text
