"""Functions that users give for the functors of a program: ``.functor f(x: number, y: symbol): symbol``.

A program only names them. Who runs it gives them, as Python functions or a shared library, and thereby agrees
that their code runs: a program alone never does. There are four kinds:

| kind | called |
|---|---|
| plain Python | once for each distinct row of arguments; what it gave is kept, by the ids of the arguments |
| ``columns=True`` | once for all distinct rows: NumPy arrays of numbers, Arrow arrays of symbols |
| ``compiled=True`` | compiled by numba for one row of numbers, run over columns of them |
| of a shared library | as plain Python, by ctypes with the declared types |

They are pure by contract: rules are evaluated, and evaluated again by updates, in any order and any number of
times. None, or null, says that there is no value for these arguments: then the rule has no instance for them.
"""

from __future__ import annotations

import ctypes
import importlib.util
import inspect
import operator
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from gpuengine.errors import FunctorError, GpuEngineError
from gpuengine.language.program import (
    Aggregate,
    Comparison,
    Functor,
    FunctorSignature,
    Kind,
    Literal,
    Pack,
    Program,
    Relation,
    Rule,
)
from gpuengine.terms.python_values import NESTED, nested_ids, python_values

if TYPE_CHECKING:
    from gpuengine.terms.dictionary import Dictionary

_DTYPES: dict[Kind, Any] = {Kind.NUMBER: np.int64, Kind.UNSIGNED: np.uint64, Kind.FLOAT: np.float64}
_ANNOTATED: dict[Any, tuple[Kind, ...]] = {
    int: (Kind.NUMBER, Kind.UNSIGNED),
    float: (Kind.FLOAT,),
    str: (Kind.SYMBOL,),
    tuple: (Kind.RECORD, Kind.ADT),
}
_IN_C: dict[Kind, Any] = {
    Kind.NUMBER: ctypes.c_int64,
    Kind.UNSIGNED: ctypes.c_uint64,
    Kind.FLOAT: ctypes.c_double,
    Kind.SYMBOL: ctypes.c_char_p,
}
_NO_VALUE = -1
_LARGEST_MEMORY = 1 << 20
"""So many results of a function are kept; then they are found again."""
_INT64, _UINT64 = range(-(1 << 63), 1 << 63), range(1 << 64)


class UserFunction:
    """A function for the functor of its name; called, it is the function itself."""

    def __init__(
        self, function: Callable[..., Any], name: str, *, columns: bool = False, compiled: bool = False
    ) -> None:
        self.function = function
        self.name = name
        self.columns = columns
        self.compiled = compiled
        self.__doc__ = function.__doc__
        self.__name__ = name
        self._ufuncs: dict[tuple[Kind, ...], Callable[..., np.ndarray]] = {}

    def __call__(self, *args: Any) -> Any:
        return self.function(*args)

    def problem(self, signature: FunctorSignature) -> str | None:
        """Why it can't be what a program declares, if so."""
        try:
            parameters = list(inspect.signature(self.function, eval_str=True).parameters.values())
            result = inspect.signature(self.function, eval_str=True).return_annotation
        except (ValueError, TypeError, NameError):
            return None
        count = len(signature.arguments)
        if any(one.kind is one.VAR_POSITIONAL for one in parameters):
            parameters = []
        else:
            fitting = [
                one for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)
            ]
            needed = sum(one.default is one.empty for one in fitting)
            if not needed <= count <= len(fitting):
                return f"it takes {len(fitting)} arguments, and {count} are declared"
            parameters = fitting
        kinds = [type_.kind for type_ in signature.arguments]
        if self.compiled and Kind.SYMBOL in (*kinds, signature.result.kind):
            return "a compiled function takes and gives numbers, no symbols"
        if (self.columns or self.compiled) and set(NESTED) & {*kinds, signature.result.kind}:
            return "records and ADT values are given to plain functions only, as tuples"
        if self.columns:
            return None
        for parameter, kind in zip(parameters, kinds, strict=False):
            if kind not in _ANNOTATED.get(parameter.annotation, (kind,)):
                wanted = parameter.annotation.__name__
                return f"its argument {parameter.name} is {wanted}, and {kind.value} is declared"
        if signature.result.kind not in _ANNOTATED.get(result, (signature.result.kind,)):
            return f"it gives {result.__name__}, and {signature.result.kind.value} is declared"
        return None

    def ufunc(self, functor: Functor) -> Callable[..., np.ndarray]:
        """The compiled function over columns of the functor's types."""
        kinds = (functor.type.kind, *(arg.type.kind for arg in functor.args))
        if kinds not in self._ufuncs:
            import numba

            of = {Kind.NUMBER: numba.int64, Kind.UNSIGNED: numba.uint64, Kind.FLOAT: numba.float64}
            result, *args = (of[kind] for kind in kinds)
            self._ufuncs[kinds] = numba.vectorize([result(*args)])(self.function)
        return self._ufuncs[kinds]


@overload
def functor(function: Callable[..., Any], /) -> UserFunction: ...
@overload
def functor(
    *, name: str | None = None, columns: bool = False, compiled: bool = False
) -> Callable[[Callable[..., Any]], UserFunction]: ...
def functor(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    columns: bool = False,
    compiled: bool = False,
) -> Any:
    """Make a Python function one for the functor of its name, or of another `name`.

    With `columns` it is given whole columns: NumPy arrays of numbers (int64, uint64, float64) and Arrow
    arrays of symbols, and gives one. If it is `compiled`, numba compiles it; it takes and gives numbers then.
    Else it is called for one row, with int, float and str, and gives one of them, or None for no value.
    """
    if columns and compiled:
        raise GpuEngineError("a functor is given columns or is compiled for one row, not both")

    def made(one: Callable[..., Any]) -> UserFunction:
        if not callable(one):
            raise GpuEngineError(f"a functor is a function, not {one!r}")
        return UserFunction(one, name or one.__name__, columns=columns, compiled=compiled)

    return made if function is None else made(function)


class Functions:
    """The functions of one engine, by name, and what those called row by row gave, by ids of arguments."""

    def __init__(self, functions: Mapping[str, UserFunction], libraries: Sequence[ctypes.CDLL] = ()) -> None:
        self._functions = dict(functions)
        self._libraries = tuple(libraries)
        self._results: dict[str, dict[tuple[int, ...], int]] = {}
        self._dictionary: Dictionary | None = None

    @staticmethod
    def read(given: Any, libraries: Iterable[str | os.PathLike[str]] = ()) -> Functions:
        """Functions as users give them: one, several, by name, or a module; raises for what is none."""
        if given is None:
            found: list[tuple[str | None, Any]] = []
        elif isinstance(given, Mapping):
            found = list(given.items())
        elif inspect.ismodule(given):
            found = [(None, one) for one in vars(given).values() if isinstance(one, UserFunction)]
        elif callable(given):
            found = [(None, given)]
        else:
            found = [(None, one) for one in given]
        functions: dict[str, UserFunction] = {}
        for name, one in found:
            if not callable(one):
                raise GpuEngineError(f"a functor is a function, not {one!r}")
            made = one if isinstance(one, UserFunction) else UserFunction(one, name or one.__name__)
            if functions.setdefault(name or made.name, made) is not made:
                raise GpuEngineError(f"two functions are given for the functor @{name or made.name}")
        return Functions(functions, [_library(path) for path in libraries])

    def __contains__(self, name: str) -> bool:
        return name in self._functions or any(_has(library, name) for library in self._libraries)

    def check(self, program: Program, rules: Iterable[Rule], joining: Iterable[Relation] = ()) -> None:
        """Raise `GpuEngineError` if rules use a functor for which there is no function that fits.

        So do relations that join values by a lattice.
        """
        used = dict.fromkeys(name for rule in rules for name in functors_in(rule.body))
        for relation in joining:
            used |= dict.fromkeys(one.op[1:] for one in relation.lattice if one.op.startswith("@"))
        for name in used:
            signature = program.functors.get(name)
            if signature is None:
                continue
            if name not in self:
                raise GpuEngineError(
                    f"there is no function for the functor @{name}, declared at {signature.span}\n"
                    f"  hint: give it, Engine(functors=[{name}]) in Python, --functors FILE.py or "
                    "--functor-library FILE.so on the command line; a program alone never runs code"
                )
            given = self._functions.get(name)
            problem = given.problem(signature) if given is not None else _library_problem(signature)
            if problem is not None:
                raise GpuEngineError(
                    f"the function for @{name} does not fit its declaration at {signature.span}: {problem}"
                )

    def evaluate(
        self, functor: Functor, arguments: list[np.ndarray], rows: int, dictionary: Dictionary
    ) -> tuple[np.ndarray, np.ndarray]:
        """What a functor gives for rows of ids, distinct ones: ids, and where there is a value."""
        name = functor.op[1:]
        given = self._functions.get(name)
        if given is not None and (given.columns or given.compiled):
            return _over_columns(given, functor, arguments, rows, dictionary)
        function = given.function if given is not None else self._in_library(functor)
        if dictionary is not self._dictionary:
            self._results, self._dictionary = {}, dictionary
        known = self._results.setdefault(functor.op, {})
        keys = list(zip(*(column.tolist() for column in arguments), strict=True)) or [()] * rows
        missing = [row for row, key in enumerate(keys) if key not in known]
        if len(known) + len(missing) > _LARGEST_MEMORY:
            known = {}
            self._results[functor.op] = known if rows <= _LARGEST_MEMORY else {}
            missing = list(range(rows))
        if missing:
            places = np.array(missing, np.int64)
            columns = [
                python_values(arg.type, column[places], dictionary)
                for arg, column in zip(functor.args, arguments, strict=True)
            ]
            values = [
                _called(function, row, functor) for row in (zip(*columns, strict=True) if columns else [()])
            ]
            for row, id in zip(missing, _ids_of(values, functor, dictionary), strict=True):
                known[keys[row]] = id
        found = np.fromiter((known[key] for key in keys), np.int64, rows)
        has_value = found != _NO_VALUE
        return np.where(has_value, found, 0).astype(np.uint32), has_value

    def _in_library(self, functor: Functor) -> Callable[..., Any]:
        name = functor.op[1:]
        library = next((one for one in self._libraries if _has(one, name)), None)
        if library is None:
            raise FunctorError(f"{functor.span}: there is no function for {functor.op}")
        function = library[name]
        function.argtypes = [_IN_C[arg.type.kind] for arg in functor.args]
        function.restype = _IN_C[functor.type.kind]

        def call(*args: Any) -> Any:
            found = function(*(arg.encode() if isinstance(arg, str) else arg for arg in args))
            if functor.type.kind is Kind.SYMBOL and found is not None:
                return found.decode("utf-8", "replace")
            return found

        return call


def functors_in(body: Iterable[Literal]) -> Iterable[str]:
    """The names of the functors outside the language that a body uses."""
    for literal in body:
        if isinstance(literal, Comparison):
            yield from _in_terms((literal.left, literal.right))
        elif isinstance(literal, Aggregate):
            yield from functors_in(literal.body)
            yield from _in_terms(() if literal.target is None else (literal.target,))
            if literal.initial is not None:
                yield literal.op[2:]


def _in_terms(terms: Iterable[Any]) -> Iterable[str]:
    for term in terms:
        if isinstance(term, Functor | Pack):
            yield from _in_terms(term.args)
            if isinstance(term, Functor) and term.op.startswith("@"):
                yield term.op[1:]


def load_functions(path: str | os.PathLike[str]) -> dict[str, UserFunction]:
    """The functors of a Python file: what `gpuengine.functor` made in it. Runs the file."""
    file = Path(path)
    if not file.is_file():
        raise GpuEngineError(f"there is no file {file} of functors")
    spec = importlib.util.spec_from_file_location(f"functors_{file.stem}", file)
    if spec is None or spec.loader is None:
        raise GpuEngineError(f"{file} is no Python file: functors are given as --functors FILE.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # numba and annotations look it up
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise GpuEngineError(f"{file} can't be loaded: {type(error).__name__}: {error}") from error
    found = {one.name: one for one in vars(module).values() if isinstance(one, UserFunction)}
    if not found:
        raise GpuEngineError(f"{file} has no functors\n  hint: write @gpuengine.functor before its functions")
    return found


def _library(path: str | os.PathLike[str]) -> ctypes.CDLL:
    file = Path(path)
    if not file.is_file():
        raise GpuEngineError(f"there is no library {file} of functors")
    try:
        return ctypes.CDLL(str(file.resolve()))
    except OSError as error:
        raise GpuEngineError(f"{file} can't be loaded as a library of functors: {error}") from error


def _has(library: ctypes.CDLL, name: str) -> bool:
    try:
        library[name]
    except AttributeError:
        return False
    return True


def _library_problem(signature: FunctorSignature) -> str | None:
    if signature.stateful:
        return "a stateful function of a library wants Soufflé's own tables of symbols; write it in Python"
    if any(type_.kind in NESTED for type_ in (*signature.arguments, signature.result)):
        return "a function of a library takes and gives no records or ADT values; write it in Python"
    return None


def _called(function: Callable[..., Any], row: Sequence[Any], functor: Functor) -> Any:
    """What a function gives for one row of arguments, checked."""
    try:
        value = function(*row)
    except Exception as error:
        raise FunctorError(f"{_call(functor, row)} failed: {type(error).__name__}: {error}") from error
    if value is None:
        return None
    kind = functor.type.kind
    if kind in NESTED:
        return value
    try:
        if kind is Kind.SYMBOL and isinstance(value, str):
            value.encode()
            return value
        if kind is Kind.FLOAT and not isinstance(value, str | bytes):
            return float(value)
        if kind in (Kind.NUMBER, Kind.UNSIGNED):
            number = operator.index(value)
            if number in (_INT64 if kind is Kind.NUMBER else _UINT64):
                return number
    except (TypeError, ValueError):
        pass
    raise FunctorError(f"{_call(functor, row)} gave {value!r}, which is no {kind.value}")


def _call(functor: Functor, row: Sequence[Any]) -> str:
    shown = ", ".join(f'"{value}"' if isinstance(value, str) else str(value) for value in row)
    return f"{functor.span}: {functor.op}({shown})"


def _ids_of(values: list[Any], functor: Functor, dictionary: Dictionary) -> list[int]:
    """The ids of values, `_NO_VALUE` for None."""
    there = [value for value in values if value is not None]
    type = functor.type
    if type.kind in NESTED:
        try:
            ids = nested_ids(type, there, dictionary)
        except (ValueError, TypeError, OverflowError) as error:
            message = f"{functor.span}: {functor.op} gave what is no {type.name}: {error}"
            raise FunctorError(message) from error
    elif type.kind is Kind.SYMBOL:
        import pyarrow as pa

        ids = dictionary.encode(type.space, pa.array(there, pa.large_string()))
    else:
        ids = dictionary.encode_words(type.space, np.array(there, _DTYPES[type.kind]))
    following = iter(ids.tolist())
    return [_NO_VALUE if value is None else next(following) for value in values]


def _over_columns(
    given: UserFunction, functor: Functor, arguments: list[np.ndarray], rows: int, dictionary: Dictionary
) -> tuple[np.ndarray, np.ndarray]:
    import pyarrow as pa

    columns = [
        dictionary.strings(column)
        if arg.type.kind is Kind.SYMBOL
        else dictionary.values(arg.type.space, column)
        for arg, column in zip(functor.args, arguments, strict=True)
    ]
    function = given.ufunc(functor) if given.compiled and columns else given.function
    kind = functor.type.kind
    wanted = pa.large_string() if kind is Kind.SYMBOL else pa.from_numpy_dtype(_DTYPES[kind])

    def first() -> str:
        row = [column[0].as_py() if isinstance(column, pa.Array) else column[0] for column in columns]
        others = f" and {rows - 1:,} other rows" if rows > 1 else ""
        return _call(functor, row) + others

    try:
        found = function(*columns)
    except Exception as error:
        raise FunctorError(f"{first()} failed: {type(error).__name__}: {error}") from error
    try:
        if isinstance(found, pa.ChunkedArray):
            found = found.combine_chunks()
        if not isinstance(found, pa.Array):
            found = np.asarray(found)
            found = pa.array(np.broadcast_to(found, rows) if found.ndim == 0 else found)
        found = found.cast(wanted)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise FunctorError(f"{first()} gave no column of {kind.value}: {error}") from error
    if len(found) != rows:
        raise FunctorError(f"{first()} gave {len(found):,} values for {rows:,} rows")
    has_value = np.asarray(found.is_valid().to_numpy(zero_copy_only=False), np.bool_)
    ids = np.zeros(rows, np.uint32)
    kept = found.drop_null()
    ids[has_value] = dictionary.encode(
        functor.type.space, kept if kind is Kind.SYMBOL else kept.to_numpy(zero_copy_only=False)
    )
    return ids, has_value
