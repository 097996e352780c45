"""From what was typed to a command and its arguments."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence

from gpuengine import __version__
from gpuengine.cli.commands import COMMANDS, EXIT_CODES
from gpuengine.cli.usage import Parser, refuse_command, refuse_rest


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
        prog="gpuengine", description="Datalog materialisation on columnar arrays.", epilog=EXIT_CODES
    )
    parser.add_argument("--version", action="version", version=f"gpuengine {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True, dest="name")
    chosen = [command for command in COMMANDS if command.name == only]
    for command in chosen or COMMANDS:
        command.add_to(commands)
    return parser, commands.choices


def show_log() -> None:
    """Have what the engine logs on standard error."""
    import logging

    logging.basicConfig(format="%(asctime)s %(name)s: %(message)s", level=logging.INFO)
