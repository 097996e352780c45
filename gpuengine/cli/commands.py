"""The commands: what each is for, and which options it takes."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from gpuengine.cli import combinations, values
from gpuengine.cli.options import (
    BOUNDS,
    CHOICES,
    CLUSTER,
    FACT_DIR,
    FILES,
    FUNCTORS,
    JSON,
    KB,
    LANGUAGE,
    MACHINE,
    NO_MODULES,
    OF_MTL,
    OF_RDF,
    ON_ERROR,
    OPERATIONS,
    PROFILE,
    PROFILED,
    PROGRAM,
    QUIET,
    READING,
    REPRESENTATIVES,
    SAVE,
    SESSION,
    SOURCE,
    TIMESTAMPS,
    WARNINGS,
    Option,
    flag,
    option,
)
from gpuengine.cli.usage import Parser

Check = Callable[[argparse.ArgumentParser, argparse.Namespace], None]
EXIT_CODES = (
    "exit codes: 0 done, 1 error in program, data or evaluation, 2 usage, 124 out of time, 130 interrupted"
)


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
            self.name, help=self.summary, description=self.description, epilog=EXIT_CODES
        )
        groups: dict[str | None, argparse._ActionsContainer] = {None: parser}
        for entry in (_TIMEOUT, _VERBOSE, *self.options):
            one_of = parser.add_mutually_exclusive_group() if isinstance(entry, list) else None
            for one in entry if isinstance(entry, list) else [entry]:
                if one.group not in groups:
                    groups[one.group] = parser.add_argument_group(one.group)
                (one_of or groups[one.group]).add_argument(*one.flags, **one.settings)
        parser.set_defaults(command=self.run, check=partial(self.check, parser), **self.defaults)

    def run(self, arguments: argparse.Namespace) -> int:
        """Run it; its module is imported now."""
        module = importlib.import_module(f"gpuengine.cli.{self.name}")
        return int(getattr(module, self.name)(arguments))


_TIMEOUT = option(
    "--timeout",
    type=values.seconds,
    metavar="SECONDS",
    help="end after so long, as an interrupt would: nothing is left half done; the exit code is 124 then",
)
_VERBOSE = flag("-v", "--verbose", help="say on standard error what is done, and how long it takes")
COMMANDS = (
    Command(
        "run",
        "evaluate a program and write its outputs",
        "Evaluate a Datalog program: read its .input relations, derive what its .output and .printsize "
        "relations need, and write them. -F, -D, -I, -M, -j, -v and -w mean what they mean to Soufflé. Or "
        "reason over triples: with RDFox's rules (.dlog), or the axioms of an ontology. With --on "
        "spark, Spark reads and writes datasets, and evaluates the program if one engine is too small; "
        "-F, -D and --save may be URIs then.",
        (
            PROGRAM,
            FILES,
            # Of what may be a URI the text is kept: Path would make s3a:/bucket of s3a://bucket.
            FACT_DIR.but(type=str, default="."),
            *SOURCE,
            *FUNCTORS,
            *READING,
            option(
                "-D",
                "--output-dir",
                default=".",
                metavar="DIR",
                help="where output files go (default: .); made if missing; - prints to standard output",
            ),
            *MACHINE,
            *CHOICES,
            NO_MODULES,
            *WARNINGS,
            flag("--sort", help="write rows in order, so that outputs of two runs can be compared"),
            flag("--stats", help="seconds, sizes and what each rule cost, on standard error"),
            PROFILED,
            JSON.but(help="one JSON object on standard output instead of text"),
            QUIET,
            *SAVE,
            *SESSION,
            *CLUSTER,
            LANGUAGE,
            *BOUNDS,
            PROFILE,
            REPRESENTATIVES,
            option(
                "--format",
                choices=tuple(dict.fromkeys((*OF_MTL, *OF_RDF))),
                help="mtl: of the files in -D, one for each predicate (default: csv); rdf: of the file "
                "closure.FORMAT in -D (default: nt, or nq if there are named graphs)",
            ),
        ),
        combinations.check_run,
    ),
    Command(
        "plan",
        "show how a program would be evaluated",
        "Show strata, delta rules, join orders, hypertrees and indexes, and why. Nothing is evaluated. With "
        "-F the facts are loaded and the estimates come from them; without, default sizes are assumed. With "
        "--analyse it is evaluated, nothing is written, and what was measured is shown beside it.",
        (
            PROGRAM,
            FILES,
            FACT_DIR.but(default=None, help="where the fact files are"),
            *SOURCE,
            *FUNCTORS,
            *READING,
            flag("--analyse", help="evaluate the program on the facts of -F (default: .), and measure"),
            PROFILED.but(help="with --analyse: the profile of the evaluation too, as run --profile has it"),
            *MACHINE,
            *CHOICES,
            NO_MODULES,
            *WARNINGS,
            [
                JSON.but(help="the plan as one JSON object"),
                option("--svg", metavar="FILE", help="draw the plan; - is standard output"),
                option(
                    "--after",
                    metavar="PASS",
                    type=values.pass_name,
                    help="the program as the planner has rewritten it up to this pass; see docs/cli.md",
                ),
            ],
            LANGUAGE,
            PROFILE,
        ),
        combinations.check_plan,
    ),
    Command(
        "query",
        "answer a query over a program and its facts, or over a knowledge base",
        "Evaluate what the query needs and print its answers: one column for each variable, tab-separated "
        "under a header. A query without variables prints true or false. PROGRAM.dl can be the directory of "
        "a knowledge base: then nothing is read or evaluated but the query.",
        (
            PROGRAM,
            FACT_DIR,
            *SOURCE,
            *FUNCTORS,
            *READING,
            option("query", metavar="QUERY", help="such as 'path(1, x), !edge(1, x)'; - is standard input"),
            *MACHINE,
            *CHOICES,
            NO_MODULES,
            option("--limit", type=values.positive, metavar="N", help="print at most N answers"),
            option(
                "--param",
                type=values.parameter,
                action="append",
                default=[],
                metavar="NAME=VALUE",
                help="the value of $NAME in the query: a number, or else a text; several times",
            ),
            option(
                "--order",
                type=lambda text: [name.strip() for name in text.split(",")],
                metavar="NAMES",
                help="in the order of these variables, such as x,-y (- is descending)",
            ),
            option(
                "--format",
                dest="form",
                choices=("table", "tsv", "csv", "json", "parquet"),
                help="of the answers (default: tsv, or what the ending of -o FILE tells)",
            ),
            option("-o", "--output", type=Path, metavar="FILE", help="write the answers to a file"),
            JSON,
            *WARNINGS,
            LANGUAGE,
            *BOUNDS,
        ),
        combinations.check_query,
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
            PROGRAM,
            FACT_DIR,
            *SOURCE,
            *READING,
            option("query", metavar="FACT", help="such as 'path(1, 5)', or a query, such as 'path(1, x)'"),
            flag("--why-not", help="say why it does not hold"),
            flag("--all", help="all derivations of each fact, not only one of least height"),
            option("--depth", type=values.positive, metavar="N", help="show no more than N levels"),
            option(
                "--limit",
                type=values.positive,
                metavar="N",
                help="explain at most N answers (default: 100; all with -o)",
            ),
            option(
                "-o",
                "--output",
                type=Path,
                metavar="FILE",
                help="write it to a file: .json, .svg or .html by its ending, else text",
            ),
            [
                JSON,
                flag("--svg", help="a drawing instead of text"),
                flag("--html", help="a page that opens and closes instead of text"),
            ],
            *MACHINE,
            *CHOICES,
            NO_MODULES,
            *WARNINGS,
            LANGUAGE,
        ),
        combinations.check_explain,
        {"quiet": False, "fact_dir": None, "on_error": None, "param": []},
    ),
    Command(
        "shell",
        "talk to a program or a knowledge base",
        "Declarations, rules and facts are added as they are typed, each a transaction that shows what it "
        "changes; ?- asks a query; .help lists commands. Statements may come through a pipe. What is said to "
        "a knowledge base is kept.",
        (
            PROGRAM.but(nargs="?", metavar="PROGRAM.dl|KB", help="what to begin with (default: nothing)"),
            FACT_DIR,
            *SOURCE,
            *READING,
            *MACHINE,
            *CHOICES,
            NO_MODULES,
            *WARNINGS,
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
            KB.but(type=str),
            *OPERATIONS,
            *FUNCTORS,
            *READING,
            TIMESTAMPS,
            *MACHINE,
            PROFILED,
            JSON,
            QUIET,
            *SESSION,
        ),
        combinations.check_update,
        {"operations": []},
    ),
    Command(
        "show",
        "what is in a knowledge base",
        "Show the relations of a knowledge base, how many facts they have and how they are stored, and "
        "what the directory takes. Nothing is changed; others may write meanwhile.",
        (
            KB,
            flag("--rules", help="print the rules too"),
            flag(
                "--count",
                help="count the facts of closures, equivalences and unions too, which takes reading "
                "everything",
            ),
            JSON,
        ),
    ),
    Command(
        "compact",
        "fold the updates of a knowledge base into its tables",
        "Fold the journal of a knowledge base, where updates are written, into its tables. That makes it "
        "smaller and opening it faster; what it holds stays the same.",
        (KB, JSON),
        defaults={"quiet": False},
    ),
    Command(
        "doctor",
        "what works on this machine, and what to install",
        "Check Python, processor, memory, libraries, kernel cache, GPU, Java and Spark. Ends with 0 unless "
        "the engine itself can't work, or the GPU that --device names does not do what it should.",
        (
            option(
                "--device",
                type=values.device,
                nargs="?",
                const=0,
                metavar="N",
                help="run every kernel of the CUDA backend on GPU N (default: 0), check the results, "
                "measure, and print a report to send to us",
            ),
            flag("--warm", help="compile every kernel now, so that no later run has to"),
            flag(
                "--tune",
                help="measure from which sizes on the GPU is faster than the CPU, and store that for "
                "--backend auto",
            ),
            JSON,
        ),
    ),
    Command(
        "completion",
        "a script that has a shell complete gpuengine's commands and options",
        "Print a script for a shell, such as: source <(gpuengine completion bash). docs/cli.md says where to "
        "keep it.",
        (option("shell", choices=("bash", "zsh", "fish"), help="the shell"),),
    ),
    Command(
        "sparql",
        "answer a SPARQL query over a knowledge base of triples, or update it",
        "Print the answer of a query in SPARQL 1.1, or do what an update says, as a transaction. Prefixes of "
        "the rules and triples that the knowledge base was made of need no declaration.",
        (
            KB.but(help="a knowledge base, or a file of triples"),
            option(
                "query",
                metavar="QUERY",
                help="the query or update, or @FILE that has it; @- is standard input",
            ),
            option(
                "--format",
                choices=("table", "csv", "tsv", "json", "xml", "parquet", "nt", "ttl"),
                help="of the answer, on standard output (default: table, or nt for triples)",
            ),
            PROFILE,
            REPRESENTATIVES,
            ON_ERROR,
            *MACHINE,
        ),
        defaults={"quiet": False, "no_warn": False},
    ),
    Command(
        "check",
        "find where triples contradict their ontology",
        "Print each inconsistency by the name of the rule of OWL 2 RL, with the triples that make it. Ends "
        "with 0 if there is none, else with 1.",
        (
            KB.but(metavar="FILE", help="a file of triples, or a knowledge base"),
            FILES,
            JSON,
            PROFILE,
            ON_ERROR,
            *MACHINE,
        ),
        defaults={"quiet": False, "no_warn": False},
    ),
)
