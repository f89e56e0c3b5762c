from __future__ import annotations

import os
import sys
from datetime import datetime
from typing import Any, AsyncIterator, Iterator, Literal, Optional, Sequence, TypeVar, Union, final, overload
from uuid import UUID

_Path = Union[str, os.PathLike[str]]
_Time = Union[float, str, datetime]
_T = TypeVar("_T")
_Names = Union[str, Sequence[str]]
_Paths = Union[_Path, Sequence[_Path]]

__version__: str

def open(
    *paths: _Path,
    schemas: Optional[_Paths] = None,
    symbols: Optional[_Names] = None,
    process_names: bool = False,
    index: Union[None, bool, _Path] = None,
) -> Trace:
    """Opens trace files, to be read together in time order.

    ``schemas`` are manifests, MOF, TMF and PDB files, and directories of them. ``symbols`` are symbol paths, searched
    before ``_NT_SYMBOL_PATH``. ``process_names`` adds the names of processes to events. ``index`` says where the tables
    with rows are kept: by default in memory unless there is an index; with ``True`` or a directory in an index; with
    ``False`` always in memory.

    Raises ``TraceNotFoundError``, ``TraceError``, or ``ArgumentError`` for a wrong schema file or symbol path.
    """

@final
class Trace:
    """Trace files, read together in time order.

    ``where``, ``provider``, ``between`` and ``limit`` return a trace with fewer events. Nothing is read until it is
    iterated over or made a table; each loop reads the files again.
    """

    @property
    def names(self) -> list[str]:
        """Names of the files."""
    @property
    def start(self) -> Optional[datetime]:
        """When the trace starts, in UTC."""
    @property
    def start_ns(self) -> int:
        """When the trace starts, in nanoseconds since 1970."""
    @property
    def end(self) -> Optional[datetime]:
        """When the trace ends, in UTC; ``None`` if its session never closed the file."""
    @property
    def statistics(self) -> Statistics:
        """Counts of the last pass over the files."""
    def where(self, expression: str) -> Trace:
        """Keeps the events that meet a filter expression, such as ``"pid == 4 and level <= Warning"``.

        Columns of the header and fields of the payload are named alike. Several calls keep what meets all of them. Raises
        ``FilterError`` for a wrong expression.
        """
    def provider(self, *specs: str) -> Trace:
        """Keeps the events of providers, each as ``"Name:Level:Ids:Keywords"``, of which all but the name may be missing.

        Events of any of these providers, and of those of earlier calls, are kept.
        """
    def between(self, start: Optional[_Time] = None, end: Optional[_Time] = None) -> Trace:
        """Keeps the events from ``start`` to before ``end``.

        Times are seconds from the start of the trace, texts (``"2026-01-02T03:04:05Z"``) or ``datetime`` with a time zone.
        """
    def limit(self, events: int) -> Trace:
        """Keeps the first ``events`` events."""
    def __iter__(self) -> Events: ...
    def kinds(self) -> dict[str, int]:
        """Returns the number of events of each kind, ``{"Provider/Event": 12}``, in the order of their first events."""
    def table(
        self,
        name: str,
        columns: Optional[_Names] = None,
        where: Optional[str] = None,
        *,
        raw: bool = False,
    ) -> Table:
        """Returns a table with rows (``"disk"``), or the events of a kind (``"Provider/Event"``, ``"Provider/12"``).

        ``columns`` selects and orders columns; those of tables with rows may be paths (``"thread.process.name"``). ``where``
        keeps the rows that meet an expression. With ``raw``, references to rows and frames stay numbers of rows.
        """
    def tables(self) -> dict[str, Table]:
        """Returns the events of all kinds as tables, in one pass."""
    def pivot(
        self,
        name: str,
        by: _Names,
        values: Optional[_Names] = None,
        where: Optional[str] = None,
        *,
        sort: Optional[str] = None,
        top: Optional[int] = None,
        raw: bool = False,
    ) -> Table:
        """Groups the rows of a table by the columns ``by``, and computes ``values`` of each group.

        Values are ``"sum(size)"``, ``min``, ``max``, ``mean``, ``count``, ``unique`` and percentiles (``"p95(duration)"``),
        also of some rows: ``"sum(size) where operation == Read"``.
        The column ``rows`` counts the rows of each group. Groups are sorted by the first value, largest first, or by
        ``sort``: a value, ``"rows"``, or a column of ``by``, smallest first. ``top`` keeps the first groups.
        """
    def to_arrow(
        self,
        name: str,
        columns: Optional[_Names] = None,
        where: Optional[str] = None,
        *,
        raw: bool = False,
    ) -> Any:
        """Returns a table or kind of events as a ``pyarrow.Table``. The arguments are those of ``table``."""
    def to_pandas(
        self,
        name: str,
        columns: Optional[_Names] = None,
        where: Optional[str] = None,
        *,
        raw: bool = False,
    ) -> Any:
        """Returns a table or kind of events as a ``pandas.DataFrame``. The arguments are those of ``table``."""
    def to_polars(
        self,
        name: str,
        columns: Optional[_Names] = None,
        where: Optional[str] = None,
        *,
        raw: bool = False,
    ) -> Any:
        """Returns a table or kind of events as a ``polars.DataFrame``. The arguments are those of ``table``."""

@final
class Table:
    """A table in memory. Every library that knows Arrow's PyCapsule interface takes it without a copy:
    ``pyarrow.table(t)``, ``polars.DataFrame(t)``, ``duckdb.sql("select * from t")``.
    """

    @property
    def name(self) -> str:
        """Name of the table or kind of events."""
    @property
    def num_rows(self) -> int:
        """Number of rows."""
    @property
    def num_columns(self) -> int:
        """Number of columns."""
    @property
    def column_names(self) -> list[str]:
        """Names of the columns."""
    def __len__(self) -> int: ...
    def __arrow_c_stream__(self, requested_schema: Optional[object] = None) -> object: ...
    def __arrow_c_schema__(self) -> object: ...
    def to_arrow(self) -> Any:
        """Returns the table as a ``pyarrow.Table``."""
    def to_pandas(self, **options: Any) -> Any:
        """Returns the table as a ``pandas.DataFrame``, by way of pyarrow."""
    def to_polars(self) -> Any:
        """Returns the table as a ``polars.DataFrame``."""

def map_arrow(path: _Path) -> Table:
    """Returns a stream in Apache Arrow's format, which is in a file that nobody changes any more, as a table without copying
    it.
    """

@final
class Events(Iterator[Event]):
    """Events in time order, from `Trace.__iter__`, `Session.events` or `listen`.

    Iterate over it in a loop, also with ``async for``. It ends with the trace or session, or by ``close``.
    """

    @property
    def statistics(self) -> Statistics:
        """Counts of what was read so far."""
    def __iter__(self) -> Events: ...
    def __next__(self) -> Event: ...
    def __aiter__(self) -> AsyncIterator[Event]: ...
    def next(self, timeout: Optional[float] = None) -> Optional[Event]:
        """Returns the next event, or ``None`` at the end. Raises ``TimeoutError`` after ``timeout`` seconds."""
    def close(self) -> None:
        """Ends reading. Events that have arrived already are dropped."""
    def __enter__(self) -> Events: ...
    def __exit__(self, *exception: object) -> None: ...
    def _take(self) -> Optional[Event]: ...
    def _wait(self, timeout: float) -> Optional[bool]: ...

@final
class Event:
    """An event: a mapping of the fields of its payload, and attributes of its header.

    Fields are decoded when they are read (``event["ImageName"]``). An event can be kept and used in any thread.
    """

    def __getitem__(self, name: str, /) -> Any: ...
    @overload
    def get(self, name: str) -> Any: ...
    @overload
    def get(self, name: str, default: _T) -> Union[Any, _T]: ...
    def __contains__(self, name: object, /) -> bool: ...
    def __bool__(self) -> Literal[True]: ...
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[str]: ...
    def keys(self) -> list[str]:
        """Names of the fields, in the order of the payload."""
    def values(self) -> list[Any]:
        """Values of the fields, in the order of the payload."""
    def items(self) -> list[tuple[str, Any]]:
        """Names and values of the fields, in the order of the payload."""
    @property
    def fields(self) -> dict[str, Any]:
        """All fields as a dictionary."""
    def text(self, name: str) -> str:
        """Returns the text of a field as its schema formats it: names of values, hexadecimal numbers, addresses."""
    @property
    def header(self) -> dict[str, Any]:
        """What the header and the schema say of the event, by the names that columns of tables have; without what the event
        lacks.
        """
    @property
    def time(self) -> Optional[datetime]:
        """When the event was logged, in UTC; ``time_ns`` is exact. ``None`` outside of the years 1 to 9999."""
    @property
    def time_ns(self) -> int:
        """When the event was logged, in nanoseconds since 1970."""
    @property
    def provider(self) -> Optional[str]:
        """Name of the provider, if it is known."""
    @property
    def provider_id(self) -> UUID:
        """GUID of the provider, or of the class of a classic event."""
    @property
    def name(self) -> str:
        """Name of the event, or task and opcode, or its id."""
    @property
    def kind(self) -> str:
        """``Provider/Event``, or ``Class/Type`` for classic events: what ``Trace.table`` takes."""
    @property
    def id(self) -> int:
        """Number of the event in its provider; 0 for classic and TraceLogging events."""
    @property
    def version(self) -> int:
        """Version of the event."""
    @property
    def channel(self) -> int:
        """Channel, which event logs sort events by; 11 for TraceLogging events."""
    @property
    def level(self) -> int:
        """Severity: 1 critical, 2 error, 3 warning, 4 information, 5 verbose; 0 for events that are always logged."""
    @property
    def opcode(self) -> int:
        """What the event says of its task, such as 1 for its start and 2 for its end; the type of classic events."""
    @property
    def task(self) -> int:
        """Task of the provider that the event belongs to."""
    @property
    def keyword(self) -> int:
        """Groups of events that this one belongs to, as bits."""
    @property
    def pid(self) -> Optional[int]:
        """Process that logged the event; ``None`` if its header does not say."""
    @property
    def tid(self) -> Optional[int]:
        """Thread that logged the event; ``None`` if its header does not say."""
    @property
    def processor(self) -> int:
        """Processor that the event was logged on."""
    @property
    def process(self) -> Optional[str]:
        """Image name of the process, with ``process_names=True``."""
    @property
    def activity_id(self) -> Optional[UUID]:
        """Activity that the event belongs to."""
    @property
    def related_activity_id(self) -> Optional[UUID]:
        """Activity that the event's activity came from."""
    @property
    def stack(self) -> list[int]:
        """Addresses of the stack in the event, innermost first; empty without one."""
    @property
    def payload(self) -> bytes:
        """The bytes of the payload."""
    @property
    def message(self) -> Optional[str]:
        """The message of the event with its values, if its schema has one."""
    @property
    def error(self) -> Optional[str]:
        """Why the event, or a part of it, could not be decoded; ``None`` if it was."""
    def to_json(self) -> str:
        """The event as one line of JSON, as ``etw dump --format json`` writes it."""

@final
class Statistics:
    """Counts of what was read of a trace or session."""

    @property
    def records(self) -> int:
        """Records read."""
    @property
    def delivered(self) -> int:
        """Events that met the filter."""
    @property
    def undecoded(self) -> int:
        """Events without a schema."""
    @property
    def failed(self) -> int:
        """Events whose payload does not match their schema."""
    @property
    def events_lost(self) -> int:
        """Events that were lost while they were recorded or delivered."""
    @property
    def buffers_lost(self) -> int:
        """Buffers that were lost with their events."""
    @property
    def damaged(self) -> int:
        """Damaged places in the files."""
    @property
    def is_complete(self) -> bool:
        """Whether nothing was lost or damaged, as far as it was read."""

if sys.platform == "linux":
    @final
    class SessionStatus:
        """The status and statistics of a session."""

        @property
        def name(self) -> str:
            """Name of the session."""
        @property
        def logger_id(self) -> int:
            """Number of the session while it runs."""
        @property
        def state(self) -> Literal["running", "stopped", "failing"]:
            """``running``, ``stopped``, or ``failing`` if the file cannot be written."""
        @property
        def file(self) -> Optional[str]:
            """Path of the file, if there is one."""
        @property
        def start(self) -> Optional[datetime]:
            """When the session was started, in UTC."""
        @property
        def events_written(self) -> int:
            """Events written to buffers."""
        @property
        def events_lost(self) -> int:
            """Events that were lost before they reached a buffer, or with a buffer that could not be written to the file."""
        @property
        def real_time_events_lost(self) -> int:
            """Events that consumers missed."""
        @property
        def buffers_written(self) -> int:
            """Buffers that were written to the file or delivered."""
        @property
        def bytes_written(self) -> int:
            """Bytes in the file."""
        @property
        def buffers(self) -> int:
            """Number of buffers."""
        @property
        def pid(self) -> int:
            """Process that started the session."""
        @property
        def consumers(self) -> int:
            """Number of programs that read the session."""
        @property
        def processes(self) -> int:
            """Number of processes that write to the session."""
        @property
        def enabled_providers(self) -> int:
            """Number of providers that the session has enabled."""
        @property
        def last_error(self) -> Optional[str]:
            """The last error, such as a full disk; ``None`` if there was none."""
        @property
        def missing(self) -> list[str]:
            """Kernel events that were requested and cannot be recorded, with the reasons."""

    @final
    class Session:
        """A session that this program starts and stops, best with a ``with`` statement.

        ``providers`` are enabled as ``"Name:Level:Ids:Keywords"``, with ``stacks`` of each event; ``kernel`` are flags of the
        kernel's events, with ``kernel_stacks`` of some and a ``sample_interval`` in seconds. ``file`` is written,
        ``real_time`` lets ``events`` read (the default without file and ring), ``ring`` keeps that many KiB in memory for
        ``dump``. ``mode`` is ``"sequential"``, ``"circular"``, ``"append"`` or ``"new_file"``, ``maximum_file_size`` is in
        MiB, ``buffer_size`` in KiB, ``buffers`` a minimum and a maximum, ``flush_timer`` in seconds.

        The session ends with the object or the process. With ``detached``, a session at a host of another process goes on
        until somebody stops it.
        """

        def __new__(
            cls,
            name: str,
            *,
            providers: Optional[_Names] = None,
            kernel: Optional[_Names] = None,
            file: Optional[_Path] = None,
            real_time: Optional[bool] = None,
            mode: Optional[Literal["sequential", "circular", "append", "new_file"]] = None,
            maximum_file_size: Optional[int] = None,
            ring: Optional[int] = None,
            buffer_size: Optional[int] = None,
            buffers: Optional[tuple[int, int]] = None,
            clock: Literal["qpc", "system", "cycles"] = "qpc",
            flush_timer: Optional[float] = None,
            stacks: bool = False,
            kernel_stacks: Optional[_Names] = None,
            sample_interval: Optional[float] = None,
            detached: bool = False,
        ) -> Session: ...
        @property
        def name(self) -> str:
            """Name of the session."""
        def start(self) -> SessionStatus:
            """Starts the session: at the running host, or in this process if there is none. Returns its status.

            Raises ``SessionError`` with code 183 if a session of this name runs, and 5 if the rights are missing.
            """
        def stop(self) -> Optional[SessionStatus]:
            """Stops the session and returns its final status; ``None`` if it was never started or somebody else stopped it."""
        def __enter__(self) -> Session: ...
        def __exit__(self, *exception: object) -> None: ...
        def status(self) -> SessionStatus:
            """Returns the status of the running session, or the final one."""
        def enable(self, provider: str, *, stacks: bool = False) -> None:
            """Enables a provider, ``Name:Level:Ids:Keywords``, also in processes that register it later."""
        def disable(self, provider: str) -> None:
            """Disables a provider, named as for ``enable``."""
        def capture_state(self, provider: str) -> None:
            """Requests a provider to write its state to this session."""
        def flush(self) -> SessionStatus:
            """Delivers everything that was written so far, to the file and to readers."""
        def dump(self, path: _Path) -> SessionStatus:
            """Writes what a session with ``ring`` has in memory to a file; the session goes on."""
        def events(
            self,
            *,
            where: Optional[str] = None,
            timeout: Optional[float] = None,
            duration: Optional[float] = None,
            process_names: bool = False,
            schemas: Optional[_Paths] = None,
        ) -> Events:
            """Reads the events of a real-time session while it runs, from this call on.

            ``where`` is a filter expression. The iterator raises ``TimeoutError`` if no event comes for ``timeout`` seconds, and
            can then be continued; it ends after ``duration`` seconds, or with the session. ``async for`` works too.
            """

    def listen(
        *sessions: str,
        where: Optional[str] = None,
        timeout: Optional[float] = None,
        duration: Optional[float] = None,
        process_names: bool = False,
        schemas: Optional[_Paths] = None,
    ) -> Events:
        """Reads the events of running real-time sessions, whoever started them, together in time order.

        The arguments are those of ``Session.events``.
        """

    @final
    class Controller:
        """Controls all sessions of this user's host, whoever started them."""

        def __new__(cls) -> Controller: ...
        def sessions(self) -> list[SessionStatus]:
            """Returns all sessions that this user may see."""
        def query(self, session: str) -> SessionStatus:
            """Returns the status of a session. Raises ``SessionError`` with code 4201 if there is none of this name."""
        def stop(self, session: str) -> SessionStatus:
            """Stops a session and returns its final status."""
        def flush(self, session: str) -> SessionStatus:
            """Delivers everything that a session has, to its file and to readers."""
        def enable(self, session: str, provider: str, *, stacks: bool = False) -> None:
            """Enables a provider, ``Name:Level:Ids:Keywords``, in a session."""
        def disable(self, session: str, provider: str) -> None:
            """Disables a provider in a session."""
        def capture_state(self, session: str, provider: str) -> None:
            """Requests a provider to write its state to a session."""
        def dump(self, session: str, path: _Path) -> SessionStatus:
            """Writes what a session in memory has to a file; the session goes on."""
        def update(
            self,
            session: str,
            *,
            maximum_buffers: Optional[int] = None,
            flush_timer: Optional[float] = None,
            file: Optional[_Path] = None,
            real_time: Optional[bool] = None,
        ) -> SessionStatus:
            """Changes a running session; what is not given stays. ``file`` continues it in another file."""
        def providers(self) -> list[dict[str, Any]]:
            """Returns the registered providers: dictionaries with ``name``, ``guid``, ``pids`` and ``sessions``."""

    @final
    class Provider:
        """A source of events, registered until ``close``, or the end of a ``with`` statement.

        Sessions enable it by its name, or by ``guid``, which is derived from the name unless it is given. ``group`` is the GUID
        of a group of providers, which sessions can enable together.
        """

        def __new__(
            cls, name: str, *, guid: Union[None, str, UUID] = None, group: Union[None, str, UUID] = None
        ) -> Provider: ...
        @property
        def name(self) -> str:
            """Name of the provider."""
        @property
        def guid(self) -> UUID:
            """The GUID by which sessions enable the provider, derived from the name unless it was given."""
        def enabled(self, level: int = 4, keyword: int = 0) -> bool:
            """Returns whether a session wants events of this level with these keywords."""
        def write(
            self,
            event: str,
            /,
            *,
            level: int = 4,
            keyword: int = 0,
            opcode: int = 0,
            task: int = 0,
            activity: Union[None, str, UUID] = None,
            related: Union[None, str, UUID] = None,
            fields: Optional[dict[str, Any]] = None,
            **more: Any,
        ) -> bool:
            """Writes an event: ``provider.write("Event", level=4, x=1, s="a")``.

            Its fields are those of ``fields``, and then the other keyword arguments. Values are ``str``, ``int``, ``float``,
            ``bool``, ``bytes``, ``datetime``, ``uuid.UUID``, ``dict`` (a structure), or lists of numbers, truth values or texts.
            Returns whether all sessions that want the event have received it; false if none does.
            """
        def close(self) -> None:
            """Unregisters the provider."""
        def __enter__(self) -> Provider: ...
        def __exit__(self, *exception: object) -> None: ...

    def create_activity() -> UUID:
        """Returns a new activity id."""
    def set_activity(id: UUID) -> UUID:
        """Sets the activity of this thread's events, and returns the previous one."""
