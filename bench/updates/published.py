"""What the papers report on updates, in seconds.

"Modular materialisation of Datalog programs", table 2: two Xeon E5-2640 at 2.6 GHz; small changes are the
mean of ten times 1,000 facts. The paper on dynamic Datalog with DBSP draws its times and states four of them
(an M1 Mac).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Two:
    """The same by the approach of the paper and by the one that it is compared with."""

    ours: float
    other: float


MODULAR_NAMES = ("DRedc-Mod", "DRedc")
MODULAR: dict[str, dict[str, Two]] = {
    "Claros-LE": {"-1,000": Two(0.93, 1035.28), "+1,000": Two(0.17, 0.80), "-25 %": Two(314.33, 3616.93)},
    "LUBM-LE": {"-1,000": Two(0.32, 3.87), "+1,000": Two(0.01, 0.01), "-25 %": Two(182.93, 1369.77)},
    "DBpedia-SKOS": {"-1,000": Two(21.77, 691.32), "+1,000": Two(0.20, 2.78), "-25 %": Two(111.28, 3826.87)},
    "DAG-R": {"-1,000": Two(64.92, 3005.11), "+1,000": Two(14.56, 116.78), "-25 %": Two(62.48, 4316.71)},
}
DYNAMIC_NAMES = ("DYRE", "DDlog")
DYNAMIC: dict[str, dict[str, Two]] = {
    "RDFS": {
        "99 %": Two(0.083, 0.780),
        "99 %: +1 %": Two(0.007, 0.010),
        "99 %: -1 %": Two(0.007, 0.010),
    },
}
