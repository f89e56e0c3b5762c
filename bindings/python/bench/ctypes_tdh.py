"""Reads a trace as pywintrace does: with ctypes, ETW's functions, and TDH for each property of each event.

pywintrace itself needs Windows. This calls the same functions in the same order, in ``libopenetw``; on Linux,
``wchar_t`` has 32 bits, so the functions for such texts are used.
"""

import ctypes
import os
import pathlib
import time
from ctypes import POINTER, byref, c_char, c_int64, c_uint16, c_uint32, c_uint64, c_ubyte, c_void_p, c_wchar

ERROR_INSUFFICIENT_BUFFER = 122
INVALID_HANDLE = 2**64 - 1
PROCESS_TRACE_MODE_EVENT_RECORD = 0x10000000
# Flags of a property: it is a structure, or its length or number is the value of another property.
STRUCT, PARAM_LENGTH, PARAM_COUNT = 1, 2, 4


class EventDescriptor(ctypes.Structure):
    _fields_ = [
        ("id", c_uint16), ("version", c_ubyte), ("channel", c_ubyte), ("level", c_ubyte), ("opcode", c_ubyte),
        ("task", c_uint16), ("keyword", c_uint64),
    ]  # fmt: skip


class EventHeader(ctypes.Structure):
    _fields_ = [
        ("size", c_uint16), ("header_type", c_uint16), ("flags", c_uint16), ("property", c_uint16),
        ("thread_id", c_uint32), ("process_id", c_uint32), ("time", c_int64), ("provider", c_ubyte * 16),
        ("descriptor", EventDescriptor), ("processor_time", c_uint64), ("activity", c_ubyte * 16),
    ]  # fmt: skip


class EventRecord(ctypes.Structure):
    _fields_ = [
        ("header", EventHeader), ("processor", c_uint16), ("logger", c_uint16), ("extended_count", c_uint16),
        ("user_data_length", c_uint16), ("extended", c_void_p), ("user_data", c_void_p), ("context", c_void_p),
    ]  # fmt: skip


class LogFile(ctypes.Structure):
    # EVENT_TRACE and TRACE_LOGFILE_HEADER, which nothing here looks at, are bytes.
    _fields_ = [
        ("file_name", ctypes.c_wchar_p), ("logger_name", ctypes.c_wchar_p), ("time", c_int64),
        ("buffers_read", c_uint32), ("mode", c_uint32), ("event", c_uint64 * 11), ("header", c_uint64 * 35),
        ("buffer_callback", c_void_p), ("buffer_size", c_uint32), ("filled", c_uint32), ("lost", c_uint32),
        ("event_callback", c_void_p), ("is_kernel", c_uint32), ("context", c_void_p),
    ]  # fmt: skip


class PropertyInfo(ctypes.Structure):
    _fields_ = [
        ("flags", c_uint32), ("name", c_uint32), ("in_type", c_uint16), ("out_type", c_uint16), ("map_name", c_uint32),
        ("count", c_uint16), ("length", c_uint16), ("tags", c_uint32),
    ]  # fmt: skip


class EventInfo(ctypes.Structure):
    _fields_ = [
        ("provider", c_ubyte * 16), ("event", c_ubyte * 16), ("descriptor", EventDescriptor), ("source", c_uint32),
        ("names", c_uint32 * 10), ("event_name", c_uint32), ("attributes", c_uint32), ("property_count", c_uint32),
        ("top_level_count", c_uint32), ("tags", c_uint32), ("properties", PropertyInfo * 1),
    ]  # fmt: skip


class PropertyDescriptor(ctypes.Structure):
    _fields_ = [("name", c_uint64), ("index", c_uint32), ("reserved", c_uint32)]


Callback = ctypes.CFUNCTYPE(None, POINTER(EventRecord))


def library():
    """Loads ``libopenetw.so``: the one of $OPENETW_LIBRARY, or one that was built in the checkout (``libetw_capi.so``)."""
    path = os.environ.get("OPENETW_LIBRARY")
    if not path:
        root = pathlib.Path(__file__).parents[3]
        target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR") or root / "target")
        built = [target / profile / "libetw_capi.so" for profile in ("release", "debug")]
        path = next((str(path) for path in built if path.exists()), None)
    if not path:
        raise FileNotFoundError("no libopenetw.so: cargo build --release --package etw_capi")
    functions = ctypes.CDLL(path)
    functions.OpenTraceW32.restype = c_uint64
    functions.CloseTrace.argtypes = [c_uint64]
    functions.ProcessTrace.argtypes = [POINTER(c_uint64), c_uint32, c_void_p, c_void_p]
    functions.TdhFormatProperty32.argtypes = [
        c_void_p, c_void_p, c_uint32, c_uint16, c_uint16, c_uint16, c_uint16, c_void_p, POINTER(c_uint32), c_void_p,
        POINTER(c_uint16),
    ]  # fmt: skip
    return functions


class Reader:
    """Calls ``handle`` with the fields of each event of a file, as texts."""

    def __init__(self, path, handle, limit=None):
        self.tdh, self.handle, self.limit = library(), handle, limit
        self.count, self.start = 0, time.perf_counter()
        callback = Callback(self.on_event)
        log_file = LogFile(file_name=str(path), mode=PROCESS_TRACE_MODE_EVENT_RECORD)
        log_file.event_callback = ctypes.cast(callback, c_void_p)
        self.trace = self.tdh.OpenTraceW32(byref(log_file))
        if self.trace == INVALID_HANDLE:
            raise OSError(f"OpenTrace failed for {path}")
        self.is_open = True
        self.tdh.ProcessTrace(byref(c_uint64(self.trace)), 1, None, None)
        self.close()

    def close(self):
        if self.is_open:
            self.is_open = False
            self.tdh.CloseTrace(self.trace)

    def on_event(self, record):
        if not self.is_open:
            return
        self.count += 1
        self.handle(self.fields(record))
        if self.limit and self.count % 256 == 0 and time.perf_counter() - self.start > self.limit:
            self.close()

    def fields(self, record):
        """The fields of an event; empty without a schema."""
        size = c_uint32(0)
        if self.tdh.TdhGetEventInformation32(record, 0, None, None, byref(size)) != ERROR_INSUFFICIENT_BUFFER:
            return {}
        buffer = (c_char * size.value)()
        if self.tdh.TdhGetEventInformation32(record, 0, None, buffer, byref(size)) != 0:
            return {}
        self.record, self.info = record, buffer
        self.address = ctypes.addressof(buffer)
        info = EventInfo.from_buffer(buffer)
        self.properties = (PropertyInfo * info.property_count).from_buffer(buffer, EventInfo.properties.offset)
        self.at, self.left = record.contents.user_data or 0, record.contents.user_data_length
        fields = {}
        for index in range(info.top_level_count):
            if not self.add(fields, index):
                break
        return fields

    def number(self, index):
        """The value of the property that gives another one its length or count."""
        name = self.address + self.properties[index].name
        descriptor, value = PropertyDescriptor(name, 0xFFFFFFFF, 0), c_uint64(0)
        self.tdh.TdhGetProperty32(self.record, 0, None, 1, byref(descriptor), 8, byref(value))
        return value.value

    def add(self, fields, index):
        """Adds a property; returns whether the next one can be read."""
        info = self.properties[index]
        name = ctypes.wstring_at(self.address + info.name)
        count = self.number(info.count) if info.flags & PARAM_COUNT else info.count
        is_array = info.flags & PARAM_COUNT or info.count > 1
        values = []
        for _ in range(count):
            if info.flags & STRUCT:
                value, first = {}, info.in_type
                if not all(self.add(value, member) for member in range(first, first + info.out_type)):
                    return False
            else:
                value = self.format(info)
                if value is None:
                    return False
            values.append(value)
        fields[name] = values if is_array else (values[0] if values else None)
        return True

    def format(self, info):
        """The text of the value at the current place, or none if it cannot be read."""
        map_info = self.map_info(info.map_name) if info.map_name else None
        length = self.number(info.length) if info.flags & PARAM_LENGTH else info.length
        size, used = c_uint32(256), c_uint16(0)
        pointer_size = 4 if self.record.contents.header.flags & 0x20 else 8
        while True:
            text = (c_wchar * (size.value // 4 + 1))()
            status = self.tdh.TdhFormatProperty32(
                self.info, map_info, pointer_size, info.in_type, info.out_type, length & 0xFFFF, self.left, self.at,
                byref(size), text, byref(used),
            )  # fmt: skip
            if status != ERROR_INSUFFICIENT_BUFFER:
                break
        if status != 0:
            return None
        self.at += used.value
        self.left -= used.value
        return text.value

    def map_info(self, offset):
        size, name = c_uint32(0), c_void_p(self.address + offset)
        if self.tdh.TdhGetEventMapInformation32(self.record, name, None, byref(size)) != ERROR_INSUFFICIENT_BUFFER:
            return None
        buffer = (c_char * size.value)()
        status = self.tdh.TdhGetEventMapInformation32(self.record, name, buffer, byref(size))
        return None if status != 0 else buffer
