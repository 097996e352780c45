"""A proof as HTML: a tree that opens and closes, by itself or in a notebook."""

from __future__ import annotations

from html import escape

from gpuengine.explaining.proof import Derivation, FactPremise, Proof
from gpuengine.explaining.text import told_derivation, told_premise

_SHOWN_IN_NOTEBOOK = 500
"""So many steps a notebook shows at most; the page has all."""
_OPEN_LEVELS = 3
_STYLE = """
.proof { font: 13px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; line-height: 1.6; }
.proof details, .proof .leaf { margin-left: 1.4em; } .proof > details { margin-left: 0; }
.proof summary { cursor: pointer; } .proof .by { opacity: 0.65; } .proof .stated { color: #2e7d32; }
@media (prefers-color-scheme: dark) { .proof .stated { color: #7cc47f; } }
"""
_PAGE_STYLE = """
body { margin: 2em; background: #fff; color: #1f2933; }
h1 { font: 600 18px system-ui, sans-serif; } p { font: 13px system-ui, sans-serif; opacity: 0.7; }
@media (prefers-color-scheme: dark) { body { background: #14181d; color: #dfe6ee; } }
"""


def page(proof: Proof, depth: int | None = None) -> str:
    """A document that needs nothing else."""
    title = escape(f"proof of {proof.query}")
    summary = f"{len(proof.steps):,} steps, height {proof.height}" if proof.holds else "it does not hold"
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f"<style>{_PAGE_STYLE}</style></head><body><h1>{title}</h1><p>{summary}</p>"
        f"{fragment(proof, depth, None)}</body></html>\n"
    )


def fragment(proof: Proof, depth: int | None = None, most: int | None = _SHOWN_IN_NOTEBOOK) -> str:
    """A part of a document."""
    if not proof.holds:
        return f'<div class="proof">{escape(proof.query)} does not hold</div>'
    writer = _Writer(proof, depth, most)
    for goal in proof.goals:
        if goal in proof.others:
            writer.all_derivations(goal)
        else:
            writer.tree(goal, 0)
    if proof.count > len(proof.goals):
        writer.parts.append(
            f"<div>… {proof.count - len(proof.goals):,} more of {proof.count:,} answers</div>"
        )
    return f'<div class="proof"><style>{_STYLE}</style>{"".join(writer.parts)}</div>'


class _Writer:
    def __init__(self, proof: Proof, depth: int | None, most: int | None) -> None:
        self._proof, self._depth, self._most = proof, depth, most
        self._told: set[int] = set()
        self.parts: list[str] = []

    def all_derivations(self, goal: int) -> None:
        derivations = self._proof.others[goal]
        fact = escape(self._proof.steps[goal].fact.text)
        self.parts.append(f"<details open><summary>{fact} in {len(derivations):,} ways</summary>")
        for derivation in derivations:
            self.parts.append(f'<details open><summary class="by">{_told(derivation)}</summary>')
            for premise in derivation.premises:
                if isinstance(premise, FactPremise):
                    self.tree(premise.step, 1, premise.reversed)
                else:
                    self.parts.append(f'<div class="leaf">{escape(told_premise(premise))}</div>')
            self.parts.append("</details>")
        self.parts.append("</details>")

    def tree(self, goal: int, level: int, is_reversed: bool = False) -> None:
        """Depth first, without recursion: proofs can be deep."""
        pending: list[tuple[int, int, bool] | str] = [(goal, level, is_reversed)]
        while pending:
            one = pending.pop()
            if isinstance(one, str):
                self.parts.append(one)
                continue
            number, level, backwards = one
            step = self._proof.steps[number]
            fact = escape(step.fact.text) + (" backwards" if backwards else "")
            told = f'{fact} <span class="by">{_told(step.derivation)}</span>'
            premises = step.derivation.premises
            if not premises:
                style = "leaf stated" if step.derivation.kind == "stated" else "leaf"
                self.parts.append(f'<div class="{style}">{told}</div>')
            elif number in self._told:
                self.parts.append(f'<div class="leaf">{fact} <span class="by">as told above</span></div>')
            elif self._is_cut(level):
                self.parts.append(f'<div class="leaf">{told} …</div>')
            else:
                self._told.add(number)
                is_open = " open" if level < _OPEN_LEVELS else ""
                self.parts.append(f"<details{is_open}><summary>{told}</summary>")
                below: list[tuple[int, int, bool] | str] = []
                for premise in premises:
                    if isinstance(premise, FactPremise):
                        below.append((premise.step, level + 1, premise.reversed))
                    else:
                        below.append(f'<div class="leaf">{escape(told_premise(premise))}</div>')
                pending += ["</details>", *reversed(below)]

    def _is_cut(self, level: int) -> bool:
        is_deep = self._depth is not None and level >= self._depth
        return is_deep or (self._most is not None and len(self._told) >= self._most)


def _told(derivation: Derivation) -> str:
    return escape(told_derivation(derivation))
