/* A program that records its own events: in real time by functions with 8-bit text, in a file by those with 16 bits, and in
   a private session. It knows nothing of OpenETW, and is compiled with the headers and libraries of MinGW. */
#define WINVER 0x0A00
#define _WIN32_WINNT 0x0A00
#include <windows.h>
#include <evntrace.h>
#include <evntcons.h>
#include <evntprov.h>
#include <tdh.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The library has this function, but no header declares it. */
ULONG WINAPI TdhFormatProperty(PTRACE_EVENT_INFO info, PEVENT_MAP_INFO map, ULONG pointerSize, USHORT inType,
                               USHORT outType, USHORT length, USHORT dataSize, PBYTE data, PULONG bufferSize,
                               PWCHAR buffer, PUSHORT used);

#define COUNT 100

static const GUID provider = {0x2f1e3a5c, 0x0c0d, 0x4a3e, {0x9b, 0x8a, 0x1b, 0x2c, 0x3d, 0x4e, 0x5f, 0x70}};
static REGHANDLE registration;
static volatile LONG enabledLevel;

#define CHECK(call)                                                                                                    \
  do {                                                                                                                 \
    ULONG code = (call);                                                                                               \
    if (code != ERROR_SUCCESS) {                                                                                       \
      fprintf(stderr, "line %d: %s: error %lu\n", __LINE__, #call, code);                                             \
      exit(1);                                                                                                         \
    }                                                                                                                  \
  } while (0)

#define REQUIRE(condition)                                                                                             \
  do {                                                                                                                 \
    if (!(condition)) {                                                                                                \
      fprintf(stderr, "line %d: not so: %s\n", __LINE__, #condition);                                                 \
      exit(1);                                                                                                         \
    }                                                                                                                  \
  } while (0)

/* Metadata of TraceLogging: its size, then names with the types of fields. */
#pragma pack(push, 1)
static const struct {
  USHORT size;
  char name[sizeof "OpenETW.Test.C"];
} traits = {sizeof traits, "OpenETW.Test.C"};

static const struct {
  USHORT size;
  BYTE tags;
  char name[sizeof "Described"];
  char number[sizeof "number"];
  BYTE numberType;
  char text[sizeof "text"];
  BYTE textType;
} description = {sizeof description, 0, "Described", "number", 8, "text", 1};
#pragma pack(pop)

static VOID NTAPI on_enable(LPCGUID source, ULONG isEnabled, UCHAR level, ULONGLONG any, ULONGLONG all,
                            PEVENT_FILTER_DESCRIPTOR filter, PVOID context) {
  (void)source, (void)any, (void)all, (void)filter;
  REQUIRE(context == &registration);
  /* The thread may do all that the program's own threads may. */
  HANDLE event = CreateEventW(NULL, TRUE, FALSE, NULL);
  REQUIRE(event != NULL && SetEvent(event) && WaitForSingleObject(event, 0) == WAIT_OBJECT_0 && CloseHandle(event));
  InterlockedExchange(&enabledLevel, isEnabled ? level : 0);
}

/* Writes events of two kinds in turn: plain ones (id 5), and some that describe themselves (id 0). */
static void write_events(void) {
  for (ULONG number = 0; number < COUNT; number++) {
    EVENT_DESCRIPTOR plain, described;
    EVENT_DATA_DESCRIPTOR data[4];
    WCHAR text[16];
    EventDescCreate(&plain, 5, 1, 0, TRACE_LEVEL_WARNING, 0, 0, 0x10);
    EventDescCreate(&described, 0, 0, 11, TRACE_LEVEL_INFORMATION, 0, 0, 0x10);
    REQUIRE(EventEnabled(registration, &plain) && EventProviderEnabled(registration, TRACE_LEVEL_WARNING, 0x10));
    EventDataDescCreate(&data[0], &number, sizeof number);
    CHECK(EventWrite(registration, &plain, 1, data));
    plain.Level = TRACE_LEVEL_VERBOSE;
    REQUIRE(!EventEnabled(registration, &plain));
    CHECK(EventWrite(registration, &plain, 1, data));
    swprintf(text, sizeof text / sizeof *text, L"text %lu", number);
    EventDataDescCreate(&data[0], &traits, sizeof traits);
    data[0].Reserved = 2;
    EventDataDescCreate(&data[1], &description, sizeof description);
    data[1].Reserved = 1;
    EventDataDescCreate(&data[2], &number, sizeof number);
    EventDataDescCreate(&data[3], text, (ULONG)(wcslen(text) + 1) * sizeof *text);
    CHECK(EventWriteTransfer(registration, &described, NULL, NULL, 4, data));
  }
}

/* What was read of a session or file. */
struct Seen {
  ULONG plain, described;
};

static VOID WINAPI on_event(PEVENT_RECORD event) {
  struct Seen *seen = event->UserContext;
  if (!IsEqualGUID(&event->EventHeader.ProviderId, &provider)) {
    return;
  }
  REQUIRE(event->EventHeader.ProcessId == GetCurrentProcessId());
  if (event->EventHeader.EventDescriptor.Id == 5) {
    ULONG size = 0;
    REQUIRE(event->UserDataLength == 4 && *(ULONG *)event->UserData == seen->plain);
    /* No manifest describes it. */
    REQUIRE(TdhGetEventInformation(event, 0, NULL, NULL, &size) == ERROR_NOT_FOUND);
    seen->plain++;
    return;
  }
  ULONG size = 0, number = 0;
  REQUIRE(TdhGetEventInformation(event, 0, NULL, NULL, &size) == ERROR_INSUFFICIENT_BUFFER);
  PTRACE_EVENT_INFO info = malloc(size);
  REQUIRE(info != NULL);
  CHECK(TdhGetEventInformation(event, 0, NULL, info, &size));
  REQUIRE(info->TopLevelPropertyCount == 2);
  PROPERTY_DATA_DESCRIPTOR property = {(ULONGLONG)(ULONG_PTR)L"number", ULONG_MAX, 0};
  CHECK(TdhGetPropertySize(event, 0, NULL, 1, &property, &size));
  REQUIRE(size == sizeof number);
  CHECK(TdhGetProperty(event, 0, NULL, 1, &property, size, (PBYTE)&number));
  REQUIRE(number == seen->described);
  PBYTE at = event->UserData, end = at + event->UserDataLength;
  WCHAR expected[2][16];
  swprintf(expected[0], 16, L"%lu", number);
  swprintf(expected[1], 16, L"text %lu", number);
  for (ULONG index = 0; index < info->TopLevelPropertyCount; index++) {
    WCHAR text[64];
    USHORT used = 0;
    size = sizeof text;
    CHECK(TdhFormatProperty(info, NULL, 8, info->EventPropertyInfoArray[index].nonStructType.InType,
                            info->EventPropertyInfoArray[index].nonStructType.OutType,
                            info->EventPropertyInfoArray[index].length, (USHORT)(end - at), at, &size, text, &used));
    REQUIRE(wcscmp(text, expected[index]) == 0);
    at += used;
  }
  REQUIRE(at == end);
  free(info);
  seen->described++;
}

static DWORD WINAPI process(LPVOID handle) {
  return ProcessTrace(handle, 1, NULL, NULL);
}

static void enable(TRACEHANDLE session) {
  CHECK(EnableTraceEx2(session, &provider, EVENT_CONTROL_CODE_ENABLE_PROVIDER, TRACE_LEVEL_INFORMATION, 0x10, 0, 1000,
                       NULL));
  for (int waited = 0; enabledLevel != TRACE_LEVEL_INFORMATION && waited < 10000; waited++) {
    Sleep(1);
  }
  REQUIRE(enabledLevel == TRACE_LEVEL_INFORMATION);
}

static void disable(TRACEHANDLE session) {
  CHECK(EnableTraceEx2(session, &provider, EVENT_CONTROL_CODE_DISABLE_PROVIDER, 0, 0, 0, 1000, NULL));
  for (int waited = 0; enabledLevel != 0 && waited < 10000; waited++) {
    Sleep(1);
  }
  REQUIRE(enabledLevel == 0);
}

struct Session {
  EVENT_TRACE_PROPERTIES properties;
  union {
    char narrow[256];
    WCHAR wide[256];
  } name, file;
};

static void prepare(struct Session *session, ULONG mode) {
  memset(session, 0, sizeof *session);
  session->properties.Wnode.BufferSize = sizeof *session;
  session->properties.Wnode.Flags = WNODE_FLAG_TRACED_GUID;
  session->properties.Wnode.ClientContext = 1;
  session->properties.LogFileMode = mode;
  session->properties.LoggerNameOffset = offsetof(struct Session, name);
  session->properties.LogFileNameOffset = offsetof(struct Session, file);
}

static void in_real_time(void) {
  static char name[] = "Program in C";
  struct Session session;
  struct Seen seen = {0, 0};
  TRACEHANDLE handle = 0, trace;
  DWORD code = 1;
  prepare(&session, EVENT_TRACE_REAL_TIME_MODE);
  CHECK(StartTraceA(&handle, name, &session.properties));
  REQUIRE(strcmp(session.name.narrow, name) == 0);
  REQUIRE(StartTraceA(&handle, name, &session.properties) == ERROR_ALREADY_EXISTS);
  enable(handle);
  EVENT_TRACE_LOGFILEA log;
  memset(&log, 0, sizeof log);
  log.LoggerName = name;
  log.ProcessTraceMode = PROCESS_TRACE_MODE_REAL_TIME | PROCESS_TRACE_MODE_EVENT_RECORD;
  log.EventRecordCallback = on_event;
  log.Context = &seen;
  trace = OpenTraceA(&log);
  REQUIRE(trace != INVALID_PROCESSTRACE_HANDLE);
  HANDLE thread = CreateThread(NULL, 0, process, &trace, 0, NULL);
  write_events();
  disable(handle);
  CHECK(ControlTraceA(0, name, &session.properties, EVENT_TRACE_CONTROL_STOP));
  REQUIRE(session.properties.EventsLost == 0 && session.properties.RealTimeBuffersLost == 0);
  REQUIRE(WaitForSingleObject(thread, 30000) == WAIT_OBJECT_0 && GetExitCodeThread(thread, &code) && code == 0);
  CHECK(CloseTrace(trace));
  REQUIRE(seen.plain == COUNT && seen.described == COUNT);
  printf("%lu events in real time\n", seen.plain + seen.described);
}

/* Writes into a session with a file, which ends with this, and reads the file. */
static void in_file(const WCHAR *name, const WCHAR *path, ULONG mode) {
  struct Session session;
  struct Seen seen = {0, 0};
  TRACEHANDLE handle = 0, trace;
  prepare(&session, EVENT_TRACE_FILE_MODE_SEQUENTIAL | mode);
  wcscpy(session.file.wide, path);
  CHECK(StartTraceW(&handle, name, &session.properties));
  enable(handle);
  write_events();
  prepare(&session, mode);
  CHECK(ControlTraceW(handle, NULL, &session.properties, EVENT_TRACE_CONTROL_QUERY));
  REQUIRE(wcscmp(session.name.wide, name) == 0 && _wcsicmp(session.file.wide, path) == 0);
  REQUIRE((session.properties.LogFileMode & mode) == mode);
  disable(handle);
  CHECK(ControlTraceW(handle, NULL, &session.properties, EVENT_TRACE_CONTROL_STOP));
  REQUIRE(session.properties.EventsLost == 0);
  REQUIRE(ControlTraceW(handle, NULL, &session.properties, EVENT_TRACE_CONTROL_STOP) == ERROR_WMI_INSTANCE_NOT_FOUND);
  EVENT_TRACE_LOGFILEW log;
  memset(&log, 0, sizeof log);
  log.LogFileName = (LPWSTR)path;
  log.ProcessTraceMode = PROCESS_TRACE_MODE_EVENT_RECORD;
  log.EventRecordCallback = on_event;
  log.Context = &seen;
  trace = OpenTraceW(&log);
  REQUIRE(trace != INVALID_PROCESSTRACE_HANDLE);
  REQUIRE(log.LogfileHeader.NumberOfProcessors > 0 && log.LogfileHeader.EventsLost == 0);
  CHECK(ProcessTrace(&trace, 1, NULL, NULL));
  CHECK(CloseTrace(trace));
  REQUIRE(seen.plain == COUNT && seen.described == COUNT);
  printf("%lu events in %s\n", seen.plain + seen.described, mode ? "a private session" : "a file");
}

int wmain(int count, WCHAR **arguments) {
  WCHAR path[256];
  REQUIRE(count == 2);
  CHECK(EventRegister(&provider, on_enable, &registration, &registration));
  in_real_time();
  swprintf(path, 256, L"%ls\\c.etl", arguments[1]);
  in_file(L"Program in C, file", path, 0);
  swprintf(path, 256, L"%ls\\private.etl", arguments[1]);
  in_file(L"Program in C, private", path, EVENT_TRACE_PRIVATE_LOGGER_MODE | EVENT_TRACE_PRIVATE_IN_PROC);
  CHECK(EventUnregister(registration));
  printf("done\n");
  return 0;
}
