"""Who wants to know what updates change, and the changes that somebody still holds."""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Callable

from gpuengine.maintenance.change import Change, RelationChange

Subscriber = Callable[[RelationChange], None]


class Subscriptions:
    """Tells changes in the order of the updates that made them, one at a time."""

    def __init__(self) -> None:
        self._subscribers: dict[str, tuple[Subscriber, ...]] = {}
        self._subscribing = threading.Lock()
        self._untold: deque[Change] = deque()
        self._is_telling = False
        self._changes: list[weakref.ref[Change]] = []
        self._late: BaseException | None = None

    def subscribe(self, relation: str, callback: Subscriber) -> Callable[[], None]:
        """Call back with each change of a relation; the result ends that."""
        with self._subscribing:
            self._subscribers[relation] = (*self._subscribers.get(relation, ()), callback)
        return lambda: self._end_subscription(relation, callback)

    def _end_subscription(self, relation: str, callback: Subscriber) -> None:
        with self._subscribing:
            subscribers = list(self._subscribers[relation])
            if callback in subscribers:
                subscribers.remove(callback)
            self._subscribers[relation] = tuple(subscribers)

    def note(self, change: Change, late: BaseException | None) -> None:
        """Know a change before it is told, and what came too `late` to stop the update that made it."""
        self._late = late
        self._changes = [*(one for one in self._changes if one() is not None), weakref.ref(change)]

    def find_changes(self) -> None:
        """Have changes that somebody still holds find out what they are, before that changes again."""
        for reference in self._changes:
            change = reference()
            if change is not None:
                change.find_all()
        self._changes = []

    def tell(self, change: Change) -> None:
        """Call back who wants to know; then raise what came too late to stop the update, or their errors.

        What a callback changes itself is told when everybody knows what it was called for.
        """
        errors: list[BaseException] = []
        late, self._late = self._late, None
        self._untold.append(change)
        if not self._is_telling:
            self._is_telling = True
            try:
                while self._untold:
                    self._tell(self._untold.popleft(), errors)
            finally:
                self._is_telling = False
                self._untold.clear()
        if late is not None:
            if not isinstance(late, KeyboardInterrupt):
                late.add_note("raised by `watch` too late to end the update, which has happened")
            raise late
        if errors:
            raise errors[0]

    def _tell(self, change: Change, errors: list[BaseException]) -> None:
        for relation, callbacks in list(self._subscribers.items()):
            if callbacks and relation in change.declared and change[relation]:
                for callback in callbacks:
                    try:
                        callback(change[relation])
                    except Exception as error:
                        errors.append(error)
