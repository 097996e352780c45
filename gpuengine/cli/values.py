"""What can follow an option, each read by a function that says what is wrong with it."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from gpuengine.errors import GpuEngineError

Kind = Literal["insert", "delete", "add-rules", "remove-rules"]
STDIN = Path("-")


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


class Record(argparse.Action):
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


def jobs(text: str) -> int | None:
    return None if text == "auto" else positive(text)


def positive(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,9}", text) or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return int(text)


def natural(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,9}", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number")
    return int(text)


def device(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,4}", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not the number of a GPU: 0 is the first")
    return int(text)


def rounds(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or len(text) > 9:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of rounds")
    return int(text)


def seconds(text: str) -> float:
    if not re.fullmatch(r"[0-9]{1,9}(\.[0-9]+)?|\.[0-9]+", text) or not float(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds above 0")
    return float(text)


def memory(text: str) -> str:
    from gpuengine.limits import parse_size

    try:
        parse_size(text)
    except GpuEngineError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


def macros(text: str) -> dict[str, str]:
    """``A=1 B`` as Soufflé's -M takes it: separated by spaces; a name alone means 1."""
    macros = {}
    for part in text.split():
        name, equals, value = part.partition("=")
        if not re.fullmatch(r"[A-Za-z_]\w*", name):
            raise argparse.ArgumentTypeError(f"{part!r} is not NAME=VALUE")
        macros[name] = value if equals else "1"
    return macros


def parameter(text: str) -> tuple[str, int | float | str]:
    name, value = pair("NAME=VALUE", "start=1", text)
    if not re.fullmatch(r"[A-Za-z_]\w*", name):
        raise argparse.ArgumentTypeError(f"{name!r} is not the name of a parameter")
    if re.fullmatch(r"-?[0-9]{1,20}", value):
        return name, int(value)
    return name, float(value) if re.fullmatch(r"-?[0-9]+\.[0-9]+", value) else value


def pair(form: str, such_as: str, text: str) -> tuple[str, str]:
    """Two texts with an equals sign between them."""
    name, equals, value = text.partition("=")
    if not (equals and name.strip() and value.strip()):
        raise argparse.ArgumentTypeError(f"{text!r} is not {form}, such as {such_as}")
    return name, value


def fact_file(text: str) -> tuple[str, str]:
    """A relation and its file, or for DatalogMTL a file alone."""
    return ("", text) if text and "=" not in text else pair("RELATION=FILE", "edge=new.csv", text)


def profiled(text: str) -> Path:
    if text != "-" and Path(text).suffix not in (".html", ".json"):
        raise argparse.ArgumentTypeError(f"{text!r} is neither FILE.html nor FILE.json, nor - for text")
    return Path(text)


def pass_name(text: str) -> str:
    from gpuengine.planning import passes

    names = [passes.pass_name(one) for one in passes.PASSES]
    if text not in names:
        raise argparse.ArgumentTypeError(f"no pass {text!r}; it is one of {', '.join(names)}")
    return text


def evaluator(text: str) -> tuple[str, str]:
    rule, evaluator = pair("RULE=EVALUATOR", "path=hypertree or path:2=join", text)
    return rule.strip(), evaluator.strip()


def setting(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not (equals and key):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not KEY=VALUE, such as spark.sql.shuffle.partitions=64"
        )
    return key, value


def master(text: str) -> str:
    if re.fullmatch(r"local(\[.+\])?|local-cluster\[.+\]|spark://.+|k8s://.+|yarn", text) is None:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no master of Spark, such as local[4], spark://host:7077, k8s://https://host or yarn"
        )
    return text
