"""The exceptions of the package."""

from __future__ import annotations

import errno


class Error(Exception):
    """Base of all exceptions of the package.

    ``code`` is the number that the corresponding function of ETW returns on Windows, such as 5
    (``ERROR_ACCESS_DENIED``) or 4201 (``ERROR_WMI_INSTANCE_NOT_FOUND``).
    """

    code: int = 0


class ArgumentError(Error, ValueError):
    """An argument has a wrong value."""


class FilterError(ArgumentError):
    """A filter expression is wrong. The message names the column."""


class TraceError(Error):
    """A trace cannot be opened or read."""


class TraceNotFoundError(TraceError, FileNotFoundError):
    """The file of a trace does not exist."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.errno = errno.ENOENT


class SessionError(Error):
    """A session cannot be started, changed or read."""


class SqlError(Error):
    """A SQL statement is wrong, or there is no program that runs it. The message shows the place in the statement."""

    code = 87


class ForkError(Error, RuntimeError):
    """An object that belongs to the parent of a fork was used in the child."""


# Tracebacks name the classes as programs do.
for _class in (Error, ArgumentError, FilterError, TraceError, TraceNotFoundError, SessionError, SqlError, ForkError):
    _class.__module__ = "openetw"
