"""The rules of the thesis's benchmark programs, appendix D of "Optimising Datalog Materialisations"."""

from __future__ import annotations

TC = """
path(x, y) :- edge(x, y).
path(x, z) :- path(x, y), path(y, z).
"""
TC_PLUS = """
R(x, z) :- R(x, y), R(y, z).
R(x, y) :- A(x, y).
R(x, y) :- B(x, y), C(x, y).
R(x, z) :- R(x, y), D(y, z).
R2(x, z) :- R2(x, y), R2(y, z).
R2(x, y) :- R(y, x).
R(x, y) :- R2(y, x).
R2(x, y) :- F(x, y).
X(x, y) :- R2(x, y).
R2(y, x) :- X(x, y), E(x, y).
"""
FOURTEEN = "A B C D E F G H I J K L M N"
U = "".join(f"U(x, y) :- {name}({'y, x' if name == 'D' else 'x, y'}).\n" for name in FOURTEEN.split())
TCU = """
U(x, y) :- A(x, y).
U(x, y) :- B(x, y).
C(x, y) :- U(x, y).
B(x, y) :- C(x, y).
U(x, y) :- D(x, y), E(x, y).
A(x, y) :- A(x, z), A(z, y).
A2(x, y) :- A2(x, z), A2(z, y).
A(x, y) :- A2(y, x).
A2(x, y) :- A(y, x).
U(x, y) :- A2(x, y).
F(x, y) :- U(x, y), D(x, y).
"""
