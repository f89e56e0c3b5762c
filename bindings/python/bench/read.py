"""Measures reading a trace with openetw, etl-parser, dissect.etl and code like pywintrace in one run, and prints a table.

    pip install '.[bench]' && cargo build --release --package etw_capi
    python bench/read.py trace.etl [--copies 10] [--rounds 3] [--seconds 10] [--json]

Each measurement is the best of the rounds, which take turns. ``CPU`` is the processor time of the whole process per event,
so it counts the thread that reads beside the Python loop. The peers are stopped after ``--seconds``.
"""

import argparse
import json
import sys
import time

import openetw


def loop(paths):
    """A Python loop that looks at no field."""
    return sum(1 for _ in openetw.open(*paths))


def loop_header(paths):
    """A Python loop that reads three header fields."""
    count = total = 0
    for event in openetw.open(*paths):
        total += event.time_ns + event.id + (event.pid or 0)
        count += 1
    return count


def loop_fields(paths):
    """A Python loop that decodes all fields of all events."""
    count = 0
    for event in openetw.open(*paths):
        event.fields
        count += 1
    return count


def arrow(paths):
    """All events of all kinds as Arrow columns, with every field decoded."""
    return sum(len(table) for table in openetw.open(*paths).tables().values())


def dissect(paths, limit):
    """dissect.etl: a Python loop that looks at no field."""
    from dissect.etl import ETL

    start, count = time.perf_counter(), 0
    for path in paths:
        with open(path, "rb") as file:
            for _ in ETL(file):
                count += 1
                if count % 256 == 0 and time.perf_counter() - start > limit:
                    return count
    return count


def etl_parser(paths, limit):
    """etl-parser: records as they are, without payloads."""
    from etl.etl import ChunkParser, build_from_stream

    start, count = time.perf_counter(), 0
    for path in paths:
        with open(path, "rb") as file:
            stream = build_from_stream(file.read())
        for chunk in stream.chunks:
            try:
                count += sum(1 for _ in ChunkParser.parse(chunk.payload))
            except Exception:  # noqa: BLE001 - it cannot read some buffers
                continue
            if time.perf_counter() - start > limit:
                return count
    return count


def pywintrace(paths, limit):
    """What pywintrace does, in libopenetw: all fields of all events as texts in dictionaries."""
    from ctypes_tdh import Reader

    return sum(Reader(path, lambda fields: None, limit).count for path in paths)


OURS = [loop, loop_header, loop_fields, arrow]
PEERS = [dissect, etl_parser, pywintrace]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file")
    parser.add_argument("--copies", type=int, default=1, help="read the file as several; the peers read it once")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=10.0, help="time after which a peer is stopped")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    best = {}
    for _ in range(args.rounds):
        for measure in OURS + PEERS:
            wall, cpu = time.perf_counter(), time.process_time()
            try:
                if measure in PEERS:
                    events = measure([args.file], args.seconds)
                else:
                    events = measure([args.file] * args.copies)
            except Exception as error:  # noqa: BLE001 - a peer may be missing or fail on a file
                print(f"{measure.__name__}: {type(error).__name__}: {error}", file=sys.stderr)
                continue
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
            if not events:
                continue
            row = {"name": measure.__name__, "events": events, "per_second": events / wall, "cpu_ns": cpu / events * 1e9}
            if measure.__name__ not in best or row["per_second"] > best[measure.__name__]["per_second"]:
                best[measure.__name__] = row
    if args.json:
        print(json.dumps(list(best.values())))
        return
    print(f"{'':12} {'events':>10} {'events/s':>12} {'CPU ns/event':>13} {'events/s a core':>16}")
    for row in best.values():
        a_core = 1e9 / row["cpu_ns"]
        print(f"{row['name']:12} {row['events']:10} {row['per_second']:12,.0f} {row['cpu_ns']:13.0f} {a_core:16,.0f}")


if __name__ == "__main__":
    main()
