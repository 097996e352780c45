"""The datatypes of OWL 2: which literals are well typed, which denote the same value, which values a
datatype has.

A value is a pair of its value space and what identifies it there, so that two literals denote the same
value if and only if their values are equal. The spaces are those of XML Schema: numbers are exact and
shared by ``xsd:decimal`` and all that is derived from it; ``xsd:float`` and ``xsd:double`` are spaces of
their own; strings are shared by ``xsd:string``, what is derived from it, and plain literals. As RDF 1.1
has it, white space around a number makes it ill typed.
"""

from __future__ import annotations

import base64
import datetime
import functools
import math
import re
import struct
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from fractions import Fraction

from gpuengine.rdf.terms import OWL, RDF, RDFS, XSD, unescaped

Value = tuple[str, Hashable]

LITERAL = f"<{RDFS}Literal>"
PLAIN = f"<{RDF}PlainLiteral>"
LANGUAGE_STRING = f"<{RDF}langString>"
XML = f"<{RDF}XMLLiteral>"

_NAME_START = (
    "A-Z_a-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u02ff\u0370-\u037d\u037f-\u1fff\u200c-\u200d\u2070-\u218f"
)
_NAME_START += "\u2c00-\u2fef\u3001-\ud7ff\uf900-\ufdcf\ufdf0-\ufffd\U00010000-\U000effff"
_NAME_PART = _NAME_START + "\\-.0-9\u00b7\u0300-\u036f\u203f-\u2040"
_LANGUAGE = re.compile(r"[A-Za-z]{1,8}(-[A-Za-z0-9]{1,8})*")
_STRINGS = {
    "normalizedString": re.compile(r"[^\t\n\r]*"),
    "token": re.compile(r"(?:[^\t\n\r ]+(?: [^\t\n\r ]+)*)?"),
    "language": _LANGUAGE,
    "Name": re.compile(f"[:{_NAME_START}][:{_NAME_PART}]*"),
    "NCName": re.compile(f"[{_NAME_START}][{_NAME_PART}]*"),
    "NMTOKEN": re.compile(f"[:{_NAME_PART}]+"),
}
_INTEGERS: dict[str, tuple[int | None, int | None]] = {
    "integer": (None, None),
    "nonNegativeInteger": (0, None),
    "nonPositiveInteger": (None, 0),
    "positiveInteger": (1, None),
    "negativeInteger": (None, -1),
    "long": (-(2**63), 2**63 - 1),
    "int": (-(2**31), 2**31 - 1),
    "short": (-(2**15), 2**15 - 1),
    "byte": (-(2**7), 2**7 - 1),
    "unsignedLong": (0, 2**64 - 1),
    "unsignedInt": (0, 2**32 - 1),
    "unsignedShort": (0, 2**16 - 1),
    "unsignedByte": (0, 2**8 - 1),
}
_NUMERAL = re.compile(r"[+-]?[0-9]+")
_DECIMAL = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)")
_RATIONAL = re.compile(r"([+-]?[0-9]+) */ *([0-9]*[1-9][0-9]*)")
_FLOAT = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_NOT_FINITE = {"INF": math.inf, "+INF": math.inf, "-INF": -math.inf, "NaN": math.nan}
_DATE_TIME = re.compile(
    r"(-?(?:[1-9][0-9]{3,}|0[0-9]{3}))-([0-9]{2})-([0-9]{2})T([0-9]{2}):([0-9]{2}):([0-9]{2}(?:\.[0-9]+)?)"
    r"(Z|[+-](?:0[0-9]|1[0-3]):[0-5][0-9]|[+-]14:00)?"
)
# RFC 3987 as far as XML Schema asks: no character that no reference may have, and nothing but a scheme
# before a colon in the first segment.
_REFERENCE = re.compile(r'(?:[A-Za-z][A-Za-z0-9+.\-]*:|(?![^/?#]*:))[^\x00-\x20<>"{}|\\^`]*')


def literal_parts(text: str) -> tuple[str, str, str | None]:
    """Lexical form, datatype (in brackets) and language of a literal's text (see `gpuengine.rdf.terms`)."""
    end = text.rindex('"')
    lexical, rest = unescaped(text[1:end]), text[end + 1 :]
    if rest.startswith("@"):
        return lexical, LANGUAGE_STRING, rest[1:]
    return lexical, rest[2:] or _xsd("string"), None


def _xsd(name: str) -> str:
    return f"<{XSD}{name}>"


# One function for each datatype, from a lexical form to its value; None: the form is ill typed.
_Reader = Callable[[str], Value | None]


def _string(lexical: str) -> Value:
    return ("string", lexical)


def _matching(pattern: re.Pattern[str]) -> _Reader:
    return lambda lexical: ("string", lexical) if pattern.fullmatch(lexical) else None


def _integer(lower: int | None, upper: int | None) -> _Reader:
    def read(lexical: str) -> Value | None:
        if not _NUMERAL.fullmatch(lexical):
            return None
        number = Fraction(lexical)
        return ("number", number) if _between(number, lower, upper) else None

    return read


def _between(number: Fraction, lower: int | None, upper: int | None) -> bool:
    return (lower is None or number >= lower) and (upper is None or number <= upper)


def _decimal(lexical: str) -> Value | None:
    return ("number", Fraction(lexical)) if _DECIMAL.fullmatch(lexical) else None


def _rational(lexical: str) -> Value | None:
    match = _RATIONAL.fullmatch(lexical)
    return ("number", Fraction(int(match[1]), int(match[2]))) if match else None


def _boolean(lexical: str) -> Value | None:
    return ("boolean", lexical in ("true", "1")) if lexical in ("true", "false", "1", "0") else None


def _double(lexical: str) -> Value | None:
    number = _NOT_FINITE.get(lexical)
    if number is None and _FLOAT.fullmatch(lexical):
        number = float(lexical)
    # Bits: the two zeros differ, NaN is itself.
    return None if number is None else ("double", struct.pack(">d", number))


def _float(lexical: str) -> Value | None:
    number = _NOT_FINITE.get(lexical)
    if number is None and _FLOAT.fullmatch(lexical):
        number = _single(lexical)
    return None if number is None else ("float", struct.pack(">f", number))


def _single(lexical: str) -> float:
    """The float nearest to a numeral; rounding by way of a double could round twice."""
    number = float(lexical)
    if math.isinf(number) or abs(number) >= 2.0**128 - 2.0**103:
        return math.copysign(math.inf, number)
    near = struct.unpack(">f", struct.pack(">f", number))[0]
    if near == number or number == 0:
        return near
    exact = Fraction(lexical)
    if Fraction(number) == exact:
        return near
    bits = struct.unpack(">i", struct.pack(">f", abs(near)))[0]
    around = (bits - 1, bits, bits + 1)
    candidates = [struct.unpack(">f", struct.pack(">i", c))[0] for c in around if 0 <= c < 0x7F800000]
    return math.copysign(min(candidates, key=lambda c: abs(Fraction(c) - abs(exact))), number)


def _date_time(zoned: bool) -> _Reader:
    def read(lexical: str) -> Value | None:
        match = _DATE_TIME.fullmatch(lexical)
        if not match or (zoned and not match[7]):
            return None
        year, month, day, hour, minute = (int(match[i]) for i in range(1, 6))
        second = Fraction(match[6])
        midnight = hour == 24 and minute == 0 and second == 0
        if not midnight and (hour > 23 or minute > 59 or second >= 60):
            return None
        # The calendar repeats every 400 years: Python's knows no year before 1 or after 9999.
        cycles, within = divmod(year, 400)
        try:
            days = datetime.date(within + 400, month, day).toordinal() + cycles * 146_097
        except ValueError:
            return None
        offset = _offset(match[7])
        seconds = days * 86_400 + hour * 3600 + minute * 60 + second
        return ("dateTime", (seconds - 60 * (offset or 0), offset))

    return read


def _offset(zone: str | None) -> int | None:
    """Minutes; two times at one instant in different zones are equal, but they are not the same value."""
    if not zone:
        return None
    if zone == "Z":
        return 0
    minutes = int(zone[1:3]) * 60 + int(zone[4:])
    return -minutes if zone[0] == "-" else minutes


def _hexadecimal(lexical: str) -> Value | None:
    return ("hexBinary", bytes.fromhex(lexical)) if re.fullmatch(r"(?:[0-9a-fA-F]{2})*", lexical) else None


def _base64(lexical: str) -> Value | None:
    compact = lexical.replace(" ", "")
    if lexical != lexical.strip(" ") or "  " in lexical:
        return None
    try:
        return ("base64Binary", base64.b64decode(compact, validate=True))
    except ValueError:
        return None


def _reference(lexical: str) -> Value | None:
    return ("anyURI", lexical) if _REFERENCE.fullmatch(lexical) else None


def _plain(lexical: str) -> Value | None:
    text, at, tag = lexical.rpartition("@")
    if not at:
        return None
    if not tag:
        return ("string", text)
    return ("language", (text, tag.lower())) if _LANGUAGE.fullmatch(tag) else None


def _xml(lexical: str) -> Value | None:
    # Inside of an element there is no document type, hence no entity of the author's.
    try:
        return ("xml", ElementTree.canonicalize(f"<x>{lexical}</x>"))
    except ElementTree.ParseError:
        return None


_READERS: dict[str, _Reader] = {
    _xsd("string"): _string,
    **{_xsd(name): _matching(pattern) for name, pattern in _STRINGS.items()},
    **{_xsd(name): _integer(*bounds) for name, bounds in _INTEGERS.items()},
    _xsd("decimal"): _decimal,
    f"<{OWL}rational>": _rational,
    _xsd("boolean"): _boolean,
    _xsd("double"): _double,
    _xsd("float"): _float,
    _xsd("dateTime"): _date_time(zoned=False),
    _xsd("dateTimeStamp"): _date_time(zoned=True),
    _xsd("hexBinary"): _hexadecimal,
    _xsd("base64Binary"): _base64,
    _xsd("anyURI"): _reference,
    PLAIN: _plain,
    XML: _xml,
}

# The time that it takes to read a numeral grows faster than its length: long ones are compared as terms only.
_LONGEST_NUMERAL = 4000
_NUMERALS = frozenset(
    [
        *map(_xsd, _INTEGERS),
        *map(_xsd, ("decimal", "double", "float", "dateTime", "dateTimeStamp")),
        f"<{OWL}rational>",
    ]
)

DATATYPES = frozenset({*_READERS, LITERAL, LANGUAGE_STRING, f"<{OWL}real>"})
"""All datatypes whose values are known."""


class IllTyped:
    """What stands for the value of a literal that has none."""


ILL_TYPED = IllTyped()


@functools.lru_cache(maxsize=1 << 16)
def value(text: str, *, overflow: bool = True) -> Value | IllTyped | None:
    """The value that a literal denotes; None if its datatype is not known.

    With `overflow`, a numeral beyond the largest float is infinity, as in XML Schema 1.1; without, it is ill
    typed, as OWL 2's test cases have it.
    """
    lexical, datatype, language = literal_parts(text)
    if language is not None:
        return ("language", (lexical, language.lower()))
    reader = _READERS.get(datatype)
    if reader is None or (len(lexical) > _LONGEST_NUMERAL and datatype in _NUMERALS):
        return None
    read = reader(lexical)
    if read is None or (not overflow and lexical not in _NOT_FINITE and _infinite(read)):
        return ILL_TYPED
    return read


def _infinite(read: Value) -> bool:
    space, bits = read
    if space not in ("double", "float"):
        return False
    assert isinstance(bits, bytes)
    return math.isinf(struct.unpack(">d" if space == "double" else ">f", bits)[0])


def _contains(datatype: str, member: Value) -> bool:
    """Whether a value is in the value space of a datatype of `DATATYPES`."""
    space, identity = member
    if datatype == LITERAL:
        return True
    if datatype == LANGUAGE_STRING:
        return space == "language"
    if datatype == PLAIN:
        return space in ("string", "language")
    if datatype in (f"<{OWL}real>", f"<{OWL}rational>"):
        return space == "number"
    name = datatype[len(XSD) + 1 : -1]
    if space == "number":
        assert isinstance(identity, Fraction)
        if name == "decimal":
            return _is_decimal(identity)
        return name in _INTEGERS and identity.denominator == 1 and _between(identity, *_INTEGERS[name])
    if space == "string":
        pattern = _STRINGS.get(name)
        return name == "string" or (pattern is not None and bool(pattern.fullmatch(str(identity))))
    if space == "dateTime":
        assert isinstance(identity, tuple)
        return name == "dateTime" or (name == "dateTimeStamp" and identity[1] is not None)
    if space == "xml":
        return datatype == XML
    return name == space


def _is_decimal(number: Fraction) -> bool:
    rest = number.denominator
    for prime in (2, 5):
        while rest % prime == 0:
            rest //= prime
    return rest == 1


@dataclass(frozen=True)
class DataRange:
    """A set of values: a datatype, what facets leave of one, or a boolean combination."""

    kind: str
    """``datatype``, ``and``, ``or``, ``not``, ``one of``, ``facets``."""
    datatype: str = ""
    parts: tuple[DataRange, ...] = ()
    values: frozenset[Value] = frozenset()
    facets: tuple[tuple[str, str], ...] = ()
    """Pairs of a facet's name and the text of the literal that it compares with."""

    def contains(self, member: Value) -> bool | None:
        """Whether a value is in it; None if that is not known."""
        if self.kind == "datatype":
            return _contains(self.datatype, member) if self.datatype in DATATYPES else None
        if self.kind == "one of":
            return member in self.values
        answers = [part.contains(member) for part in self.parts]
        if self.kind == "not":
            return None if answers[0] is None else not answers[0]
        if self.kind == "or":
            return True if True in answers else None if None in answers else False
        answers += [_facet(name, limit, member) for name, limit in self.facets]
        return False if False in answers else None if None in answers else True


def _facet(name: str, limit: str, member: Value) -> bool | None:
    lexical, _, _ = literal_parts(limit)
    space, identity = member
    if name in ("length", "minLength", "maxLength"):
        measured = identity[0] if isinstance(identity, tuple) else identity
        if not isinstance(measured, str | bytes) or not lexical.isdecimal():
            return None
        size, bound = len(measured), int(lexical)
        return size == bound if name == "length" else size >= bound if name == "minLength" else size <= bound
    if name == "pattern":
        try:
            return bool(re.fullmatch(lexical, str(identity))) if space in ("string", "anyURI") else None
        except re.error:
            return None
    if name == "langRange":
        tag = identity[1] if space == "language" and isinstance(identity, tuple) else ""
        return (
            bool(tag) if lexical == "*" else tag == lexical.lower() or tag.startswith(f"{lexical.lower()}-")
        )
    other = value(limit)
    if not isinstance(other, tuple) or other[0] != space:
        return None
    mine, bound_key = _order(member), _order(other)
    if mine is None or bound_key is None:
        return None
    comparison = {
        "minInclusive": mine >= bound_key,
        "minExclusive": mine > bound_key,
        "maxInclusive": mine <= bound_key,
        "maxExclusive": mine < bound_key,
    }
    return comparison.get(name)


def _order(member: Value) -> float | Fraction | None:
    space, identity = member
    if space == "number":
        assert isinstance(identity, Fraction)
        return identity
    if space in ("double", "float"):
        assert isinstance(identity, bytes)
        return struct.unpack(">d" if space == "double" else ">f", identity)[0]
    if space == "dateTime":
        assert isinstance(identity, tuple)
        return identity[0]
    return None
