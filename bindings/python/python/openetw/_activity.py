"""Activities, which relate events to each other."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Iterator, Optional
from uuid import UUID

from ._native import _create_activity, _set_activity


@contextmanager
def activity(id: Optional[UUID] = None) -> Iterator[UUID]:
    """Gives the events that this thread writes in the ``with`` statement an activity; a new one without ``id``.

    The activity belongs to the thread: coroutines that take turns on a thread pass ``activity=`` to ``write`` instead.
    """
    id = _create_activity() if id is None else id
    previous = _set_activity(id)
    try:
        yield id
    finally:
        _set_activity(previous)
