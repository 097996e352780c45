"""Attacks on the engine that go on for as long as one likes: ``python -m tests.torture --minutes 60``.

| file | its job |
|---|---|
| `kinds.py` | what one case of each kind does, by its seed |
| `worker.py` | runs cases of one kind in a process of its own |
| `runner.py` | keeps workers busy, counts, notices crashes and hangs |
| `__main__.py` | the command line |
"""
