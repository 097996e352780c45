"""Do all engines give the same sizes, and the right ones?"""

from __future__ import annotations

from collections.abc import Mapping

Sizes = Mapping[str, int]


def disagreements(expected: Sizes, answers: Mapping[str, Sizes], printed: tuple[str, ...]) -> list[str]:
    """One line for every size that is missing, wrong, or differs between engines; empty if all is well.

    Where the right size is not known, every engine is compared with all others.
    """
    problems: list[str] = []
    for relation in printed:
        given: dict[int, list[str]] = {}
        for engine, sizes in answers.items():
            if relation not in sizes:
                problems.append(f"{engine} gives no size for {relation}")
            else:
                given.setdefault(sizes[relation], []).append(engine)
        right = expected.get(relation)
        if right is not None:
            problems += [
                f"{relation}: {', '.join(engines)} {'says' if len(engines) == 1 else 'say'} {size:,}; "
                f"{right:,} is right"
                for size, engines in sorted(given.items())
                if size != right
            ]
        elif len(given) > 1:
            sides = "; ".join(f"{', '.join(engines)}: {size:,}" for size, engines in sorted(given.items()))
            problems.append(f"{relation}: engines disagree ({sides})")
    return problems
