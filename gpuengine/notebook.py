"""``%load_ext gpuengine``: a cell magic that adds clauses and asks queries, in IPython and Jupyter.

%%datalog                        the session's own engine, or %%datalog kb for that of a variable
path(x, y) :- edge(x, y).
?- path(1, x).
"""

from __future__ import annotations

from typing import Any

from gpuengine.engine import Engine
from gpuengine.errors import GpuEngineError, ProgramErrors
from gpuengine.interactive import Session, statements


def load(ipython: Any) -> None:
    """Have ``%%datalog`` in a shell of IPython."""
    sessions: dict[int, Session] = {}
    own = Session()

    def datalog(line: str, cell: str) -> None:
        name = line.strip()
        session = own
        if name:
            engine = ipython.user_ns.get(name)
            if not isinstance(engine, Engine):
                raise GpuEngineError(f"{name} is no engine\n  hint: {name} = gpuengine.Engine(…)")
            session = sessions.setdefault(id(engine), Session(engine))
        try:
            for statement in statements(iter(cell.splitlines(keepends=True))):
                print(session.execute(statement), end="")
        except ProgramErrors as error:
            print(error.render())
        ipython.user_ns.setdefault("kb", session.engine)

    ipython.register_magic_function(datalog, "cell", "datalog")
