"""Measures how long DuckDB takes to group the rows of a Parquet file and to sum a column of each group.

usage: pivot_seconds.py FILE KEY COLUMN ROUNDS

Prints an object with the number of `groups` and the median of the `seconds` on one thread and on two. The file is read
once before, so that it is in the system's cache.
"""

import json
import statistics
import sys
import time

import duckdb


def main(file, key, column, rounds):
    query = f'SELECT "{key}", sum("{column}") FROM read_parquet(?) GROUP BY 1'
    seconds, groups = [], 0
    for threads in (1, 2):
        connection = duckdb.connect(config={"threads": threads})
        connection.execute(query, [file]).fetchall()
        runs = []
        for _ in range(rounds):
            start = time.perf_counter()
            groups = len(connection.execute(query, [file]).fetchall())
            runs.append(time.perf_counter() - start)
        seconds.append(statistics.median(runs))
    print(json.dumps({"groups": groups, "seconds": seconds}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))
