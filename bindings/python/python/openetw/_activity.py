"""Activities, which relate events to each other."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Generator, Optional
from uuid import UUID

from ._native import create_activity, set_activity


@contextmanager
def activity(id: Optional[UUID] = None) -> Generator[UUID, None, None]:
    """Gives the events that this thread writes in the ``with`` statement an activity; a new one without ``id``.

    The activity belongs to the thread: coroutines that take turns on a thread pass ``activity=`` to ``write`` instead.
    """
    id = create_activity() if id is None else id
    previous = set_activity(id)
    try:
        yield id
    finally:
        set_activity(previous)
