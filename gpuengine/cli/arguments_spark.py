"""What can be typed about running on Spark, and what does not go with it."""

from __future__ import annotations

import argparse
from pathlib import Path


def add_spark(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("on Spark")
    group.add_argument(
        "--on",
        choices=("local", "spark"),
        default="local",
        help="where to run: in this process (local, the default), or with Spark",
    )
    group.add_argument("--master", metavar="URL", help="such as 'local[4]' or spark://host:7077")
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


def check_place(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> None:
    """Refuse options of the other place, and supply defaults. Directories are paths, or for Spark texts."""
    if arguments.output_dir == "-":
        arguments.output_dir = None
    of_spark = {
        f"--{name}": getattr(arguments, name)
        for name in ("master", "where", "checkpoint", "nulls", "conf", "rapids")
    }
    if arguments.on == "local":
        for option in (name for name, value in of_spark.items() if value is not None):
            parser.error(f"{option} goes with --on spark only")
        for name in ("fact_dir", "output_dir", "save"):
            given = getattr(arguments, name)
            setattr(arguments, name, None if given is None else Path(given))
        return
    of_local = {
        "--on-error": arguments.on_error != "fail",
        "--device": arguments.device != 0,
        "--device-memory": arguments.device_memory is not None,
        "-j": arguments.jobs is not None,
        "--no-modules": arguments.no_modules,
        "--counting": arguments.counting,
        "--backend": arguments.backend != "auto",
    }
    for option in (name for name, given in of_local.items() if given):
        parser.error(f"{option} does not go with --on spark")
    arguments.where = arguments.where or "auto"
    arguments.nulls = arguments.nulls or "fail"
    arguments.conf = dict(arguments.conf or ())


def _setting(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not (equals and key):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not KEY=VALUE, such as spark.sql.shuffle.partitions=64"
        )
    return key, value
