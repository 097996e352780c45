"""``gpuengine completion``: scripts for shells, made from the options that the parser knows."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from gpuengine.cli.arguments import make_parsers


@dataclass(frozen=True)
class _Option:
    """`choices` are the values it takes, if these are few; a value of another kind is a file."""

    flags: tuple[str, ...]
    takes_value: bool
    choices: tuple[str, ...]
    told: str


@dataclass(frozen=True)
class _Command:
    told: str
    options: tuple[_Option, ...]
    words: tuple[str, ...]
    """What can stand there without an option, if that is known; files otherwise."""


def completion(arguments: argparse.Namespace) -> int:
    """Print the script."""
    script = {"bash": _bash, "zsh": _zsh, "fish": _fish}[arguments.shell]
    sys.stdout.write("\n".join(script(_commands())) + "\n")
    return 0


def _commands() -> dict[str, _Command]:
    parser, parsers = make_parsers()
    group = next(action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    told = {action.dest: action.help or "" for action in group._choices_actions}
    return {name: _command(told[name], one) for name, one in parsers.items()}


def _command(told: str, parser: argparse.ArgumentParser) -> _Command:
    options: list[_Option] = []
    words: list[str] = []
    for action in parser._actions:
        choices = tuple(map(str, action.choices or ()))
        if action.option_strings:
            help_text = " ".join((action.help or "").replace("%%", "%").split())
            options.append(_Option(tuple(action.option_strings), action.nargs != 0, choices, help_text))
        else:
            words += choices
    return _Command(told, tuple(options), tuple(words))


def _bash(commands: Mapping[str, _Command]) -> Iterator[str]:
    yield "# gpuengine completion for bash: source it"
    yield "_gpuengine() {"
    yield '  local word="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}" IFS=$\' \\t\\n\''
    yield "  COMPREPLY=()"
    yield '  if [ "$COMP_CWORD" -eq 1 ]; then'
    yield f'    COMPREPLY=($(compgen -W "{" ".join((*commands, "--help", "--version"))}" -- "$word"))'
    yield "    return"
    yield "  fi"
    yield '  case "${COMP_WORDS[1]}:$before" in'
    for name, command in commands.items():
        for option in command.options:
            if option.takes_value:
                pattern = "|".join(f"{name}:{flag}" for flag in option.flags)
                what = f'-W "{" ".join(option.choices)}"' if option.choices else "-f"
                yield f'    {pattern}) COMPREPLY=($(compgen {what} -- "$word")); return ;;'
    yield "  esac"
    yield '  case "${COMP_WORDS[1]}" in'
    for name, command in commands.items():
        flags = " ".join(flag for option in command.options for flag in option.flags)
        words = f'-W "{" ".join(command.words)}"' if command.words else "-f"
        yield (
            f'    {name}) if [ "${{word#-}}" != "$word" ]; then '
            f'COMPREPLY=($(compgen -W "{flags}" -- "$word")); '
            f'else COMPREPLY=($(compgen {words} -- "$word")); fi ;;'
        )
    yield "  esac"
    yield "}"
    yield "complete -o filenames -F _gpuengine gpuengine"


def _zsh(commands: Mapping[str, _Command]) -> Iterator[str]:
    yield "#compdef gpuengine"
    yield "_gpuengine() {"
    yield "  if (( CURRENT == 2 )); then"
    yield "    local -a commands"
    yield f"    commands=({' '.join(_quoted(f'{name}:{one.told}') for name, one in commands.items())})"
    yield "    _describe command commands"
    yield "    return"
    yield "  fi"
    yield '  local command="${words[2]}"'
    yield "  shift words; (( CURRENT-- ))"
    yield '  case "$command" in'
    for name, command in commands.items():
        specs = [_zsh_option(option) for option in command.options]
        rest = f":({' '.join(command.words)})" if command.words else ":_files"
        yield f"    {name}) _arguments {' '.join(specs)} {_quoted(f'*:{name}{rest}')} ;;"
    yield "  esac"
    yield "}"
    yield "compdef _gpuengine gpuengine"


def _zsh_option(option: _Option) -> str:
    told = option.told.replace("[", "(").replace("]", ")").replace(":", "\\:")
    value = ""
    if option.takes_value:
        value = f":value:({' '.join(option.choices)})" if option.choices else ":file:_files"
    return " ".join(_quoted(f"*{flag}[{told}]{value}") for flag in option.flags)


def _fish(commands: Mapping[str, _Command]) -> Iterator[str]:
    yield "# gpuengine completion for fish"
    for name, command in commands.items():
        yield f"complete -c gpuengine -f -n __fish_use_subcommand -a {name} -d {_quoted(command.told)}"
    for name, command in commands.items():
        within = f"complete -c gpuengine -n '__fish_seen_subcommand_from {name}'"
        for option in command.options:
            flags = " ".join(
                f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}" for flag in option.flags
            )
            value = ""
            if option.takes_value:
                value = f" -x -a {_quoted(' '.join(option.choices))}" if option.choices else " -r"
            yield f"{within} {flags}{value} -d {_quoted(option.told)}"
        if command.words:
            yield f"{within} -f -a {_quoted(' '.join(command.words))}"


def _quoted(text: str) -> str:
    """For zsh and fish, which both know how to take a quote out of quotes."""
    return "'" + text.replace("'", "'\\''") + "'"
