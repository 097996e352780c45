"""Universities as the benchmark's own generator (UBA 1.7) draws them.

Written from its published parameters (Guo, Pan, Heflin, 2005), with the random numbers of java.util.Random,
so that the same universities and seed give the same facts. Distinct facts: one university 100,543, five
624,532, ten 1,272,575.
"""

from __future__ import annotations

from collections.abc import Iterator

Fact = tuple[str, ...]
"""A class and a thing, or a property and two."""
_MASK = (1 << 48) - 1
_PROFESSORS = ("FullProfessor", "AssociateProfessor", "AssistantProfessor")
_COURSES, _UNIVERSITIES, _INTERESTS = 100, 1000, 30


class JavaRandom:
    """java.util.Random: a linear congruential generator of 48 bits."""

    def __init__(self, seed: int) -> None:
        self._state = (seed ^ 0x5DEECE66D) & _MASK

    def _bits(self, count: int) -> int:
        self._state = (self._state * 0x5DEECE66D + 0xB) & _MASK
        return self._state >> (48 - count)

    def below(self, bound: int) -> int:
        """``nextInt(bound)``."""
        if bound & (bound - 1) == 0:
            return (bound * self._bits(31)) >> 31
        while True:
            bits = self._bits(31)
            value = bits % bound
            if bits - value + (bound - 1) < 1 << 31:
                return value

    def between(self, low: int, high: int) -> int:
        """One of ``low … high``."""
        return low + self.below(high - low + 1)

    def sample(self, count: int, among: int) -> list[int]:
        """`count` different numbers below `among`."""
        rest = list(range(among))
        return [rest.pop(self.between(0, len(rest) - 1)) for _ in range(count)]


def universities(count: int) -> Iterator[Fact]:
    """The facts of universities 0 … `count` - 1; a few more than once."""
    for number in range(count):
        random = JavaRandom(number)
        for department in range(random.between(15, 25)):
            yield from _Department(number, department, random).make()


def _university(number: int) -> str:
    return f"http://www.University{number}.edu"


class _Department:
    """One department while it is drawn: the order of the draws is that of the benchmark's generator."""

    def __init__(self, university: int, number: int, random: JavaRandom) -> None:
        self.random = random
        self.facts: list[Fact] = []
        self.number, self.university = number, university
        self.name = f"http://www.Department{number}.University{university}.edu"
        self.courses = self.graduate_courses = 0
        self.publications: list[tuple[str, list[str]]] = []

    def emit(self, *fact: str) -> None:
        self.facts.append(fact)

    def make(self) -> list[Fact]:
        random, emit = self.random, self.emit
        full, associate = random.between(7, 10), random.between(10, 14)
        assistant, lecturers = random.between(8, 11), random.between(5, 7)
        faculty = full + associate + assistant + lecturers
        undergraduates = random.between(8 * faculty, 14 * faculty)
        graduates = random.between(3 * faculty, 4 * faculty)
        teaching = random.between(graduates // 5, graduates // 4)
        researching = random.between(graduates // 4, graduates // 3)
        groups = random.between(10, 20)
        chair = random.below(full)
        university = _university(self.university)
        if self.number == 0:
            emit("University", university)
            emit("name", university, f"University{self.university}")
        emit("Department", self.name)
        emit("name", self.name, f"Department{self.number}")
        emit("subOrganizationOf", self.name, university)
        emit("University", university)
        for i in range(full):
            self._faculty("FullProfessor", i, 15, 20, heads=i == chair)
        for i in range(associate):
            self._faculty("AssociateProfessor", i, 10, 18)
        for i in range(assistant):
            self._faculty("AssistantProfessor", i, 5, 10)
        for i in range(lecturers):
            self._faculty("Lecturer", i, 0, 5)
        professors = tuple(zip(_PROFESSORS, (full, associate, assistant), strict=True))
        for i in range(undergraduates):
            self._undergraduate(i, professors)
        for i in range(graduates):
            self._graduate(i, professors)
        for i in range(groups):
            emit("ResearchGroup", self._thing("ResearchGroup", i))
            emit("subOrganizationOf", self._thing("ResearchGroup", i), self.name)
        for publication, authors in self.publications:
            emit("Publication", publication)
            emit("name", publication, publication.rpartition("/")[2])
            for author in authors:
                emit("publicationAuthor", publication, author)
        for kind, count in (("Course", self.courses), ("GraduateCourse", self.graduate_courses)):
            for i in range(count):
                emit(kind, self._thing(kind, i))
                emit("name", self._thing(kind, i), f"{kind}{i}")
        self._assistants(teaching, researching, graduates)
        return self.facts

    def _thing(self, kind: str, number: int) -> str:
        return f"{self.name}/{kind}{number}"

    def _person(self, kind: str, number: int) -> str:
        person = self._thing(kind, number)
        self.emit(kind, person)
        self.emit("name", person, f"{kind}{number}")
        return person

    def _contact(self, person: str, kind: str, number: int) -> None:
        self.emit("emailAddress", person, f"{kind}{number}@{self.name.removeprefix('http://www.')}")
        self.emit("telephone", person, "xxx-xxx-xxxx")

    def _degree(self, kind: str, person: str) -> None:
        university = _university(self.random.below(_UNIVERSITIES))
        self.emit(kind, person, university)
        self.emit("University", university)

    def _faculty(self, kind: str, number: int, fewest: int, most: int, *, heads: bool = False) -> None:
        """One who teaches, with at least `fewest` and at most `most` publications."""
        random, emit = self.random, self.emit
        person = self._person(kind, number)
        for _ in range(random.between(1, 2)):
            random.between(0, _COURSES - self.courses - 1)
            emit("teacherOf", person, self._thing("Course", self.courses))
            self.courses += 1
        for _ in range(random.between(1, 2)):
            random.between(0, _COURSES - self.graduate_courses - 1)
            emit("teacherOf", person, self._thing("GraduateCourse", self.graduate_courses))
            self.graduate_courses += 1
        for degree in ("undergraduateDegreeFrom", "mastersDegreeFrom", "doctoralDegreeFrom"):
            self._degree(degree, person)
        emit("worksFor", person, self.name)
        self._contact(person, kind, number)
        if kind in _PROFESSORS:
            emit("researchInterest", person, f"Research{random.below(_INTERESTS)}")
        if heads:
            emit("headOf", person, self.name)
        for i in range(random.between(fewest, most)):
            self.publications.append((f"{person}/Publication{i}", [person]))

    def _advisor(self, professors: tuple[tuple[str, int], ...]) -> str:
        kind, count = professors[self.random.between(0, 2)]
        return self._thing(kind, self.random.below(count))

    def _undergraduate(self, number: int, professors: tuple[tuple[str, int], ...]) -> None:
        random = self.random
        student = self._person("UndergraduateStudent", number)
        self.emit("memberOf", student, self.name)
        self._contact(student, "UndergraduateStudent", number)
        for course in random.sample(random.between(2, 4), self.courses):
            self.emit("takesCourse", student, self._thing("Course", course))
        if random.below(5) == 0:
            self.emit("advisor", student, self._advisor(professors))

    def _graduate(self, number: int, professors: tuple[tuple[str, int], ...]) -> None:
        random = self.random
        student = self._person("GraduateStudent", number)
        self.emit("memberOf", student, self.name)
        self._contact(student, "GraduateStudent", number)
        for course in random.sample(random.between(1, 3), self.graduate_courses):
            self.emit("takesCourse", student, self._thing("GraduateCourse", course))
        self._degree("undergraduateDegreeFrom", student)
        random.below(1)  # every graduate has an advisor, and yet it is drawn
        self.emit("advisor", student, self._advisor(professors))
        for publication in random.sample(random.between(0, 5), len(self.publications)):
            self.publications[publication][1].append(student)

    def _assistants(self, teaching: int, researching: int, graduates: int) -> None:
        chosen = self.random.sample(teaching + researching, graduates)
        courses = self.random.sample(teaching, self.courses)
        for position, number in enumerate(chosen):
            student = self._thing("GraduateStudent", number)
            if position < teaching:
                self.emit("TeachingAssistant", student)
                self.emit("teachingAssistantOf", student, self._thing("Course", courses[position]))
            else:
                self.emit("ResearchAssistant", student)
