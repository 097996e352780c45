"""LUBM as the benchmark's own generator makes it."""

from collections import Counter

from bench.lubm.generator import JavaRandom, universities


def test_random_numbers_are_those_of_java() -> None:
    random = JavaRandom(42)
    assert [random.below(10) for _ in range(10)] == [0, 3, 8, 4, 0, 5, 5, 8, 9, 3]
    assert [random.below(16) for _ in range(5)] == [14, 7, 5, 6, 4]


def test_one_university_has_the_published_facts() -> None:
    facts = set(universities(1))
    assert len(facts) == 100_543
    counts = Counter(fact[0] for fact in facts)
    # The answers of queries 6 and 14 and what the benchmark's authors count of LUBM(1, 0).
    assert (counts["UndergraduateStudent"], counts["GraduateStudent"]) == (5916, 1874)
    assert (counts["Department"], counts["headOf"], counts["Publication"]) == (15, 15, 5999)
    assert ("headOf", "http://www.Department0.University0.edu/FullProfessor7",
            "http://www.Department0.University0.edu") in facts  # fmt: skip
