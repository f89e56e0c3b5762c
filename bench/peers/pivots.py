"""Answers pivots with DuckDB over Parquet files, and compares the answers with ours.

usage: pivots.py PIVOTS

The file of pivots is JSON and lies in the folder of the tables (`TABLE.parquet`). It is a list of objects:

- `table`: name of the table whose rows are counted.
- `keys`: columns to group by. A column is a list of `[table, column]`, each but the last a reference to the next table.
- `values`: what is computed of each group, `[name, column]`; the name is count, unique, min, max, sum or mean.
- `filter`: an object with `kind`: all, any or not with `of`, a list of filters; null with `column`; or <, <=, >, >=, ==,
  starts or contains with `column` and `value`.
- `groups`: our answer, a list of `[keys, rows, values]`. Whole numbers are texts, times texts in nanoseconds since 1970,
  stacks lists of frames.

Prints an object with the numbers of `pivots` and `groups`, and the list of `differences`.
"""

import json
import math
import sys
from pathlib import Path

import duckdb

# Differences that are listed of each pivot.
SHOWN = 3


def quoted(name):
    return '"' + name.replace('"', '""') + '"'


class Query:
    """The SQL of a pivot. References become joins, each once."""

    def __init__(self, pivot):
        self.pivot = pivot
        self.joins = {}
        self.parameters = []

    def column(self, steps):
        """The expression of a column."""
        alias, place = "t", ()
        for (_, name), (target, _) in zip(steps, steps[1:]):
            place += (name,)
            if place not in self.joins:
                self.joins[place] = (f"j{len(self.joins)}", alias, name, target)
            alias = self.joins[place][0]
        column = f"{alias}.{quoted(steps[-1][1])}"
        # As nanoseconds since 1970; Python's times have microseconds.
        return f"epoch_ns(cast({column} as timestamp_ns))" if self.type(steps).startswith("TIMESTAMP") else column

    def condition(self, condition):
        """The expression of a filter. A missing value meets no condition."""
        kind = condition["kind"]
        if kind == "all":
            return "(" + " and ".join(["true", *map(self.condition, condition["of"])]) + ")"
        if kind == "any":
            return "(" + " or ".join(["false", *map(self.condition, condition["of"])]) + ")"
        if kind == "not":
            return f"(not {self.condition(condition['of'][0])})"
        column = self.column(condition["column"])
        if kind == "null":
            return f"({column} is null)"
        value = condition["value"]
        if kind in ("starts", "contains"):
            self.parameters.append(value)
            function = "starts_with" if kind == "starts" else "contains"
            return f"coalesce({function}({column}, ?), false)"
        self.parameters.append(value)
        operator = "=" if kind == "==" else kind
        kind = self.type(condition["column"])
        kind = "bigint" if kind.startswith("TIMESTAMP") else kind
        return f"coalesce({column} {operator} cast(? as {kind}), false)"

    def type(self, steps):
        table, column = steps[-1]
        return TYPES[table][column]

    def value(self, name, steps):
        """The expression of an aggregate."""
        column = self.column(steps)
        if name == "unique":
            return f"count(distinct {column})"
        if name == "mean":
            return f"avg({column})"
        return f"{name}({column})"

    def sql(self, folder):
        keys = [self.column(steps) for steps in self.pivot["keys"]]
        values = [self.value(name, steps) for name, steps in self.pivot["values"]]
        condition = self.condition(self.pivot["filter"])
        sql = f"select {', '.join([*keys, 'count(*)', *values])} from '{folder}/{self.pivot['table']}.parquet' t"
        for alias, source, column, target in self.joins.values():
            sql += f" left join '{folder}/{target}.parquet' {alias} on {source}.{quoted(column)} = {alias}.row"
        numbers = ", ".join(str(number + 1) for number in range(len(keys)))
        return f"{sql} where {condition} group by {numbers}"


def shown(value):
    """A value of DuckDB in the form of our answer."""
    if isinstance(value, bool) or value is None or isinstance(value, (str, float)):
        return value
    if isinstance(value, int):
        return str(value)
    if isinstance(value, list):
        return [shown(element) for element in value]
    raise TypeError(f"{type(value)}: {value}")


def are_equal(ours, theirs):
    """Whether two values are the same; means and sums of floating-point numbers within their last digits."""
    if isinstance(ours, float) or isinstance(theirs, float):
        if ours is None or theirs is None:
            return False
        ours, theirs = float(ours), float(theirs)
        return math.isclose(ours, theirs, rel_tol=1e-9) or (math.isnan(ours) and math.isnan(theirs))
    return ours == theirs


def compare(connection, pivot, folder):
    """The differences of one pivot, and the SQL."""
    query = Query(pivot)
    sql = query.sql(folder)
    count = len(pivot["keys"])
    theirs = {}
    for row in connection.execute(sql, query.parameters).fetchall():
        theirs[json.dumps([shown(key) for key in row[:count]])] = row[count], [shown(value) for value in row[count + 1 :]]
    found = []
    for keys, rows, values in pivot["groups"]:
        answer = theirs.pop(json.dumps(keys), None)
        if answer is None:
            found.append(f"group {keys} is ours only")
        elif answer[0] != rows or not all(map(are_equal, values, answer[1])):
            found.append(f"group {keys}: ours {rows} {values}, theirs {answer[0]} {answer[1]}")
    found += [f"group {keys} is theirs only" for keys in theirs]
    return found, sql


TYPES = {}


def main(path):
    folder = path.parent
    connection = duckdb.connect()
    connection.execute("set timezone = 'UTC'")
    for file in folder.glob("*.parquet"):
        columns = connection.execute(f"describe select * from '{file}'").fetchall()
        TYPES[file.stem] = {name: kind for name, kind, *_ in columns}
    pivots = json.loads(path.read_text())
    groups, differences = 0, []
    for number, pivot in enumerate(pivots):
        found, sql = compare(connection, pivot, folder)
        groups += len(pivot["groups"])
        differences += [f"pivot {number}: {difference}; {sql}" for difference in found[:SHOWN]]
    print(json.dumps({"pivots": len(pivots), "groups": groups, "differences": differences}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
