"""Event Tracing for Windows as an open system: read, record and write traces.

    import openetw

    for event in openetw.open("trace.etl").where("pid == 4"):
        print(event.time, event.kind, event.fields)
    disk = openetw.open("trace.etl").to_pandas("disk")

- ``open`` returns a ``Trace``: filters, events in a loop, tables, pivots; as Arrow, pandas and polars.
- ``sql`` runs a SQL statement over traces, by the program ``etw-sql``.
- ``Session`` records events of providers and the kernel, to a file or for a loop; ``Controller`` and ``listen`` are for
  sessions of other programs.
- ``Provider`` writes events, ``LogHandler`` those of ``logging``, and ``activity`` relates them.

Sessions and providers need Linux; everything else works on every system. All exceptions are ``Error``, and have the code
that Windows would return.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ._errors import (
    ArgumentError,
    Error,
    FilterError,
    ForkError,
    SessionError,
    SqlError,
    TraceError,
    TraceNotFoundError,
)
from ._native import Event, Events, Statistics, Table, Trace, __version__, open
from ._sql import sql

__all__ = [
    "ArgumentError",
    "Error",
    "Event",
    "Events",
    "FilterError",
    "ForkError",
    "SessionError",
    "SqlError",
    "Statistics",
    "Table",
    "Trace",
    "TraceError",
    "TraceNotFoundError",
    "__version__",
    "open",
    "sql",
]

if sys.platform == "linux":
    from ._log import LogHandler
    from ._native import Controller, Provider, Session, SessionStatus, listen
    from ._activity import activity

    __all__ += [
        "Controller",
        "LogHandler",
        "Provider",
        "Session",
        "SessionStatus",
        "activity",
        "listen",
    ]
elif not TYPE_CHECKING:

    def __getattr__(name):
        if name in ("Controller", "LogHandler", "Provider", "Session", "SessionStatus", "activity", "listen"):
            raise AttributeError(f"openetw.{name} needs Linux; on other systems, openetw reads traces")
        raise AttributeError(f"module 'openetw' has no attribute {name!r}")


if not TYPE_CHECKING:
    if sys.platform == "linux":
        LogHandler.__module__ = activity.__module__ = "openetw"
    sql.__module__ = "openetw"
    # For `match`, and for libraries that ask.
    Mapping.register(Event)
