"""What can be typed about knowledge bases: saving, updating, looking at and compacting them."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from gpuengine.cli.arguments_spark import check_update_place

Kind = Literal["insert", "delete", "add-rules", "remove-rules"]
STDIN = Path("-")
_OF_SPARK = "saved.json"


class Operation(NamedTuple):
    """A part of an update; `relation` is empty for rules. `given` is what was typed: a path, or a URI."""

    kind: Kind
    relation: str
    given: str

    @property
    def path(self) -> Path:
        return Path(self.given)


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


def add_save(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--save",
        metavar="KB",
        help="derive everything and save it as a knowledge base: a directory, new or empty",
    )
    parser.add_argument(
        "--replace", action="store_true", help="with --save: replace the knowledge base that is there"
    )
    parser.add_argument(
        "--counting",
        action="store_true",
        help="with --save: updates keep derivation counters, which take memory and save overdeleting",
    )


def check_run(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> None:
    if arguments.replace and arguments.save is None:
        parser.error("--replace goes with --save KB only")
    if arguments.counting and arguments.save is None:
        parser.error("--counting goes with --save KB only")


def check_query(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> None:
    """Refuse what is for programs only if there is a knowledge base, else supply defaults."""
    arguments.is_saved = is_knowledge_base(arguments.program)
    if arguments.is_saved:
        given = {
            "-F": arguments.fact_dir is not None,
            "-I": arguments.include_dir,
            "-M": arguments.macro,
            "--on-error": arguments.on_error is not None,
            "--scheme": arguments.scheme,
            "--evaluator": arguments.evaluator,
            "--no-modules": arguments.no_modules,
        }
        for option in (name for name, value in given.items() if value):
            parser.error(
                f"{option} is for programs, but {arguments.program} is a knowledge base: its program, "
                "facts, schemes and evaluators are those that were saved"
            )
    arguments.fact_dir = arguments.fact_dir or Path()
    arguments.on_error = arguments.on_error or "fail"


def add_operations(parser: argparse.ArgumentParser) -> None:
    """What `update` does, and where it says what came of it."""
    parser.set_defaults(operations=[])
    # The text is kept, as it may be a URI for Spark: Path would make s3a:/bucket of s3a://bucket.
    _add_knowledge_base(parser, type=str)
    for kind, summary in (("insert", "state the facts of a file"), ("delete", "state them no longer")):
        parser.add_argument(
            f"--{kind}",
            action=_Record,
            const=kind,
            type=_facts,
            metavar="RELATION=FILE",
            help=f"{summary}; text, Parquet or Arrow by extension, - is standard input; several times",
        )
    for kind, summary in (("add-rules", "add the rules of a file"), ("remove-rules", "remove them")):
        parser.add_argument(
            f"--{kind}",
            action=_Record,
            const=kind,
            metavar="FILE.dl",
            help=f"{summary}; facts among them are stated or stated no longer; several times",
        )
    parser.add_argument(
        "--changes",
        type=Path,
        metavar="DIR",
        help="write what came and went: RELATION.inserted.EXT and RELATION.deleted.EXT for each relation "
        "that changed",
    )
    parser.add_argument(
        "--format",
        choices=("tsv", "csv", "parquet", "arrow"),
        help="of the files of --changes (default: tsv, as .output has it)",
    )


def check_update(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> None:
    if not arguments.operations:
        parser.error("nothing to do: give --insert, --delete, --add-rules or --remove-rules")
    if sum(operation.path == STDIN for operation in arguments.operations) > 1:
        parser.error("standard input (-) can be read once only")
    if arguments.format and arguments.changes is None:
        parser.error("--format goes with --changes DIR only")
    if arguments.on == "spark" and any(operation.path == STDIN for operation in arguments.operations):
        parser.error("executors of Spark have no standard input: give a file instead of -")
    arguments.kb = arguments.kb if arguments.on == "spark" else Path(arguments.kb)
    check_update_place(parser, arguments)
    arguments.format = arguments.format or "tsv"


def add_show(parser: argparse.ArgumentParser) -> None:
    _add_knowledge_base(parser)
    parser.add_argument("--rules", action="store_true", help="print the rules too")
    parser.add_argument(
        "--count",
        action="store_true",
        help="count the facts of closures, equivalences and unions too, which takes reading everything",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object instead of text")


def add_compact(parser: argparse.ArgumentParser) -> None:
    _add_knowledge_base(parser)
    parser.add_argument("--json", action="store_true", help="one JSON object instead of text")
    parser.set_defaults(quiet=False)


def is_knowledge_base(path: Path) -> bool:
    """Does it look like one? Opening it tells."""
    return (path / "manifest.json").is_file()


def is_saved_by_spark(path: Path) -> bool:
    """Did ``run --on spark --save`` write it?"""
    return (path / _OF_SPARK).is_file()


def _add_knowledge_base(parser: argparse.ArgumentParser, type: type[Path] | type[str] = Path) -> None:
    parser.add_argument("kb", type=type, metavar="KB", help="the directory of the knowledge base")


def _facts(text: str) -> tuple[str, str]:
    relation, equals, file = text.partition("=")
    if not (equals and relation and file):
        raise argparse.ArgumentTypeError(f"{text!r} is not RELATION=FILE, such as edge=new.csv")
    return relation, file
