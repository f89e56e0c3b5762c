"""Tables of .NET, reckoned from `etw dump --format json` on standard input and written as JSON.

Independent of the code behind `etw report`: all events are kept, and each number is looked for in them.
Times are in nanoseconds from 1970, sizes in bytes.
"""

import bisect
import calendar
import json
import re
import sys
import time
from collections import defaultdict

RUNTIME = "Microsoft-Windows-DotNETRuntime"
PRIVATE = "Microsoft-Windows-DotNETRuntimePrivate"
HEAPS = ["gen0", "gen1", "gen2", "loh", "poh"]
TIERS = [
    None,
    "MinOptJitted",
    "Optimized",
    "QuickJitted",
    "OptimizedTier1",
    "OptimizedTier1OSR",
    "QuickJittedInstrumented",
    "OptimizedTier1Instrumented",
]


def number(value):
    return int(value, 16) if isinstance(value, str) else value


def nanoseconds(text):
    seconds, _, fraction = text.rstrip("Z").partition(".")
    return calendar.timegm(time.strptime(seconds, "%Y-%m-%dT%H:%M:%S")) * 10**9 + int(fraction.ljust(9, "0"))


def percent(part, whole):
    return part * 100 / whole if whole else None


class Event:
    def __init__(self, line):
        system = line["System"]
        self.data = line.get("UserData") or line.get("EventData") or {}
        self.provider = system["Provider"].get("Name")
        self.id = system["EventID"]
        self.process = system["Execution"]["ProcessID"]
        self.thread = system["Execution"]["ThreadID"]
        self.time = nanoseconds(system["TimeCreated"]["SystemTime"])


def gc_table(events):
    """The collections of one runtime, from its events in order."""
    events = [event for event in events if event.id in (1, 2, 3, 4, 8, 9, 204)]
    runtime = [event for event in events if event.provider == RUNTIME]
    starts, seen = [], set()
    for event in runtime:
        if event.id == 1 and event.data["Count"] not in seen:
            seen.add(event.data["Count"])
            starts.append(event)
    rows = {start.data["Count"]: new_row(start) for start in starts}

    for begin, complete, end in pauses(runtime):
        inside = [start for start in starts if begin.time <= start.time <= end.time]
        ready = complete or (inside[0].time if inside else end.time)
        if inside:
            borders = [begin.time] + [start.time for start in inside[1:]] + [end.time]
            for start, since, until in zip(inside, borders, borders[1:]):
                row = rows[start.data["Count"]]
                row["pause_ns"] = (row["pause_ns"] or 0) + until - since
                row["suspension_ns"] = row["suspension_ns"] or 0
            rows[inside[0].data["Count"]]["suspension_ns"] += ready - begin.time
            continue
        for row in rows.values():
            is_open = row["background"] and row["start"] <= begin.time
            if is_open and (row["end"](events) or end.time) >= end.time:
                row["pause_ns"] = (row["pause_ns"] or 0) + end.time - begin.time
                row["suspension_ns"] = (row["suspension_ns"] or 0) + ready - begin.time

    for start in starts:
        finish_row(rows[start.data["Count"]], events)
    return list(rows.values())


def pauses(runtime):
    """Suspensions for collections: their begin, the time when all threads stood, and their end."""
    begins = [event for event in runtime if event.id == 9]
    for index, begin in enumerate(begins):
        if not is_for_gc(begin):
            continue
        following = (other.time for other in begins[index + 1 :] if is_for_gc(other))
        limit = next(following, float("inf"))
        later = [event for event in since(runtime, begin.time, limit) if event.thread == begin.thread]
        end = next((event for event in later if event.id == 3), None)
        if end is not None:
            complete = next((event.time for event in later if event.id == 8 and event.time <= end.time), None)
            yield begin, complete, end


def is_for_gc(begin):
    return begin.data["Reason"] in ("SuspendForGC", "SuspendForGCPrep", 1, 6)


def since(events, start, end=float("inf")):
    """The events from one time up to another; both are included."""
    first = bisect.bisect_left(events, start, key=lambda event: event.time)
    last = bisect.bisect_right(events, end, key=lambda event: event.time)
    return events[first:last]


def new_row(start):
    count = start.data["Count"]

    def end_event(events):
        later = since(events, start.time, start.time + 10**10)
        ends = (event for event in later if event.provider == RUNTIME and event.id == 2)
        return next((event for event in ends if event.data["Count"] == count), None)

    def end(events):
        found = end_event(events)
        return found.time if found else None

    return {
        "process_id": start.process,
        "number": count,
        "generation": start.data.get("Depth"),
        "type": start.data.get("Type"),
        "reason": start.data.get("Reason"),
        "start": start.time,
        "background": start.data.get("Type") == "BackgroundGC",
        "pause_ns": None,
        "suspension_ns": None,
        "end": end,
        "end_event": end_event,
    }


def finish_row(row, events):
    end = row.pop("end_event")(events)
    row.pop("end")
    row["duration_ns"] = end.time - row["start"] if end else None
    if end:
        row["generation"] = end.data["Depth"]
    later = since(events, end.time, end.time + 10**9) if end else []
    after_end = [event for event in later if event.thread == end.thread]
    stats = next((event for event in after_end if event.provider == RUNTIME and event.id == 4), None)
    next_start = next((event.time for event in after_end if event.id == 1 and event.provider == RUNTIME), float("inf"))
    if stats is not None and stats.time > next_start:
        stats = None
    for index, heap in enumerate(HEAPS):
        for kind, field in [("after", "GenerationSize"), ("promoted", "TotalPromotedSize")]:
            value = stats and stats.data.get(f"{field}{index}")
            row[f"{heap}_{kind}_bytes"] = None if value is None else number(value)

    def is_history(event):
        return (event.provider == RUNTIME and event.id == 204) or (event.provider == PRIVATE and event.id == 4)

    if row["background"]:
        histories = [event for event in after_end if is_history(event) and event.time <= next_start]
    else:
        during = since(events, row["start"], end.time) if end else []
        histories = [event for event in during if is_history(event)]
    parts = [None] * len(HEAPS)
    for event in histories:
        values = event.data.get("Values")
        values = event.data["Generations"][:4] if values is None else values[:5]
        for index, value in enumerate(values):
            value = {key: number(of_key) for key, of_key in value.items()}
            survived = value["Out"] if "Out" in value else value["PinnedSurv"] + value["NonePinnedSurv"]
            add = [
                value["SizeBefore"],
                value["SizeAfter"],
                value["FreeListAfter"] + value["FreeObjAfter"],
                survived,
                value["SizeBefore"] - value["FreeListBefore"] - value["FreeObjBefore"],
            ]
            parts[index] = [one + other for one, other in zip(parts[index] or [0] * 5, add)]
    known = [part for part in parts if part]
    total = [sum(column) for column in zip(*known)] if known else None
    row["before_bytes"] = total and total[0]
    row["fragmentation_bytes"] = total and total[2]
    row["fragmentation_percent"] = total and percent(total[2], total[1])

    def is_collected(index):
        return row["generation"] is not None and (row["generation"] >= 2 or index <= row["generation"])

    collected = [part for index, part in enumerate(parts) if part and is_collected(index)]
    row["survival_percent"] = percent(sum(part[3] for part in collected), sum(part[4] for part in collected))
    for index, heap in enumerate(HEAPS):
        part = parts[index]
        row[f"{heap}_before_bytes"] = part and part[0]
        row[f"{heap}_fragmentation_bytes"] = part and part[2]
        row[f"{heap}_survival_percent"] = percent(part[3], part[4]) if part and is_collected(index) else None
    for kind in ["after", "promoted"]:
        sizes = [row[f"{heap}_{kind}_bytes"] for heap in HEAPS if row[f"{heap}_{kind}_bytes"] is not None]
        row[f"{kind}_bytes"] = sum(sizes) if sizes else None
    row.pop("background")


def gc_by_process(gcs):
    sums = defaultdict(lambda: {"count": 0, "gen0": 0, "gen1": 0, "gen2": 0, "pause_ns": 0, "max_pause_ns": 0})
    for gc in gcs:
        of_process = sums[gc["process_id"]]
        of_process["count"] += 1
        of_process[f"gen{gc['generation']}"] += 1
        of_process["pause_ns"] += gc["pause_ns"] or 0
        of_process["max_pause_ns"] = max(of_process["max_pause_ns"], gc["pause_ns"] or 0)
    return [{"process_id": process, **sums[process]} for process in sums]


def jit_table(events):
    """The compiled methods of one process."""
    begins = defaultdict(list)
    for event in events:
        if event.provider == RUNTIME and event.id == 145:
            begins[event.thread, event.data["MethodID"]].append(event)
    rows = []
    for event in events:
        if event.provider != RUNTIME or event.id != 143:
            continue
        flags = method_flags(event.data["MethodFlags"])
        if not flags & 8:
            continue
        of_method = begins[event.thread, event.data["MethodID"]]
        index = bisect.bisect_right([begin.time for begin in of_method], event.time) - 1
        begin = of_method.pop(index) if index >= 0 else None
        rows.append(
            {
                "process_id": event.process,
                "thread_id": event.thread,
                "name": method_name(event.data),
                "tier": TIERS[flags >> 7 & 7],
                "start": begin.time if begin else event.time,
                "time_ns": event.time - begin.time if begin else None,
                "il_bytes": number(begin.data["MethodILSize"]) if begin else None,
                "native_bytes": number(event.data["MethodSize"]),
            }
        )
    return rows


def method_flags(flags):
    names = {"Dynamic": 1, "Generic": 2, "HasSharedGenericCode": 4, "Jitted": 8, "JitHelper": 0x10}
    if not isinstance(flags, str):
        return flags
    parts = [part.strip() for part in flags.split("|")]
    return sum(names.get(part) or (int(part, 0) if re.match(r"\d", part) else 0) for part in parts)


def method_name(data):
    arguments = data["MethodSignature"][data["MethodSignature"].find("(") :]
    return ".".join(filter(None, [data["MethodNamespace"], data["MethodName"]])) + arguments


def allocations_by_type(events):
    sums = defaultdict(lambda: [0, 0])
    for event in events:
        if event.provider == RUNTIME and event.id == 10:
            of_type = sums[event.process, event.data.get("TypeName"), event.data["AllocationKind"]]
            of_type[0] += 1
            of_type[1] += number(event.data.get("AllocationAmount64", event.data["AllocationAmount"]))
    return [
        {"process_id": key[0], "type": key[1], "heap": key[2], "count": count, "bytes": size}
        for key, (count, size) in sums.items()
    ]


def main():
    events = [Event(json.loads(line)) for line in sys.stdin]
    runtimes, processes = defaultdict(list), defaultdict(list)
    for event in events:
        runtimes[event.process, event.data.get("ClrInstanceID", 0)].append(event)
        processes[event.process].append(event)
    gcs = [row for of_runtime in runtimes.values() for row in gc_table(of_runtime)]
    jit = [row for of_process in processes.values() for row in jit_table(of_process)]
    tables = {
        "gc": gcs,
        "gc-processes": gc_by_process(gcs),
        "jit": jit,
        "allocations": allocations_by_type(events),
    }
    json.dump(tables, sys.stdout)


main()
