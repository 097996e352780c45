"""Runs of computing steps on numbers, each as one compiled program over whole columns of bindings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gpuengine.evaluation.rules.calculation import (
    defined_variable,
    is_calculable_on_columns,
    truth_steps,
    value_steps,
)
from gpuengine.evaluation.rules.compute import Bindings, apply_comparison
from gpuengine.kernels.contract import Compute
from gpuengine.kernels.cpu.blocks import BlockProgram
from gpuengine.language.program import Comparison, Literal, Variable, literal_variables
from gpuengine.terms.dictionary import Dictionary


@dataclass(frozen=True, slots=True)
class Calculation:
    """Comparisons to be done one after the other, on columns of `inputs`; of what is left come `outputs`."""

    comparisons: tuple[Comparison, ...]
    inputs: tuple[Variable, ...]
    outputs: tuple[Variable, ...]
    program: BlockProgram

    def apply(self, bindings: Bindings, dictionary: Dictionary) -> None:
        """Filter the bindings, and bind what equations define."""
        made = self.program.run([bindings.columns[variable] for variable in self.inputs], bindings.rows)
        if made is None:  # a division by zero: this says of what, and where
            for comparison in self.comparisons:
                apply_comparison(comparison, bindings, dictionary)
            return
        columns, bindings.rows = made
        bindings.columns = dict(zip(self.outputs, columns, strict=True))


def calculation_of(
    comparisons: Sequence[Comparison],
    bound: Iterable[Variable],
    needed: frozenset[Variable],
    dictionary: Dictionary,
) -> Calculation:
    """Comparisons on numbers as a program: `bound` are bound before them, `needed` are needed after them."""
    tables = dictionary.word_tables
    mentioned = frozenset().union(*map(literal_variables, comparisons))
    inputs = tuple(sorted(set(bound) & (mentioned | needed), key=str))
    registers = {variable: number for number, variable in enumerate(inputs)}
    computes = []
    for comparison in comparisons:
        defined = defined_variable(comparison, frozenset(registers))
        if defined is None:
            steps = truth_steps(comparison, registers.__getitem__, tables.__getitem__)
            computes.append(Compute(tuple(steps)))
            continue
        variable, term = defined
        steps = value_steps(term, registers.__getitem__, tables.__getitem__)
        registers[variable] = len(registers)
        computes.append(Compute(tuple(steps), registers[variable], tables[variable.type.space]))
    outputs = tuple(variable for variable in registers if variable in needed)
    program = BlockProgram(computes, len(inputs), [registers[variable] for variable in outputs])
    return Calculation(tuple(comparisons), inputs, outputs, program)


def goes_along(literal: Literal, bound: frozenset[Variable]) -> bool:
    """Is it a comparison that a calculation can do beside others?

    Equal variables are the same term, as if one stood for both: that is left to pipelines.
    """
    if not isinstance(literal, Comparison) or not is_calculable_on_columns(literal, bound):
        return False
    are_variables = isinstance(literal.left, Variable) and isinstance(literal.right, Variable)
    return not (literal.op == "=" and are_variables)
