"""Reads a trace file with dissect.etl and prints what it found as JSON."""

import struct
from uuid import UUID

from common import Pass, arguments, event, report
from dissect.etl import ETL

HEADER = {
    "buffer_size": "BufferSize",
    "number_of_processors": "NumberOfProcessors",
    "end_time": "EndTime",
    "timer_resolution": "TimerResolution",
    "log_file_mode": "LogFileMode",
    "buffers_written": "BuffersWritten",
    "pointer_size": "PointerSize",
    "events_lost": "EventsLost",
    "cpu_speed_in_mhz": "CpuSpeedInMHz",
    "boot_time": "BootTime",
    "perf_freq": "PerfFreq",
    "start_time": "StartTime",
    "clock_type": "ReservedFlags",
    "buffers_lost": "BufferLost",
}


def payload(header):
    """The payload, which the reader returns with the extended items before it."""
    start, more = 0, header.header.Flags & 1
    while more:
        size, _, linkage = struct.unpack_from("<HHH", header.payload, start)
        start, more = start + size, linkage & 1
    return header.payload[start:]


def manifest_event(record):
    """A manifest event: raw time, provider, id, fields as strings; no fields if the reader has no schema."""
    header, fields = record.header, {}
    values = getattr(record.event, "_struct", None)
    for name, value in (values._values if values else {}).items():
        if isinstance(value, (int, str)):
            fields[name] = str(value)
    provider = str(UUID(bytes_le=header.header.ProviderId))
    return [header.time_delta, provider, header.descriptor.id, fields]


def main():
    args = arguments(__doc__)
    with open(args.file, "rb") as file:
        etl = ETL(file)
        header = {ours: int(getattr(etl.logfile_header.header, theirs)) for ours, theirs in HEADER.items()}
        header["logger_name"] = etl.logfile_header.logger_name
        result = {"reader": "dissect.etl", "header": header}

        # The reader keeps every buffer, so each pass opens the file again.
        iterating = Pass(args.seconds)
        try:
            for _ in ETL(file):
                if not iterating.count():
                    break
        except Exception as error:  # noqa: BLE001 - whatever the peer raises, its count so far is valid
            iterating.fail(error)
        result["iterate"] = iterating.done()

        if args.times:
            first, last = None, None
            for record in ETL(file):
                ticks = record.header.time_delta
                if ticks is not None:
                    first = ticks if first is None else min(first, ticks)
                    last = ticks if last is None else max(last, ticks)
            result["first_ticks"], result["last_ticks"] = first, last
            if first is not None:
                result["first_time"] = etl.get_filetime_for_event(first)
                result["last_time"] = etl.get_filetime_for_event(last)

        if args.events:
            headers = (record.header for record in ETL(file) if hasattr(record.header, "descriptor"))
            result["events"] = [
                event(header.time_delta, header.process_id, header.thread_id, header.descriptor.id, payload(header))
                for header in headers
                # The reader's own provider_id has a different byte order.
                if str(UUID(bytes_le=header.header.ProviderId)) == args.events
            ]

        if args.values:
            headers = (record for record in ETL(file) if hasattr(record.header, "descriptor"))
            result["values"] = [manifest_event(record) for record in headers]

        if args.decode:
            decoding = Pass(args.seconds)
            for record in ETL(file):
                try:
                    record.event.event_values()
                    record.header.timestamp
                except Exception as error:  # noqa: BLE001
                    decoding.fail(error)
                if not decoding.count():
                    break
            result["decode"] = decoding.done()
    report(**result)


main()
