"""What the thesis "Optimising Datalog materialisations" reports in tables 4.2 to 4.4.

Two Xeon E5-2640 at 2.6 GHz with 512 GB. `standard` is semi-naive evaluation with DRed, `hypertree` uses
decompositions for all rules, `combined` for the complex ones only.
"""

from __future__ import annotations

from dataclasses import dataclass

from bench.harness.numbers import Number, ratio


@dataclass(frozen=True, slots=True)
class Methods:
    """The same by the three methods of the thesis."""

    standard: float
    hypertree: float
    combined: float

    @property
    def speed_up(self) -> Number:
        return ratio(self.standard, self.combined)


@dataclass(frozen=True, slots=True)
class Shape:
    """A line of table 4.2: facts before and after, simple and cyclic rules."""

    before: int
    after: int
    simple: int
    cyclic: int


SHAPES: dict[str, Shape] = {
    "L": Shape(66_751_196, 91_128_727, 98, 0),
    "L+C": Shape(66_751_196, 99_361_809, 98, 16),
    "Exp": Shape(3_362_280, 6_440_280, 0, 3),
    "YAGO": Shape(58_276_868, 59_755_990, 0, 23),
}

# Table 4.3, seconds, by step.
SECONDS: dict[str, dict[str, Methods]] = {
    "L+C": {
        "initial": Methods(29_577.90, 1168.83, 554.00),
        "-1,000": Methods(0.92, 4.00, 1.06),
        "+1,000": Methods(0.97, 1.04, 0.73),
        "-25 %": Methods(15_193.70, 812.32, 195.51),
    },
    "L": {
        "initial": Methods(95.73, 740.81, 75.50),
        "-1,000": Methods(0.03, 3.70, 0.04),
        "+1,000": Methods(0.02, 0.45, 0.06),
        "-25 %": Methods(27.09, 558.90, 21.71),
    },
    "Exp": {
        "initial": Methods(7039.87, 56.83, 57.01),
        "-1,000": Methods(37.60, 0.47, 0.45),
        "+1,000": Methods(40.23, 0.57, 0.53),
        "-25 %": Methods(4006.44, 30.93, 28.62),
    },
    "YAGO": {
        "initial": Methods(155_022.00, 367.59, 366.03),
        "-1,000": Methods(20.06, 0.18, 0.20),
        "+1,000": Methods(20.42, 0.17, 0.17),
        "-25 %": Methods(126_562.00, 168.34, 159.43),
    },
}

# Table 4.4: peak memory while materialising.
PEAK_GIGABYTES: dict[str, Methods] = {
    "L": Methods(7.2, 20.1, 7.2),
    "L+C": Methods(8.4, 29.4, 16.5),
    "Exp": Methods(0.6, 1.2, 1.2),
    "YAGO": Methods(5.2, 9.5, 9.5),
}
