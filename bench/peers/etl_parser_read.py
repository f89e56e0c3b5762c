"""Reads a trace file with etl-parser and prints what it found as JSON.

That reader leaves out the records of the first buffer. It knows no MESSAGE records with a time of their own, no INSTANCE
records and no compressed buffers. Its decoding of manifest events fails on its own GUIDs.
"""

from common import Pass, arguments, event, report
from etl.etl import ChunkParser, build_from_stream
from etl.event import Event
from etl.perf import PerfInfo
from etl.system import System
from etl.trace import Trace
from etl.wintrace import WinTrace

# Its layout of the log file header lacks the four bytes of padding after the time zone, so the fields after it (boot
# time, frequency, start time, clock, names) are wrong and are left out here.
HEADER = {
    "buffer_size": "BufferSize",
    "number_of_processors": "NumberOfProcessors",
    "end_time": "EndTime",
    "timer_resolution": "TimerResolution",
    "log_file_mode": "LogFileMode",
    "buffers_written": "BuffersWritten",
    "pointer_size": "PointerSize",
    "events_lost": "EventsLost",
    "cpu_speed_in_mhz": "CPUSpeed",
}

TICKS = {
    "EventRecord": lambda value: value.event_header.timestamp,
    "TraceRecord": lambda value: value.event_header.timestamp,
    "SystemTraceRecord": lambda value: value.system_header.system_time,
    "PerfInfoTraceRecord": lambda value: value.timestamp,
}


def decode(record):
    kind, value = record.type, record.value
    if kind == "EventRecord":
        event = Event(value)
        try:
            return event.parse_tracelogging()
        except Exception:  # noqa: BLE001 - its own example distinguishes them this way
            return event.parse_etw()
    if kind == "SystemTraceRecord":
        return System(value).get_mof()
    if kind == "PerfInfoTraceRecord":
        return PerfInfo(value).get_mof()
    if kind == "WinTraceRecord":
        return WinTrace(value).parse_etw()
    return Trace(value).get_process_id()


def records(file, failures):
    for chunk in file.chunks:
        try:
            parsed = ChunkParser.parse(chunk.payload)
        except Exception as error:  # noqa: BLE001
            failures.fail(error)
            continue
        yield from parsed


def guid(provider_id):
    inner = provider_id.inner
    tail = bytes(inner.data4).hex()
    return f"{inner.data1:08x}-{inner.data2:04x}-{inner.data3:04x}-{tail[:4]}-{tail[4:]}"


def fields(mof):
    """The numbers and strings of a kernel event, as strings."""
    values = {}
    for name, value in mof.source.items():
        kind = getattr(value, "type", None)
        if isinstance(value, int) and not name.startswith("_"):
            values[name] = str(value)
        elif kind == "CString":
            values[name] = bytes(value.string[:-1]).decode("utf-8", "replace")
        elif kind == "WString":
            values[name] = bytes(value.string[:-2]).decode("utf-16le", "replace")
    return values


def kernel_event(record):
    """A kernel event: raw time, class group, type, fields; None if the reader does not support its class."""
    if record.type not in ("SystemTraceRecord", "PerfInfoTraceRecord"):
        return None
    value = record.value
    header = (value.system_header if record.type == "SystemTraceRecord" else value).header
    try:
        mof = decode(record)
    except Exception:  # noqa: BLE001 - an unsupported class or version
        return None
    return [TICKS[record.type](value), int(header.group), int(header.type), fields(mof)]


def main():
    args = arguments(__doc__)
    with open(args.file, "rb") as file:
        data = file.read()

    etl = build_from_stream(data)
    iterating = Pass(args.seconds)
    first, last = None, None
    for record in records(etl, iterating):
        if args.times and record.type in TICKS:
            ticks = TICKS[record.type](record.value)
            first = ticks if first is None else min(first, ticks)
            last = ticks if last is None else max(last, ticks)
        if not iterating.count():
            break
    source = etl.get_header().source
    header = {ours: int(getattr(source, theirs)) for ours, theirs in HEADER.items()}
    result = {"reader": "etl-parser", "header": header, "iterate": iterating.done()}
    if args.times:
        result["first_ticks"], result["last_ticks"] = first, last

    if args.events:
        values = (record.value for record in records(etl, Pass(args.seconds)) if record.type == "EventRecord")
        headers = ((value.event_header, value.user_data) for value in values)
        result["events"] = [
            event(header.timestamp, header.process_id, header.thread_id, header.event_descriptor.Id, payload)
            for header, payload in headers
            if guid(header.provider_id) == args.events
        ]

    if args.values:
        events = (kernel_event(record) for record in records(etl, Pass(args.seconds)))
        result["values"] = [event for event in events if event]

    if args.decode:
        decoding = Pass(args.seconds)
        for record in records(etl, decoding):
            try:
                decode(record)
            except Exception as error:  # noqa: BLE001
                decoding.fail(error)
            if not decoding.count():
                break
        result["decode"] = decoding.done()
    report(**result)


main()
