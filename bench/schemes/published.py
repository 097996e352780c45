"""What the papers report, transcribed: the thesis "Optimising Datalog materialisations" (tables 5.10 to 5.14)
and "Modular materialisation of Datalog programs" (table 1).

Both ran on two Xeon E5-2640 at 2.6 GHz with 512 GB. None is a dash in the paper; `MoreThan` a lower bound,
which for memory the thesis writes as about.
"""

from __future__ import annotations

from dataclasses import dataclass

from bench.harness.numbers import MoreThan, Number, ratio

_HOUR = 3600.0
_GB = 1000.0


@dataclass(frozen=True, slots=True)
class Three:
    """The same by the thesis's three approaches: standard (semi-naive), TCModule (modules), multi-scheme."""

    standard: Number
    modules: Number
    schemes: Number

    @property
    def standard_ratio(self) -> Number:
        return ratio(self.standard, self.schemes)

    @property
    def modules_ratio(self) -> Number:
        return ratio(self.modules, self.schemes)


# Table 5.10, seconds and static memory in MB: initial materialisation, then three times 1,000 facts more.
BROADER_SECONDS: dict[str, tuple[Three, Three, Three, Three]] = {
    "0.2M": (Three(2800, 28.2, 8.4), Three(96.0, 15.5, 0.8), Three(92.1, 2.8, 0.9), Three(6400, 39.4, 6.1)),
    "1.4M": (
        Three(MoreThan(38 * _HOUR), 3300, 400),
        Three(None, 100, 2.2),
        Three(None, 30.0, 3.0),
        Three(None, 1500, 14.8),
    ),
}
BROADER_MEGABYTES: dict[str, tuple[Three, Three, Three, Three]] = {
    "0.2M": (Three(1300, 1300, 200), Three(1300, 1400, 200), Three(1300, 1400, 200), Three(2300, 2400, 300)),
    "1.4M": (
        Three(None, 82_300, 2300),
        Three(None, 82_100, 2300),
        Three(None, 82_100, 2300),
        Three(None, 82_500, 2300),
    ),
}


@dataclass(frozen=True, slots=True)
class Shape:
    """A line of table 5.11: rules, facts before and after, of these in transitive and in union relations."""

    rules: int
    before: float
    after: float
    transitive: Number
    union: Number


SHAPES: dict[str, Shape] = {
    "DB25%": Shape(41, 23e6, 33e6, 4e6, 4e6),
    "DB50%": Shape(41, 46e6, 0.6e9, 0.3e9, 0.3e9),
    "DB75%": Shape(41, 69e6, 8e9, 4e9, 4e9),
    "DBpedia": Shape(41, 92e6, 35e9, 17e9, 17e9),
    "DB75%*": Shape(38, 69e6, 4e9, 2e9, 2e9),
    "TC": Shape(2, 0.1e6, 23e6, 23e6, None),
    "TC+": Shape(10, 22e3, 12e6, 8e6, None),
    "U": Shape(14, 7e6, 14e6, None, 7e6),
    "TCU": Shape(11, 13e3, 19e6, 7e6, 4e6),
    "Wikidata": Shape(2, 20e6, 0.5e9, 141e6, None),
    "LUBM": Shape(98, 67e6, 91e6, 310e3, 2.3e6),
}

# Table 5.12, seconds.
_NONE = (None, None)
INITIAL: dict[str, Three] = {
    "DB25%": Three(28.753, 35.427, 39.342),
    "DB50%": Three(14_575.0, 1158.82, 989.835),
    "DB75%": Three(MoreThan(86 * _HOUR), MoreThan(86 * _HOUR), 15_885.308),
    "DB75%*": Three(MoreThan(64 * _HOUR), MoreThan(64 * _HOUR), 9256.462),
    "DBpedia": Three(*_NONE, 59_574.736),
    "TC": Three(3869.66, 44.027, 22.639),
    "TC+": Three(6025.19, 20.829, 5.753),
    "U": Three(9.099, 9.442, 18.384),
    "TCU": Three(4833.92, 23.245, 17.577),
    "Wikidata": Three(1776.65, 840.3, 1947.002),
    "LUBM": Three(80.185, 73.551, 179.797),
}
SMALL_DELETION: dict[str, Three] = {
    "DB25%": Three(0.026, 0.065, 0.58),
    "DB50%": Three(0.1, 105.419, 2.365),
    "DB75%": Three(*_NONE, 5.505),
    "DB75%*": Three(*_NONE, 6.074),
    "DBpedia": Three(*_NONE, 4.765),
    "TC": Three(1097.72, 83.025, 6.516),
    "TC+": Three(10_269.1, 110.372, 19.908),
    "U": Three(0.009, 0.008, 0.006),
    "TCU": Three(8045.38, 164.556, 0.038),
    "Wikidata": Three(0.14, 0.349, 13.758),
    "LUBM": Three(0.008, 0.009, 0.145),
}
LARGE_DELETION: dict[str, Three] = {
    "DB25%": Three(3.113, 7.382, 10.031),
    "DB50%": Three(13_378.2, 1699.6, 1166.558),
    "DB75%": Three(*_NONE, 6648.236),
    "DB75%*": Three(*_NONE, 6728.426),
    "DBpedia": Three(*_NONE, 27_442.412),
    "TC": Three(5566.4, 162.786, 9.49),
    "TC+": Three(9869.97, 168.84, 27.4),
    "U": Three(0.582, 0.577, 2.76),
    "TCU": Three(7709.5, 341.499, 0.179),
    "Wikidata": Three(728.774, 429.41, 378.846),
    "LUBM": Three(7.744, 7.514, 6.748),
}
SMALL_ADDITION: dict[str, Three] = {
    "DB25%": Three(0.01, 0.009, 0.625),
    "DB50%": Three(0.103, 0.089, 1.474),
    "DB75%": Three(*_NONE, 2.662),
    "DB75%*": Three(*_NONE, 3.337),
    "DBpedia": Three(*_NONE, 3.096),
    "TC": Three(18.333, 9.451, 0.468),
    "TC+": Three(5.454, 17.017, 0.092),
    "U": Three(0.009, 0.009, 0.007),
    "TCU": Three(8.498, 30.551, 0.062),
    "Wikidata": Three(0.052, 0.07, 2.805),
    "LUBM": Three(0.013, 0.013, 0.167),
}

# Table 5.13, megabytes.
MEGABYTES: dict[str, Three] = {
    "DB25%": Three(2.1 * _GB, 2.7 * _GB, 3.2 * _GB),
    "DB50%": Three(25.4 * _GB, 26.3 * _GB, 7.8 * _GB),
    "DB75%": Three(MoreThan(500 * _GB), None, 15 * _GB),
    "DB75%*": Three(MoreThan(250 * _GB), None, 13 * _GB),
    "DBpedia": Three(MoreThan(2000 * _GB), None, 15 * _GB),
    "TC": Three(903, 1.0 * _GB, 893),
    "TC+": Three(540, 560, 190),
    "U": Three(660, 660, 380),
    "TCU": Three(780, 800, 340),
    "Wikidata": Three(23 * _GB, 24 * _GB, 25 * _GB),
    "LUBM": Three(5.5 * _GB, 5.6 * _GB, 5.8 * _GB),
}


@dataclass(frozen=True, slots=True)
class Answered:
    """A query of table 5.14: how many answers, seconds by the standard approach and by multi-scheme."""

    answers: float
    standard: float
    schemes: float

    @property
    def slowdown(self) -> Number:
        """None where the paper's clock shows 0."""
        return ratio(self.schemes, self.standard) if self.schemes else None


def _answered(
    answers: tuple[float, ...], standard: tuple[float, ...], schemes: tuple[float, ...]
) -> list[Answered]:
    return [Answered(*one) for one in zip(answers, standard, schemes, strict=True)]


# Table 5.14: Q_0 to Q_10 on DB50%, and the whole of a relation on the others.
_TRANSITIVE = _answered(
    (0.1e9, 0.1e9, 600, 400, 300, 5, 0.1e9, 0.8e6, 1.1e6, 12, 7, 4e6, 3.6e6),
    (1.99, 17.2, 0.001, 0, 0, 0, 11.6, 0.054, 0.083, 0, 0, 0.053, 0.049),
    (10.023, 15.14, 0, 0, 0, 0, 39.03, 0.189, 0.285, 0, 0, 0.09, 0.084),
)
_UNION = _answered(
    (0.3e9, 0.3e9, 0.8e6, 1.1e6, 300, 12, 0.3e9, 0.8e6, 1.1e6, 300, 12, 7e6, 4e6),
    (3.52, 32.7, 0.057, 0.087, 0, 0, 34.2, 0.053, 0.082, 0, 0, 0.089, 0.049),
    (323.869, 343.526, 0.406, 0.607, 0.001, 0, 433.169, 1.978, 2.96, 0, 0, 6.967, 4.424),
)
QUERIES: dict[str, Answered] = {
    **{f"TC Q_{i}": one for i, one in enumerate(_TRANSITIVE[:11])},
    "TC+ R": _TRANSITIVE[11],
    "TCU A": _TRANSITIVE[12],
    **{f"Union Q_{i}": one for i, one in enumerate(_UNION[:11])},
    "U U": _UNION[11],
    "TCU U": _UNION[12],
}


@dataclass(frozen=True, slots=True)
class Modular:
    """A line of table 1 of the modular paper: facts before and after, seconds with and without modules."""

    before: float
    after: float
    with_modules: float
    without: float


MODULAR: dict[str, Modular] = {
    "Claros-LE": Modular(18.8e6, 533.3e6, 733.55, 3593.32),
    "LUBM-LE": Modular(133.6e6, 332.6e6, 291.90, 1100.22),
    "DBpedia-SKOS": Modular(5.0e6, 97.0e6, 103.23, 3623.37),
    "DAG-R": Modular(0.1e6, 22.9e6, 29.60, 3238.86),
}

# Seconds of GPU Datalog engines on an A100-40GB; see graphs/README.md.
GPU_CLOSURE_SECONDS: dict[str, str] = {"SF.cedge": "3.3–3.6", "usroads": "29–83"}
