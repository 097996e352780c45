"""Why a fact holds, and why another does not: proofs over a materialisation as it is.

Nothing is kept for it while rules are evaluated. `rules` are the program's as they were written, ready to be
asked which of their instances derive given facts (`instances`); `chains` are relations of which many steps
are shown as one, closures and equivalences; `search` goes from the facts asked for to what they may follow
from, a layer at a time, until no proof can be lower, and leaves to `rounds` what too much may lead to;
`extraction` makes a `Proof` of what was
found. `why_not` says how far the body of each rule gets. `text`, `drawing` and `page` show proofs.
"""
