"""The ``key=value`` parameters of directives: which there are, and which values they take.

The checker asks here so that a mistake is shown where it stands in the program, `io` asks here what a
value means: both agree by construction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from gpuengine.errors import DataError
from gpuengine.language.diagnostics import counted, nearest
from gpuengine.language.program import Relation

DATABASES = ("sqlite", "duckdb")
_FILE_FORMATS = ("file", "csv", "tsv", "parquet", "arrow", "ipc", "feather", "json", "jsonfile", *DATABASES)
IO_NAMES = {
    "input": (*_FILE_FORMATS, "rdf", "stdin"),
    "output": (*_FILE_FORMATS, "stdout", "stdoutprintsize"),
}

_WITH_MEANING = (
    *("IO", "filename", "delimiter", "rfc4180", "headers", "columns", "compress", "name", "dbname", "format"),
)
_OF_INPUT = ("nulls", "dates")
DATES = ("days", "text")
"""What columns of dates and times may become where numbers or symbols are declared."""
# Soufflé adds these to directives itself and prints them in transformed programs; they say nothing new.
_INTERNAL = ("attributeNames", "auxArity", "auxValues", "operation", "params", "types")


class ParameterError(DataError):
    """The value of the parameter `key` is wrong; `hint` says which ones are right."""

    def __init__(self, key: str, message: str, hint: str) -> None:
        self.key = key
        self.message = message
        self.hint = hint
        super().__init__(f"{message}\n  hint: {hint}")


def unknown(kind: str, params: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The parameters that a directive of this kind does not have, each with a hint."""
    shown = ("n",) if kind == "limitsize" else _WITH_MEANING + (_OF_INPUT if kind == "input" else ())
    names = shown if kind == "limitsize" else shown + _INTERNAL
    spelling = {name.lower(): name for name in names}
    for key in params:
        if key not in names:
            hint = nearest(spelling.get(key.lower(), key), shown, "parameter")
            yield key, hint or f"there is {', '.join(shown)}"


def wrong(kind: str, params: Mapping[str, str], relation: Relation) -> Iterator[ParameterError]:
    """What is wrong with the values of an ``.input`` or ``.output`` of `relation`.

    A ``.printsize`` takes the same parameters as an ``.output``, but none has an effect.
    """
    if kind == "printsize":
        return
    checks: list[Callable[[], object]] = [
        lambda: _io_name(kind, params),
        lambda: _file_name(params, "filename"),
        lambda: _file_name(params, "dbname"),
        lambda: _format(params),
        lambda: _relation_name(params, relation),
        lambda: delimiter(params),
        lambda: flag(params, "headers"),
        lambda: flag(params, "compress"),
    ]
    if kind == "input":
        checks.append(lambda: columns(params, relation.arity))
        checks.append(lambda: _dates(params))
    for check in checks:
        try:
            check()
        except ParameterError as error:
            yield error


def flag(params: Mapping[str, str], key: str) -> bool:
    """The value of a parameter that is ``true`` or ``false``, and ``false`` if not given."""
    value = params.get(key, "false").lower()
    if value not in ("true", "false"):
        message = f'{key}="{params[key]}" is neither true nor false'
        raise ParameterError(key, message, f"write {key}=true or {key}=false")
    return value == "true"


def quoting(params: Mapping[str, str]) -> bool:
    """Are fields quoted as in RFC 4180? As ``rfc4180=`` says, by default those of ``IO=csv``."""
    if "rfc4180" in params:
        return flag(params, "rfc4180")
    return params.get("IO") == "csv" and "delimiter" not in params


def delimiter(params: Mapping[str, str]) -> str:
    """What stands between two fields: a tab, or in comma-separated files a comma, unless given."""
    quoted = quoting(params)
    text = params.get("delimiter", "," if quoted or params.get("IO") == "csv" else "\t").replace("\\t", "\t")
    if not text or "\n" in text or "\r" in text:
        message = f"delimiter={text!r}: a delimiter has at least one character and no line break"
        raise ParameterError("delimiter", message, 'write for example delimiter=","')
    if quoted and '"' in text:
        message = f"delimiter={text!r}: with rfc4180=true a delimiter can't contain '\"'"
        raise ParameterError("delimiter", message, "choose another delimiter, or leave out rfc4180=true")
    return text


def columns(params: Mapping[str, str], arity: int) -> tuple[int, ...] | None:
    """The columns that ``columns=`` picks, in the order of the attributes; None for all of them."""
    text = params.get("columns", "")
    if not text:
        return None
    parts = text.split(":")
    numbers = [int(part) for part in parts if part.strip().isdecimal()]
    if not len(numbers) == len(set(numbers)) == len(parts) == arity:
        noun = "column number" if arity == 1 else "different column number"
        message = f'columns="{text}": expected {counted(arity, noun)}'
        example = ":".join(map(str, range(arity)))
        hint = f'they count from 0 and are separated by colons, as in columns="{example}"'
        raise ParameterError("columns", message, hint)
    return tuple(numbers)


def _io_name(kind: str, params: Mapping[str, str]) -> None:
    name = params.get("IO")
    if name is not None and name not in IO_NAMES[kind]:
        hint = f".{kind} takes IO={', '.join(IO_NAMES[kind])}"
        raise ParameterError("IO", f"IO={name} is not supported", hint)


def is_a_stream(params: Mapping[str, str]) -> bool:
    """Is standard input read, or standard output written? As in Soufflé, ``IO=json`` means that, unless a
    file is named."""
    io = params.get("IO")
    return io in ("stdin", "stdout") or (io == "json" and "filename" not in params)


def _file_name(params: Mapping[str, str], key: str) -> None:
    name = params.get(key)
    if name is not None and (not name or "\0" in name):
        hint = "leave the parameter out to use the relation's name"
        raise ParameterError(key, f"{key}={name!r} is not a file name", hint)


def _format(params: Mapping[str, str]) -> None:
    if params.get("format", "list") not in ("list", "object"):
        message = f'format="{params["format"]}" is no form of JSON'
        raise ParameterError("format", message, "write format=list or format=object")


def _dates(params: Mapping[str, str]) -> None:
    if params.get("dates", "days") not in DATES:
        message = f'dates="{params["dates"]}" is not known'
        raise ParameterError("dates", message, "write dates=days or dates=text")


def _relation_name(params: Mapping[str, str], relation: Relation) -> None:
    """In Soufflé another name also changes the default file's name; that must not be lost silently."""
    name = params.get("name", relation.name)
    if name != relation.name and params.get("IO") not in DATABASES:
        hint = "choose the file with filename="
        raise ParameterError("name", f'name="{name}" is not the name of the relation', hint)
