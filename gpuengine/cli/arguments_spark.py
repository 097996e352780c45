"""What can be typed about running on Spark, and what does not go with it."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

_MASTER = re.compile(r"local(\[.+\])?|local-cluster\[.+\]|spark://.+|k8s://.+|yarn")
_OF_SESSION = ("master", "nulls", "conf", "rapids")
_OF_RUN = ("where", "checkpoint", "encoded")


def add_session(parser: argparse.ArgumentParser) -> argparse._ArgumentGroup:
    """Where to work, and by what session of Spark."""
    group = parser.add_argument_group("on Spark")
    group.add_argument(
        "--on",
        choices=("local", "spark"),
        default="local",
        help="where to run: in this process (local, the default), or with Spark",
    )
    group.add_argument(
        "--master", type=_master, metavar="URL", help="such as 'local[4]', spark://host:7077 or yarn"
    )
    group.add_argument(
        "--nulls",
        choices=("fail", "drop"),
        help="what to do with rows that have nulls (default: fail); drop leaves them out",
    )
    group.add_argument(
        "--conf",
        type=_setting,
        action="append",
        metavar="KEY=VALUE",
        help="a setting of Spark; repeatable",
    )
    group.add_argument(
        "--rapids",
        nargs="?",
        const="",
        metavar="JAR",
        help="run Spark's part on GPUs, with the jar of the RAPIDS Accelerator",
    )
    return group


def add_spark(parser: argparse.ArgumentParser) -> None:
    group = add_session(parser)
    group.add_argument(
        "--where",
        choices=("auto", "driver", "executor", "cluster"),
        help="where rules are evaluated: by one engine on the driver or on an executor, distributed over the "
        "cluster, or auto (the default): by one engine if the facts fit",
    )
    group.add_argument(
        "--checkpoint", metavar="DIR", help="where a distributed run that was cut short goes on from"
    )
    group.add_argument(
        "--encoded",
        metavar="DIR",
        help="read inputs that were encoded and saved there instead of -F; save them there if it is new",
    )


def check_place(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> None:
    """Refuse options of the other place, and supply defaults. Directories are paths, or for Spark texts."""
    if arguments.output_dir == "-":
        arguments.output_dir = None
    if arguments.on == "local":
        _refuse_those_of_spark(parser, arguments, (*_OF_SESSION, *_OF_RUN))
        for name in ("fact_dir", "output_dir", "save"):
            given = getattr(arguments, name)
            setattr(arguments, name, None if given is None else Path(given))
        return
    _refuse_those_of_an_engine(parser, arguments)
    for option, given in (("--no-modules", arguments.no_modules), ("--counting", arguments.counting)):
        if given:
            parser.error(f"{option} does not go with --on spark")
    if arguments.encoded is not None and arguments.where in ("driver", "executor"):
        parser.error(f"--encoded is for the cluster: it does not go with --where {arguments.where}")
    arguments.where = arguments.where or "auto"
    _supply(arguments)


def check_update_place(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> None:
    """The same for updates."""
    if arguments.on == "local":
        _refuse_those_of_spark(parser, arguments, _OF_SESSION)
        return
    _refuse_those_of_an_engine(parser, arguments)
    of_local = {
        "--changes": arguments.changes is not None,
        "--memory": arguments.memory is not None,
        **{f"--{operation.kind}": not operation.relation for operation in arguments.operations},
    }
    for option in (name for name, given in of_local.items() if given):
        parser.error(f"{option} does not go with --on spark")
    _supply(arguments)


def _refuse_those_of_spark(
    parser: argparse.ArgumentParser, arguments: argparse.Namespace, names: tuple[str, ...]
) -> None:
    for name in names:
        if getattr(arguments, name) is not None:
            parser.error(f"--{name} goes with --on spark only")


def _refuse_those_of_an_engine(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> None:
    of_local = {
        "--on-error": arguments.on_error != "fail",
        "--device": arguments.device != 0,
        "--device-memory": arguments.device_memory is not None,
        "-j": arguments.jobs is not None,
        "--backend": arguments.backend != "auto",
    }
    for option in (name for name, given in of_local.items() if given):
        parser.error(f"{option} does not go with --on spark")


def _supply(arguments: argparse.Namespace) -> None:
    arguments.nulls = arguments.nulls or "fail"
    arguments.conf = dict(arguments.conf or ())


def _master(text: str) -> str:
    if _MASTER.fullmatch(text) is None:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no master of Spark, such as local[4], spark://host:7077, k8s://https://host or yarn"
        )
    return text


def _setting(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not (equals and key):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not KEY=VALUE, such as spark.sql.shuffle.partitions=64"
        )
    return key, value
