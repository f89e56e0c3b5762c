"""Reads the output of `etw export` with independent readers, and prints counts as JSON.

usage: export_check.py FORMAT PATH
"""

import json
import os
import sys
from collections import Counter
from pathlib import Path


def perfetto(path):
    """Decodes all packets with the messages of the package `perfetto`, and follows every reference."""
    from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as protos

    trace = protos.Trace()
    trace.ParseFromString(path.read_bytes())
    counts, tracks, depth, problems = Counter(), set(), Counter(), []
    interned = {}
    for packet in trace.packet:
        data = packet.WhichOneof("data")
        counts[data] += 1
        sequence = interned.setdefault(packet.trusted_packet_sequence_id, {})
        if packet.HasField("interned_data"):
            for field, entries in packet.interned_data.ListFields():
                sequence.setdefault(field.name, {}).update({entry.iid: entry for entry in entries})
        if data == "track_descriptor":
            tracks.add(packet.track_descriptor.uuid)
            parent = packet.track_descriptor.parent_uuid
            if parent and parent not in tracks:
                problems.append(f"track {packet.track_descriptor.uuid} before its parent")
        elif data == "track_event":
            event = packet.track_event
            if event.track_uuid not in tracks:
                problems.append(f"event on track {event.track_uuid} before the track")
            kind = {1: "begin", 2: "end", 3: "instant"}[event.type]
            counts[kind] += 1
            if kind != "end" and event.name_iid not in sequence.get("event_names", {}):
                problems.append(f"event name {event.name_iid}")
            for annotation in event.debug_annotations:
                if annotation.name_iid not in sequence.get("debug_annotation_names", {}):
                    problems.append(f"annotation name {annotation.name_iid}")
            depth[event.track_uuid] += {"begin": 1, "end": -1, "instant": 0}[kind]
            if depth[event.track_uuid] not in (0, 1):
                problems.append(f"slices overlap on track {event.track_uuid}")
        elif data == "perf_sample":
            stack = sequence.get("callstacks", {}).get(packet.perf_sample.callstack_iid)
            if stack is None or not stack.frame_ids:
                problems.append("sample without its stack")
                continue
            for frame in stack.frame_ids:
                found = sequence["frames"].get(frame)
                if found is None or found.function_name_id not in sequence["function_names"]:
                    problems.append(f"frame {frame}")
        elif data == "ftrace_events":
            for event in packet.ftrace_events.event:
                counts[event.WhichOneof("event")] += 1
    counts["problems"] = len(problems)
    return {**counts, "first_problems": problems[:5]}


def chrome(path):
    """Reads the JSON, and looks up every frame."""
    trace = json.loads(path.read_text())
    counts = Counter(event["ph"] for event in trace["traceEvents"])
    frames = trace["stackFrames"]
    problems = [frame for frame in frames.values() if "parent" in frame and frame["parent"] not in frames]
    problems += [sample for sample in trace["samples"] if sample["sf"] not in frames]
    return {**counts, "samples": len(trace["samples"]), "problems": len(problems)}


def firefox(path):
    """Checks that the tables of each thread are consistent."""
    profile = json.loads(path.read_text())
    counts, problems = Counter(), 0
    for thread in profile["threads"]:
        strings = len(thread.get("stringArray", profile.get("shared", {}).get("stringArray", [])))
        samples, stacks, frames = thread["samples"], thread["stackTable"], thread["frameTable"]
        counts["samples"] += samples["length"]
        counts["markers"] += thread["markers"]["length"]
        problems += sum(stack is None or stack >= stacks["length"] for stack in samples["stack"])
        problems += sum(frame >= frames["length"] for frame in stacks["frame"])
        problems += sum(prefix is not None and prefix >= index for index, prefix in enumerate(stacks["prefix"]))
        problems += sum(function >= thread["funcTable"]["length"] for function in frames["func"])
        problems += sum(name >= strings for name in thread["funcTable"]["name"])
        problems += sum(name >= strings for name in thread["markers"]["name"])
    return {**counts, "version": profile["meta"]["preprocessedProfileVersion"], "problems": problems}


def speedscope(path):
    """Checks the file against speedscope's JSON schema, if $SPEEDSCOPE_SCHEMA names it, and counts."""
    profile = json.loads(path.read_text())
    schema = os.environ.get("SPEEDSCOPE_SCHEMA")
    if schema:
        import jsonschema

        jsonschema.validate(profile, json.loads(Path(schema).read_text()))
    frames = len(profile["shared"]["frames"])
    samples = [stack for one in profile["profiles"] for stack in one["samples"]]
    problems = sum(index >= frames for stack in samples for index in stack)
    problems += sum(len(one["samples"]) != len(one["weights"]) for one in profile["profiles"])
    return {"samples": len(samples), "problems": problems, "schema": bool(schema)}


def pcapng(path):
    """Reads all packets with dpkt."""
    import dpkt

    with path.open("rb") as file:
        packets = [(time, len(bytes)) for time, bytes in dpkt.pcapng.Reader(file)]
    return {"packets": len(packets), "bytes": sum(length for _, length in packets), "first": packets[0][0]}


def tables(path):
    """Reads all tables with pyarrow."""
    import pyarrow.feather
    import pyarrow.parquet

    counts = Counter()
    for file in sorted(path.rglob("*")):
        if file.suffix == ".parquet":
            table = pyarrow.parquet.read_table(file)
        elif file.suffix == ".arrow":
            table = pyarrow.feather.read_table(file)
        else:
            continue
        table.validate(full=True)
        counts["files"] += 1
        counts["rows"] += table.num_rows
        counts["columns"] += table.num_columns
    return counts


READERS = {
    "perfetto": perfetto,
    "chrome": chrome,
    "firefox": firefox,
    "speedscope": speedscope,
    "pcapng": pcapng,
    "parquet": tables,
    "arrow": tables,
}

if __name__ == "__main__":
    print(json.dumps(READERS[sys.argv[1]](Path(sys.argv[2]))))
