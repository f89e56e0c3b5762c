"""Answers queries with DuckDB over Parquet files, and compares the answers with those of `etw sql` on the trace.

usage: queries.py ETW_SQL TRACE FOLDER QUERIES

FOLDER has the tables that `etw export` wrote, `TABLE.parquet` and `CLASS/TYPE.parquet`. A query is left out if a table
that it names was not exported, as the trace has none, or if the trace has another version of the event without a field that
it names.

Prints an object with the number of `queries`, that of `rows` in the answers of DuckDB, those queries that had `some` rows,
and the list of `differences`.
"""

import io
import json
import math
import re
import subprocess
import sys
from pathlib import Path

import duckdb
import pyarrow as pa

# Differences that are listed of each query.
SHOWN = 3
# The table whose events have their names in columns, which no export has.
EVENTS = """create view events as
  select e.* exclude (kind, process, thread, size, stack), k.* exclude ("row", provider_guid, is_decoded)
  from generic_events e join event_kinds k on e.kind = k."row" """


def read(path):
    """The queries: number, whether the order counts, and text."""
    parts = re.split(r"^-- (\d+)( ordered)?$", path.read_text(), flags=re.MULTILINE)[1:]
    return [(int(n), ordered is not None, sql.strip()) for n, ordered, sql in zip(*[iter(parts)] * 3)]


def tables(sql):
    """The names after FROM and JOIN that are no names of a WITH clause."""
    names = re.findall(r'\b(?:from|join)\s+(?:"([^"]+)"|([a-z_]+))', sql)
    inner = set(re.findall(r"\bwith\s+([a-z_]+)\s+as\b", sql))
    return {one or other for one, other in names} - inner


def rows(table):
    """The rows of a table of Arrow, with times and durations as whole numbers."""
    columns = []
    for column in table.itercolumns():
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        if pa.types.is_timestamp(column.type):
            column = column.cast(pa.timestamp("ns", column.type.tz)).cast(pa.int64())
        columns.append([value(one) for one in column.to_pylist()])
    return list(zip(*columns)) if columns else []


def value(one):
    """Sums are decimals, integers or floats, by the engine."""
    if one is None or isinstance(one, (str, bytes, bool, list, int)):
        return one
    return int(one) if one == int(one) else float(f"{float(one):.9g}")


def key(row):
    return json.dumps(row, default=str)


def is_same(one, other):
    if isinstance(one, float) or isinstance(other, float):
        return one is not None and other is not None and math.isclose(one, other, rel_tol=1e-8)
    return one == other


def binds(connection, sql):
    """Whether all columns are there."""
    try:
        connection.execute(f"explain {sql}")
    except duckdb.BinderException:
        return False
    return True


def main():
    program, trace, folder, queries = sys.argv[1], sys.argv[2], Path(sys.argv[3]), Path(sys.argv[4])
    connection = duckdb.connect(config={"threads": 2})
    connection.execute("set timezone = 'UTC'")
    known = set()
    for file in sorted(folder.rglob("*.parquet")):
        name = str(file.relative_to(folder).with_suffix(""))
        name = "generic_events" if name == "events" else name
        columns = connection.execute(f"describe select * from '{file}'").fetchall()
        # Times have nanoseconds and no zone.
        exact = [f'cast("{c}" as timestamp_ns) as "{c}"' for c, kind, *_ in columns if kind.startswith("TIMESTAMP")]
        replaced = f" replace ({', '.join(exact)})" if exact else ""
        connection.execute(f'create view "{name}" as select *{replaced} from \'{file}\'')
        known.add(name)
    connection.execute(EVENTS)
    known.add("events")
    asked = [query for query in read(queries) if tables(query[2]) <= known and binds(connection, query[2])]
    script = "\n".join(sql for *_, sql in asked)
    command = [program, trace, "-f", "-", "--format", "arrow", "--no-index"]
    run = subprocess.run(command, input=script.encode(), capture_output=True, timeout=600)
    if run.returncode != 0:
        sys.exit(f"etw sql failed: {run.stderr.decode()}")
    answers, differences, count, some = io.BytesIO(run.stdout), [], 0, []
    for number, ordered, sql in asked:
        ours = rows(pa.ipc.open_stream(answers).read_all())
        theirs = rows(connection.sql(sql).to_arrow_table())
        count += len(theirs)
        if theirs:
            some.append(number)
        if not ordered:
            ours.sort(key=key)
            theirs.sort(key=key)
        differ = [
            (one, other)
            for one, other in zip(ours, theirs)
            if len(one) != len(other) or not all(map(is_same, one, other))
        ]
        if len(ours) != len(theirs):
            differences.append(f"query {number}: {len(ours)} rows, and DuckDB has {len(theirs)}")
        differences += [f"query {number}: {one}, and DuckDB has {other}" for one, other in differ[:SHOWN]]
    print(json.dumps({"queries": len(asked), "rows": count, "some": some, "differences": differences}, default=str))


main()
