/* A consumer that changes events that it gets, as PerfView's TraceEvent does: ids within payloads, and ids of events without
   one. */
#include <TraceLoggingProvider.h>
#include <evntrace.h>
#include <tdh.h>
#include "expect.h"

TRACELOGGING_DEFINE_PROVIDER(Provider, "OpenETW.Test.Changed",
                             (0x3970f9cf, 0x2c0c, 0x4f11, 0xb1, 0xcc, 0xe3, 0xa1, 0xe9, 0x95, 0x88, 0x93));

static ULONG events;

static TRACE_EVENT_INFO *Information(PEVENT_RECORD event) {
  ULONG size = 0;
  EXPECT(TdhGetEventInformation(event, 0, NULL, NULL, &size), ERROR_INSUFFICIENT_BUFFER);
  TRACE_EVENT_INFO *info = malloc(size);
  EXPECT(TdhGetEventInformation(event, 0, NULL, info, &size), ERROR_SUCCESS);
  return info;
}

static ULONG Number(PEVENT_RECORD event) {
  PROPERTY_DATA_DESCRIPTOR property = {(ULONGLONG)(ULONG_PTR)TEXT("number"), 0xFFFFFFFF, 0};
  ULONG number = 0;
  EXPECT(TdhGetProperty(event, 0, NULL, 1, &property, sizeof number, (PBYTE)&number), ERROR_SUCCESS);
  return number;
}

static VOID WINAPI OnEvent(PEVENT_RECORD event) {
  if (memcmp(&event->EventHeader.ProviderId, &Provider->guid, sizeof(GUID)) != 0) {
    return;
  }
  ULONG number = ++events;
  EXPECT(Number(event), number);

  /* What is written into the payload is what TDH reads. */
  ULONG changed = number + 1000;
  memcpy(event->UserData, &changed, sizeof changed);
  EXPECT(Number(event), changed);

  /* The header that is passed says what the event is. */
  TRACE_EVENT_INFO *info = Information(event);
  EXPECT(info->EventDescriptor.Id, 0);
  free(info);
  event->EventHeader.EventDescriptor.Id = (USHORT)(0xFF00 - number);
  event->EventHeader.EventDescriptor.Level = 2;
  info = Information(event);
  EXPECT(info->EventDescriptor.Id, 0xFF00 - number);
  EXPECT(info->EventDescriptor.Level, 2);
  EXPECT(info->DecodingSource, DecodingSourceTlg);
  EXPECT(info->PropertyCount, 2);
  free(info);
  EXPECT(Number(event), changed);

  /* A copy of the record is the same event; another payload another one. */
  EVENT_RECORD copy = *event;
  copy.EventHeader.EventDescriptor.Id = 0;
  EXPECT(Number(&copy), changed);
  struct {
    ULONG number;
    char text[8];
  } payload = {7, "other"};
  copy.UserData = &payload;
  copy.UserDataLength = 10;
  EXPECT(Number(&copy), 7);
}

static VOID WINAPI OnEventAgain(PEVENT_RECORD event) {
  if (memcmp(&event->EventHeader.ProviderId, &Provider->guid, sizeof(GUID)) == 0) {
    EXPECT(Number(event), ++events);
  }
}

static void Read(char *file, PEVENT_RECORD_CALLBACK callback) {
  EVENT_TRACE_LOGFILEA log;
  memset(&log, 0, sizeof log);
  log.LogFileName = file;
  log.ProcessTraceMode = PROCESS_TRACE_MODE_EVENT_RECORD;
  log.EventRecordCallback = callback;
  TRACEHANDLE trace = OpenTraceA(&log);
  EXPECT(trace == INVALID_PROCESSTRACE_HANDLE, FALSE);
  events = 0;
  EXPECT(ProcessTrace(&trace, 1, NULL, NULL), ERROR_SUCCESS);
  EXPECT(CloseTrace(trace), ERROR_SUCCESS);
  EXPECT(events, 100);
}

int main(int argc, char **argv) {
  struct {
    EVENT_TRACE_PROPERTIES properties;
    char name[64];
    char file[512];
  } session;
  TRACEHANDLE handle = 0;
  if (argc != 3) {
    return 2;
  }
  memset(&session, 0, sizeof session);
  session.properties.Wnode.BufferSize = sizeof session;
  session.properties.Wnode.Flags = WNODE_FLAG_TRACED_GUID;
  session.properties.LogFileMode = EVENT_TRACE_FILE_MODE_SEQUENTIAL | (ULONG)strtoul(argv[2], NULL, 0);
  session.properties.LoggerNameOffset = (ULONG)((char *)session.name - (char *)&session);
  session.properties.LogFileNameOffset = (ULONG)((char *)session.file - (char *)&session);
  strncpy(session.file, argv[1], sizeof session.file - 1);
  TraceLoggingRegister(Provider);
  EXPECT(StartTraceA(&handle, "Changed", &session.properties), ERROR_SUCCESS);
  EXPECT(EnableTraceEx2(handle, &Provider->guid, EVENT_CONTROL_CODE_ENABLE_PROVIDER, 0, 0, 0, 1000, NULL),
         ERROR_SUCCESS);
  for (ULONG number = 1; number <= 100; number++) {
    TraceLoggingWrite(Provider, "Counted", TraceLoggingLevel(4), TraceLoggingUInt32(number, "number"),
                      TraceLoggingString("a text", "text"));
  }
  EXPECT(ControlTraceA(handle, NULL, &session.properties, EVENT_TRACE_CONTROL_STOP), ERROR_SUCCESS);
  TraceLoggingUnregister(Provider);

  Read(argv[1], OnEvent);
  /* The file has what was recorded. */
  Read(argv[1], OnEventAgain);
  printf("changed events: %d failures\n", failures);
  return failures != 0;
}
