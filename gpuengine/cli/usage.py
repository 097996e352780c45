"""What is said of a command line that can't be read: one line, and what to do."""

from __future__ import annotations

import argparse
import difflib
import sys
from collections.abc import Iterable, Sequence
from typing import NoReturn

_OF_SOUFFLE = {
    "-c": "nothing has to be compiled: leave it out",
    "-g": "no C++ is generated: programs run as they are; leave it out",
    "-o": "there is no executable: gpuengine run PROGRAM.dl runs a program, -D DIR says where outputs go",
    "-p": "--profile FILE.html has a profile, --profile - prints it",
    "-t": "gpuengine explain PROGRAM.dl 'path(1, 2)' shows proofs, and asks nothing of a run",
    "-l": "--functor-library FILE.so loads functors",
    "-L": "--functor-library FILE.so takes the path of a library",
    "-r": "gpuengine plan PROGRAM.dl shows how a program is evaluated",
    "-d": "-v says what is done; gpuengine plan shows how",
    "-m": "what no output needs is not evaluated; gpuengine query evaluates what a query needs",
    "-z": "all passes are always on: leave it out",
    "-s": "from Python: import gpuengine",
}
"""Options of Soufflé that are none here, and what to use for them."""
_LONG = {
    "--compile": "-c",
    "--generate": "-g",
    "--dl-program": "-o",
    "--provenance": "-t",
    "--libraries": "-l",
    "--library-dir": "-L",
    "--debug-report": "-r",
    "--debug": "-d",
    "--magic-transform": "-m",
    "--disable-transformers": "-z",
    "--swig": "-s",
}


class Parser(argparse.ArgumentParser):
    """Says what is wrong in one line, with a hint, and ends with 2; `--help` has the rest."""

    def error(self, message: str) -> NoReturn:
        self.fail(message, f"{self.prog} --help lists what it takes")

    def fail(self, message: str, hint: str) -> NoReturn:
        """End with 2, and say why and what to do."""
        self.exit(2, f"error: {self.prog}: {message}\n  hint: {hint}\n")


def refuse_command(parser: Parser, given: Sequence[str], names: Iterable[str]) -> None:
    """End if the first word is no command, nor an option; without any, show what there is."""
    if not given:
        parser.print_help(sys.stderr)
        parser.exit(2, "error: say which COMMAND\n  hint: gpuengine run PROGRAM.dl evaluates a program\n")
    word = given[0]
    if word.startswith("-") or word in names:
        return
    if "." in word or "/" in word:
        parser.fail(
            f"{word} is no command", f"gpuengine run {word} evaluates it, gpuengine shell {word} opens it"
        )
    near = difflib.get_close_matches(word, list(names), 1)
    hint = f"did you mean {near[0]}?" if near else f"there is {', '.join(names)}"
    parser.fail(f"there is no command {word}", hint)


def refuse_rest(parser: Parser, rest: Sequence[str]) -> NoReturn:
    """End with what is said of words that a command does not take."""
    word = next((one for one in rest if one.startswith("-")), rest[0])
    name = word.partition("=")[0]
    if not word.startswith("-"):
        parser.error(f"{word} is too much")
    short = name if name.startswith("--") else name[:2]
    of_souffle = _OF_SOUFFLE.get(_LONG.get(short, short))
    if of_souffle is not None:
        parser.fail(f"{short} is an option of Soufflé", of_souffle)
    options = [option for action in parser._actions for option in action.option_strings]
    near = difflib.get_close_matches(name, options, 1)
    if near:
        parser.fail(f"there is no option {name}", f"did you mean {near[0]}?")
    parser.error(f"there is no option {name}")
