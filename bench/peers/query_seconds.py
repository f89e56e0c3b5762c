"""Measures how long DuckDB takes for a query on two threads.

usage: query_seconds.py SQL ROUNDS

Prints the median of the seconds. The query runs once before, so that its files are in the system's cache.
"""

import statistics
import sys
import time

import duckdb


def main(sql, rounds):
    connection = duckdb.connect(config={"threads": 2})
    connection.execute(sql).fetchall()
    runs = []
    for _ in range(rounds):
        start = time.perf_counter()
        connection.execute(sql).fetchall()
        runs.append(time.perf_counter() - start)
    print(statistics.median(runs))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
