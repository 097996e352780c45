"""Statistics made up for tests, and random ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random


@dataclass(frozen=True)
class Sizes:
    """Relations by name: how many facts, and how many distinct values in each column."""

    relations: Mapping[str, tuple[float, tuple[float, ...]]]

    def count(self, relation: str) -> float:
        return self.relations[relation][0]

    def distinct(self, relation: str, column: int) -> float:
        return self.relations[relation][1][column]

    def skew(self, relation: str, column: int) -> float:
        return 1.0


class RandomSizes:
    """Any sizes, the same whenever they are asked for; none of them is impossible."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def count(self, relation: str) -> float:
        return float(Random(f"{self._seed} {relation}").choice([0, 1, 7, 100, 5000, 10**6]))

    def distinct(self, relation: str, column: int) -> float:
        share = Random(f"{self._seed} {relation} {column}").random()
        return float(max(1, int(self.count(relation) * share))) if self.count(relation) else 0.0

    def skew(self, relation: str, column: int) -> float:
        return Random(f"{self._seed} {column} {relation}").choice([1.0, 1.0, 3.0, 100.0])
