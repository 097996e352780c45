"""egglog on the workload programs: relations over i64, saturated."""

from __future__ import annotations

import importlib.metadata
import sys
import time

from bench.peers.protocol import Answer, NotApplicable, Task, main
from bench.rules import ANONYMOUS, Atom, Rule, Rules


def encode(rules: Rules) -> tuple[str, str]:
    """Declarations with inputs, and rules, as egglog text."""
    declared = [f"(relation {name} ({' '.join(['i64'] * arity)}))" for name, arity in rules.arity.items()]
    declared += [f'(input {name} "{filename}")' for name, filename in rules.inputs.items()]
    return "\n".join(declared), "\n".join(_rule(rule, number) for number, rule in enumerate(rules.rules))


def _rule(rule: Rule, number: int) -> str:
    body = [_atom(atom, f"any{number}_{i}_") for i, atom in enumerate(rule.atoms)]
    body += [f"({c.operator} {c.left} {c.right})" for c in rule.comparisons]
    return f"(rule ({' '.join(body)}) ({_atom(rule.head, '')}))"


def _atom(atom: Atom, fresh: str) -> str:
    terms = (f"{fresh}{i}" if t == ANONYMOUS else t for i, t in enumerate(atom.terms))
    return f"({atom.name} {' '.join(terms)})"


def solve(task: Task) -> Answer:
    """Load, saturate, count."""
    from egglog.bindings import EGraph

    if any(filename.endswith(".parquet") for filename in task.rules.inputs.values()):
        raise NotApplicable("egglog reads no Parquet")
    graph = EGraph(fact_directory=str(task.facts))
    declared, rules = encode(task.rules)
    start = time.perf_counter()
    graph.run_program(*graph.parse_program(declared))
    loaded = time.perf_counter()
    graph.run_program(*graph.parse_program(f"{rules}\n(run-schedule (saturate (run)))"))
    sizes = {}
    for name in task.rules.printed:
        (output,) = graph.run_program(*graph.parse_program(f"(print-size {name})"))
        sizes[name] = int(str(output))
    done = time.perf_counter()
    version = importlib.metadata.version("egglog")
    return Answer(sizes, {"load": loaded - start, "evaluate": done - loaded}, version)


if __name__ == "__main__":
    sys.exit(main(solve))
