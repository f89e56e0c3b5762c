/* Buffers of a file and of a session go to another trace, which delivers the same events: what programs do that send buffers to
   another machine. */
#include <windows.h>
#include <evntcons.h>
#include <evntprov.h>
#include <evntrace.h>
#include <tdh.h>
#include <pthread.h>
#include "expect.h"

#define EVENTS 20000u

static const GUID Provider = {0x5cdd5a3e, 0x5d8b, 0x4f7b, {0x92, 0x5b, 0x0b, 0x59, 0x2e, 0x74, 0x37, 0x11}};
static const GUID Cve = {0x85a62a0d, 0x7e17, 0x485f, {0x9d, 0x4f, 0x74, 0x9a, 0x28, 0x71, 0x93, 0xa6}};

/* What a trace delivered. */
typedef struct Delivered {
  ULONG events, outOfOrder, others;
  ULONGLONG sum;
  LONGLONG last;
  TRACEHANDLE close;
} Delivered;

static TRACEHANDLE stream;
static ULONG buffers, completed;
static const ETW_BUFFER_HEADER *volatile kept;
static ULONG keptSize;

static VOID WINAPI OnEvent(PEVENT_RECORD event) {
  Delivered *to = (Delivered *)event->UserContext;
  ULONG number;
  if (memcmp(&event->EventHeader.ProviderId, &Provider, sizeof Provider) != 0) {
    to->others++;
    return;
  }
  memcpy(&number, event->UserData, sizeof number);
  to->events++;
  to->sum = to->sum * 31 + number;
  to->outOfOrder += event->EventHeader.TimeStamp.QuadPart < to->last;
  to->last = event->EventHeader.TimeStamp.QuadPart;
  if (to->close != 0 && to->events == EVENTS) {
    EXPECT(CloseTrace(to->close), ERROR_CTX_CLOSE_PENDING);
  }
}

static BOOL WINAPI OnBuffer(const ETW_BUFFER_HEADER *buffer, ULONG size, const ETW_BUFFER_CALLBACK_INFORMATION *about,
                            void *context) {
  EXPECT(context == &buffers, TRUE);
  EXPECT(about->BuffersRead, ++buffers);
  EXPECT(about->LogfileHeader->PointerSize, 8);
  if (buffers == 3) {
    /* Sent later, by the thread that lets it go. */
    EXPECT(ProcessTraceBufferIncrementReference(about->TraceHandle, buffer), ERROR_SUCCESS);
    EXPECT(ProcessTraceBufferIncrementReference(about->TraceHandle, buffer), ERROR_SUCCESS);
    EXPECT(ProcessTraceBufferDecrementReference(buffer), ERROR_SUCCESS);
    keptSize = size;
    kept = buffer;
  }
  EXPECT(ProcessTraceAddBufferToBufferStream(stream, buffer, size), ERROR_SUCCESS);
  return TRUE;
}

static void WINAPI OnCompletion(const ETW_BUFFER_HEADER *buffer, void *context) {
  EXPECT(buffer != NULL && context == &completed, TRUE);
  completed++;
}

static void *Read(void *handle) {
  TRACEHANDLE trace = *(TRACEHANDLE *)handle;
  EXPECT(ProcessTrace(&trace, 1, NULL, NULL), ERROR_SUCCESS);
  return NULL;
}

static void *LetGo(void *unused) {
  unsigned char first;
  (void)unused;
  while (kept == NULL) {
    Sleep(10);
  }
  Sleep(100);
  /* Still there. */
  memcpy(&first, kept, 1);
  EXPECT(keptSize >= sizeof(ETW_BUFFER_HEADER), TRUE);
  EXPECT(ProcessTraceBufferDecrementReference(kept), ERROR_SUCCESS);
  EXPECT(ProcessTraceBufferDecrementReference(kept), ERROR_INVALID_PARAMETER);
  return NULL;
}

/* Processes a trace whose buffers go to a stream; both deliver the same. */
static void CheckStream(TRACEHANDLE trace, Delivered *direct) {
  Delivered streamed;
  ETW_OPEN_TRACE_OPTIONS options;
  pthread_t reader, keeper;
  buffers = completed = 0;
  kept = NULL;
  memset(&streamed, 0, sizeof streamed);
  memset(&options, 0, sizeof options);
  options.EventCallback = OnEvent;
  options.EventCallbackContext = &streamed;
  stream = OpenTraceFromBufferStream(&options, OnCompletion, &completed);
  EXPECT(stream == INVALID_PROCESSTRACE_HANDLE, FALSE);
  pthread_create(&reader, NULL, Read, &stream);
  pthread_create(&keeper, NULL, LetGo, NULL);
  EXPECT(ProcessTrace(&trace, 1, NULL, NULL), ERROR_SUCCESS);
  pthread_join(keeper, NULL);
  CloseTrace(stream);
  pthread_join(reader, NULL);
  EXPECT(direct->events, EVENTS);
  EXPECT(streamed.events, EVENTS);
  EXPECT(streamed.sum, direct->sum);
  EXPECT(streamed.outOfOrder, 0);
  EXPECT(completed, buffers);
  EXPECT(buffers > 10, TRUE);
  EXPECT(ProcessTraceAddBufferToBufferStream(stream, kept, keptSize), ERROR_INVALID_HANDLE);
}

typedef struct Session {
  EVENT_TRACE_PROPERTIES properties;
  char name[64];
  char file[512];
} Session;

static TRACEHANDLE Start(Session *session, ULONG mode, const char *file) {
  TRACEHANDLE handle = 0;
  memset(session, 0, sizeof *session);
  session->properties.Wnode.BufferSize = sizeof *session;
  session->properties.Wnode.Flags = WNODE_FLAG_TRACED_GUID;
  session->properties.LogFileMode = mode;
  session->properties.BufferSize = 16;
  session->properties.MinimumBuffers = 400;
  session->properties.MaximumBuffers = 400;
  session->properties.LoggerNameOffset = (ULONG)(session->name - (char *)session);
  if (file != NULL) {
    session->properties.LogFileNameOffset = (ULONG)(session->file - (char *)session);
    snprintf(session->file, sizeof session->file, "%s", file);
  }
  EXPECT(StartTraceA(&handle, "BufferStream", &session->properties), ERROR_SUCCESS);
  EXPECT(EnableTraceEx2(handle, &Provider, EVENT_CONTROL_CODE_ENABLE_PROVIDER, 0, 0, 0, 1000, NULL), ERROR_SUCCESS);
  EXPECT(EnableTraceEx2(handle, &Cve, EVENT_CONTROL_CODE_ENABLE_PROVIDER, 0, 0, 0, 1000, NULL), ERROR_SUCCESS);
  return handle;
}

static void Write(REGHANDLE registration) {
  EVENT_DESCRIPTOR descriptor;
  EventDescCreate(&descriptor, 7, 0, 0, TRACE_LEVEL_WARNING, 0, 0, 0);
  for (ULONG number = 0; number < EVENTS; number++) {
    EVENT_DATA_DESCRIPTOR data;
    EventDataDescCreate(&data, &number, sizeof number);
    EXPECT(EventWrite(registration, &descriptor, 1, &data), ERROR_SUCCESS);
  }
}

/* The vulnerability's event, and the schemas of all events of its provider. */
static ULONG vulnerabilities;
static VOID WINAPI OnVulnerability(PEVENT_RECORD event) {
  static const char expected[] = "C\0V\0E\0-\0001\0\0\0h\0o\0w\0\0";
  PTRACE_EVENT_INFO *all;
  ULONG index = 9, count = 0, size = 0;
  if (memcmp(&event->EventHeader.ProviderId, &Cve, sizeof Cve) != 0) {
    return;
  }
  vulnerabilities++;
  EXPECT(event->EventHeader.EventDescriptor.Id, 1);
  EXPECT(event->UserDataLength, sizeof expected);
  EXPECT(memcmp(event->UserData, expected, sizeof expected), 0);
  EXPECT(TdhGetAllEventsInformation(event, NULL, &index, &count, NULL, &size), ERROR_INSUFFICIENT_BUFFER);
  EXPECT(count, 2);
  EXPECT(index, 0);
  all = (PTRACE_EVENT_INFO *)malloc(size);
  EXPECT(TdhGetAllEventsInformation(event, NULL, &index, &count, all, &size), ERROR_SUCCESS);
  for (ULONG number = 0; number < count; number++) {
    EXPECT(all[number]->EventDescriptor.Id, number + 1);
    EXPECT(memcmp(&all[number]->ProviderGuid, &Cve, sizeof Cve), 0);
    EXPECT(all[number]->TopLevelPropertyCount, 2);
  }
  free(all);
  size = 0;
  EXPECT(TdhEnumerateManifestProviderEvents((LPGUID)&Cve, NULL, &size), ERROR_INSUFFICIENT_BUFFER);
  EXPECT(size, 8 + 2 * sizeof(EVENT_DESCRIPTOR));
  size = 0;
  EXPECT(TdhGetManifestEventInformation((LPGUID)&Cve, &event->EventHeader.EventDescriptor, NULL, &size),
         ERROR_INSUFFICIENT_BUFFER);
}

int main(int argc, char **argv) {
  const char *file = argc > 1 ? argv[1] : "";
  Session session;
  REGHANDLE registration = 0;
  ETW_OPEN_TRACE_OPTIONS options;
  Delivered direct;
  TRACE_LOGFILE_HEADER header, queried;
  TRACEHANDLE handle, trace;
  WCHAR name[512];
  ULONG length = 0;
  union {
    ULONG processors;
    LONGLONG times[1 + 1024];
  } dropped;
  ETW_TRACE_PARTITION_INFORMATION partition;
  EXPECT(EventRegister(&Provider, NULL, NULL, &registration), ERROR_SUCCESS);
  /* A file. */
  handle = Start(&session, EVENT_TRACE_FILE_MODE_SEQUENTIAL, file);
  Write(registration);
  EXPECT(CveEventWrite(L"CVE-1", L"how"), ERROR_SUCCESS);
  EXPECT(CveEventWrite(NULL, NULL), ERROR_INVALID_PARAMETER);
  EXPECT(ControlTraceA(handle, NULL, &session.properties, EVENT_TRACE_CONTROL_STOP), ERROR_SUCCESS);
  EXPECT(session.properties.EventsLost, 0);
  MultiByteToWideChar(CP_UTF8, 0, file, -1, name, 512);
  memset(&options, 0, sizeof options);
  memset(&direct, 0, sizeof direct);
  options.EventCallback = OnEvent;
  options.EventCallbackContext = &direct;
  options.BufferCallback = OnBuffer;
  options.BufferCallbackContext = &buffers;
  trace = OpenTraceFromFile(name, &options, &header);
  EXPECT(trace == INVALID_PROCESSTRACE_HANDLE, FALSE);
  EXPECT(QueryTraceProcessingHandle(trace, EtwQueryLogFileHeader, NULL, 0, NULL, 0, &length),
         ERROR_INSUFFICIENT_BUFFER);
  EXPECT(length, sizeof queried);
  EXPECT(QueryTraceProcessingHandle(trace, EtwQueryLogFileHeader, NULL, 0, &queried, sizeof queried, &length),
         ERROR_SUCCESS);
  EXPECT(queried.StartTime.QuadPart, header.StartTime.QuadPart);
  EXPECT(queried.PerfFreq.QuadPart, header.PerfFreq.QuadPart);
  EXPECT(QueryTraceProcessingHandle(trace, EtwQueryLastDroppedTimes, NULL, 0, &dropped, sizeof dropped, &length),
         ERROR_SUCCESS);
  EXPECT(dropped.processors, header.NumberOfProcessors);
  EXPECT(length, 8 + 8 * header.NumberOfProcessors);
  for (ULONG number = 1; number <= dropped.processors; number++) {
    EXPECT(dropped.times[number], 0);
  }
  memset(&partition, 1, sizeof partition);
  EXPECT(QueryTraceProcessingHandle(trace, EtwQueryPartitionInformation, NULL, 0, &partition, sizeof partition,
                                    &length),
         ERROR_SUCCESS);
  EXPECT(length, sizeof partition);
  EXPECT(partition.PartitionType, 0);
  EXPECT(QueryTraceProcessingHandle(trace + 100, EtwQueryLogFileHeader, NULL, 0, NULL, 0, &length),
         ERROR_INVALID_HANDLE);
  EXPECT(ProcessTraceBufferIncrementReference(trace, (const ETW_BUFFER_HEADER *)name), ERROR_INVALID_PARAMETER);
  CheckStream(trace, &direct);
  EXPECT(CloseTrace(trace), ERROR_SUCCESS);
  options.BufferCallback = NULL;
  options.EventCallback = OnVulnerability;
  trace = OpenTraceFromFile(name, &options, NULL);
  EXPECT(ProcessTrace(&trace, 1, NULL, NULL), ERROR_SUCCESS);
  EXPECT(vulnerabilities, 1);
  EXPECT(CloseTrace(trace), ERROR_SUCCESS);
  /* A session. */
  handle = Start(&session, EVENT_TRACE_REAL_TIME_MODE, NULL);
  memset(&direct, 0, sizeof direct);
  options.EventCallback = OnEvent;
  options.BufferCallback = OnBuffer;
  MultiByteToWideChar(CP_UTF8, 0, "BufferStream", -1, name, 512);
  EXPECT(OpenTraceFromRealTimeLoggerWithAllocationOptions(name, &options, 1u << 20, (HANDLE)&options, NULL) ==
             INVALID_PROCESSTRACE_HANDLE,
         TRUE);
  EXPECT(GetLastError(), ERROR_NOT_SUPPORTED);
  trace = OpenTraceFromRealTimeLoggerWithAllocationOptions(name, &options, 1u << 20, NULL, &header);
  EXPECT(trace == INVALID_PROCESSTRACE_HANDLE, FALSE);
  direct.close = trace;
  Write(registration);
  CheckStream(trace, &direct);
  EXPECT(ControlTraceA(handle, NULL, &session.properties, EVENT_TRACE_CONTROL_STOP), ERROR_SUCCESS);
  EXPECT(EventUnregister(registration), ERROR_SUCCESS);
  /* Nothing is brought. */
  options.BufferCallback = OnBuffer;
  EXPECT(OpenTraceFromBufferStream(&options, NULL, NULL) == INVALID_PROCESSTRACE_HANDLE, TRUE);
  options.BufferCallback = NULL;
  stream = OpenTraceFromBufferStream(&options, NULL, NULL);
  EXPECT(ProcessTraceAddBufferToBufferStream(stream, NULL, 100), ERROR_INVALID_PARAMETER);
  memset(name, 0, sizeof name);
  EXPECT(ProcessTraceAddBufferToBufferStream(stream, (const ETW_BUFFER_HEADER *)name, 200), ERROR_INVALID_DATA);
  EXPECT(CloseTrace(stream), ERROR_CTX_CLOSE_PENDING);
  printf("buffer stream: %d failures\n", failures);
  return failures != 0;
}
