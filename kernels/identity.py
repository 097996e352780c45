"""Objects that are what they are by being themselves: another with the same content would not do."""

from __future__ import annotations

from typing import NoReturn


class NotCopied:
    """Refuses to be copied and pickled. `instead` says what to do."""

    __slots__ = ()
    instead = "take what it holds as arrays"

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError(f"{type(self).__name__} objects can't be copied or pickled\n  hint: {self.instead}")
