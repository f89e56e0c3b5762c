"""Records of ``logging`` as events."""

from __future__ import annotations

import logging

from ._native import Provider


class LogHandler(logging.Handler):
    """Writes log records as events ``Log`` of a provider, which is given by its name or as a ``Provider``.

    The fields are ``target`` (the name of the logger), ``message``, ``source`` (file and line) and, if there is one,
    ``exception``. The levels are 1 for CRITICAL, 2 for ERROR, 3 for WARNING, 4 for INFO and 5 below. While no session
    has enabled the provider, records are not formatted.

    >>> import logging, openetw
    >>> logging.getLogger("shop").addHandler(openetw.LogHandler("MyCompany.Shop"))
    """

    def __init__(self, provider: Provider | str, level: int | str = logging.NOTSET) -> None:
        super().__init__(level)
        self._is_own = isinstance(provider, str)
        self.provider = Provider(provider) if isinstance(provider, str) else provider

    def emit(self, record: logging.LogRecord) -> None:
        """Writes a record, if a session wants it."""
        level = _level(record.levelno)
        if not self.provider.enabled(level):
            return
        try:
            fields = {
                "target": record.name,
                "message": record.getMessage(),
                "source": f"{record.pathname}:{record.lineno}",
            }
            if record.exc_info and record.exc_info[0]:
                formatter = self.formatter or logging.Formatter()
                fields["exception"] = formatter.formatException(record.exc_info)
            self.provider.write("Log", level=level, fields=fields)
        except Exception:
            self.handleError(record)

    def close(self) -> None:
        """Unregisters the provider, unless it was passed to the handler."""
        if self._is_own:
            self.provider.close()
        super().close()


def _level(number: int) -> int:
    for limit, level in ((logging.CRITICAL, 1), (logging.ERROR, 2), (logging.WARNING, 3), (logging.INFO, 4)):
        if number >= limit:
            return level
    return 5
