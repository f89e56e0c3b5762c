"""Iteration with ``async for``."""

from __future__ import annotations

import asyncio
import time
from typing import Optional

from ._native import Event, Events

# A thread waits this long before it looks whether the task was cancelled.
_SLICE = 0.1
# Other tasks run after as many events that need no waiting.
_TURN = 256


class AsyncEvents:
    """The events of ``events``; a thread of the loop's executor waits for them."""

    def __init__(self, events: Events, timeout: Optional[float]) -> None:
        self._events = events
        self._timeout = timeout
        self._taken = 0

    def __aiter__(self) -> AsyncEvents:
        return self

    async def __anext__(self) -> Event:
        start = time.monotonic()
        while True:
            if self._taken == _TURN:
                self._taken = 0
                await asyncio.sleep(0)
            # Nothing is awaited after this, so a task that is cancelled loses no event.
            event = self._events._take()
            if event is not None:
                self._taken += 1
                return event
            self._taken = 0
            loop = asyncio.get_running_loop()
            arrived = await loop.run_in_executor(None, self._events._wait, _SLICE)
            if arrived is False:
                raise StopAsyncIteration
            if arrived is None and self._timeout is not None and time.monotonic() - start >= self._timeout:
                raise TimeoutError("no event within the timeout")
