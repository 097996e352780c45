"""Which files are RDF, in which format, and their bytes."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO
from xml.parsers import expat

import pyarrow as pa

from gpuengine.errors import DataError
from gpuengine.io.locate import STDIN, part_files
from gpuengine.limits import charge
from gpuengine.rdf_names import FORMATS, format_of_name

_CODECS = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}
_XML_BLOCK = 1 << 16
_PLAIN_ENTITY = re.compile(r"(?:[^&]|&#x?[0-9A-Fa-f]+;)*")


def rdf_files(path: Path) -> list[Path]:
    """The files to read for a path: itself, those of a folder that are RDF, or the matches of a glob."""
    if path == STDIN:
        return [path]
    files = part_files(path)
    if path.is_dir():
        files = [file for file in files if format_of_name(file) is not None]
        if not files:
            raise DataError(f"{path}: a folder without files of RDF\n  hint: {_KNOWN}")
    return files


_KNOWN = f"they end in {', '.join(FORMATS)}, and may be compressed (.gz, .zst)"


def settled_format(path: Path, format: str | None) -> str:
    """The format of a file: as asked for, or by its name."""
    if format is not None:
        name = format.lower().removeprefix(".")
        kind = name if name in FORMATS.values() else FORMATS.get(f".{name}")
        if kind is None:
            names = ", ".join(dict.fromkeys(FORMATS.values()))
            raise DataError(f"there is no format {format!r} of RDF\n  hint: there are {names}")
        return kind
    kind = format_of_name(path)
    if kind is None:
        raise DataError(
            f"{path}: the name does not tell which format of RDF it is\n  hint: {_KNOWN}; or say it"
        )
    return kind


@contextmanager
def opened(path: Path) -> Iterator[Any]:
    """The bytes of a file as a stream, decompressed."""
    try:
        if path == STDIN:
            with _decompressed(sys.stdin.buffer, "<stdin>") as stream:
                yield stream
        else:
            with path.open("rb") as file, _decompressed(file, str(path)) as stream:
                yield stream
    except pa.ArrowException as error:
        raise DataError(f"{path}: {error}") from error
    except OSError as error:
        if error.filename is None and error.errno is None:
            raise DataError(f"{path}: damaged or cut-off compressed data ({error})") from error
        raise DataError(f"{path}: {error.strerror or error}") from error


@contextmanager
def _decompressed(file: BinaryIO, name: str) -> Iterator[Any]:
    head = file.peek(4)[:4] if hasattr(file, "peek") else b""
    codec = next((codec for magic, codec in _CODECS.items() if head.startswith(magic)), None)
    if codec is None:
        yield file
        return
    with pa.CompressedInputStream(pa.PythonFile(file, "r"), codec) as stream:
        yield stream


def xml_head(stream: Any, path: Path) -> bytes:
    """The first bytes of a document of XML, up to its root element or beyond.

    Raises `DataError` if it wants other files read, or declares entities of entities, which may grow without
    bound; what can't be read so far is refused too, since nobody knows what it declares.
    """
    parser = expat.ParserCreate()
    roots: list[str] = []
    handlers = {
        "EntityDeclHandler": lambda *declared: _check_entity(declared[2], path),
        "StartElementHandler": lambda name, attributes: roots.append(name),
    }
    for event, handler in handlers.items():
        setattr(parser, event, handler)
    head = bytearray()
    while not roots and (chunk := bytes(stream.read(_XML_BLOCK))):
        head += chunk
        charge(len(head), f"what stands before the root of {path}")
        try:
            parser.Parse(chunk, False)
        except expat.ExpatError as error:
            if not roots:
                raise DataError(
                    f"{path}:{error.lineno}:{error.offset + 1}: {expat.ErrorString(error.code)}"
                ) from error
        except (LookupError, ValueError) as error:  # no known encoding
            raise DataError(f"{path}: {error}\n  hint: write it in UTF-8") from error
    return bytes(head)


def _check_entity(value: str | None, path: Path) -> None:
    if value is None:
        raise DataError(f"{path}: it declares an external entity, and those are not read")
    if not _PLAIN_ENTITY.fullmatch(value):
        raise DataError(f"{path}: it declares an entity of other entities, which is not supported")


def xml_error_place(path: Path) -> tuple[int, int] | None:
    """Line and column where a file stops being XML; None if it is, or can't be read twice."""
    if path == STDIN:
        return None
    parser = expat.ParserCreate(namespace_separator=" ")
    try:
        with opened(path) as stream:
            while chunk := bytes(stream.read(_XML_BLOCK)):
                parser.Parse(chunk, False)
            parser.Parse(b"", True)
    except expat.ExpatError as error:
        return error.lineno, error.offset + 1
    return None
