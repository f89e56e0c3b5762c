"""SQL over traces, by the program ``etw-sql``."""

from __future__ import annotations

import os
import subprocess
import tempfile
from typing import Union

from ._errors import SqlError
from ._native import Table, map_arrow

_Path = Union[str, "os.PathLike[str]"]


def sql(statement: str, *files: _Path, program: _Path = "etw-sql") -> Table:
    """Returns the answer to a SQL statement over trace files.

    >>> openetw.sql("select process, count(*) from cpu_sampled group by 1", "trace.etl").to_pandas()

    Tables and functions are those of ``etw sql`` (docs/sql.md). ``program`` runs the statement; it is searched for in
    ``PATH``. The answer is written to a temporary file and mapped into memory, so a library that knows Arrow takes it
    without a copy. Raises ``SqlError`` for a wrong statement, and if the program is missing.
    """
    with tempfile.TemporaryDirectory(prefix="openetw-sql-") as directory:
        answer = os.path.join(directory, "answer.arrows")
        # Paths that start with a dash are no options.
        paths = [os.fspath(path) for path in files]
        paths = [os.path.join(".", path) if path.startswith("-") else path for path in paths]
        command = [os.fspath(program), "--format", "arrow", "-o", answer, "-f", "-", *paths]
        try:
            done = subprocess.run(command, input=statement.encode(), stderr=subprocess.PIPE)
        except OSError as error:
            raise SqlError(f"cannot run {command[0]}: {error.strerror}; docs/sql.md says how to build it") from error
        if done.returncode != 0:
            raise SqlError(done.stderr.decode(errors="replace").strip() or f"{command[0]} ended with {done.returncode}")
        # On Unix, a file that is mapped may be removed.
        return map_arrow(answer)
