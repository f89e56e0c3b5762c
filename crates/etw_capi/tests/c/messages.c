/* A classic provider: messages of WPP, instances of events, and its registration as a consumer sees them. */
#define INITGUID
#include <windows.h>
#include <evntrace.h>
#include <evntcons.h>
#include <wmistr.h>
#include <tdh.h>
#include "expect.h"

DEFINE_GUID(control, 0x3970f9cf, 0x2c0c, 0x4f11, 0xb1, 0xcc, 0xe3, 0xa1, 0xe9, 0x95, 0x88, 0x45);
DEFINE_GUID(transfers, 0x3970f9cf, 0x2c0c, 0x4f11, 0xb1, 0xcc, 0xe3, 0xa1, 0xe9, 0x95, 0x88, 0x46);
DEFINE_GUID(sources, 0x0102030a, 0x0506, 0x0708, 0x09, 0x0a, 0x0b, 0x0c, 0x0d, 0x0e, 0x0f, 0x10);

static TRACEHANDLE logger;

static ULONG WINAPI request(WMIDPREQUESTCODE code, PVOID context, ULONG *reserved, PVOID buffer) {
  (void)context, (void)reserved;
  if (code == WMI_ENABLE_EVENTS) {
    logger = GetTraceLoggerHandle(buffer);
  }
  return ERROR_SUCCESS;
}

static VOID WINAPI on_record(PEVENT_RECORD event) {
  const char *format = (const char *)event->UserContext;
  if (event->EventHeader.Flags & EVENT_HEADER_FLAG_TRACE_MESSAGE) {
    WCHAR path[512], text[256];
    size_t at = 0;
    for (; format[at] && at < 511; at++) {
      path[at] = (WCHAR)format[at];
    }
    path[at] = 0;
    TDH_CONTEXT context;
    memset(&context, 0, sizeof context);
    context.ParameterValue = (ULONGLONG)(ULONG_PTR)path;
    context.ParameterType = TDH_CONTEXT_WPP_TMFFILE;
    PROPERTY_DATA_DESCRIPTOR name = {(ULONGLONG)(ULONG_PTR)TEXT("FormattedString"), 0xFFFFFFFF, 0};
    ULONG size = 0;
    EXPECT(TdhGetPropertySize(event, 1, &context, 1, &name, &size), ERROR_SUCCESS);
    EXPECT(size <= sizeof text, 1);
    EXPECT(TdhGetProperty(event, 1, &context, 1, &name, sizeof text, (PBYTE)text), ERROR_SUCCESS);
    EXPECT(event->EventHeader.ProcessId, GetCurrentProcessId());
    printf("message %u: ", event->EventHeader.EventDescriptor.Id);
    for (const WCHAR *character = text; *character; character++) {
      printf("%c", (int)*character);
    }
    printf("\n");
  }
}

static VOID WINAPI on_event(PEVENT_TRACE event) {
  if (memcmp(&event->Header.Guid, &transfers, sizeof(GUID)) == 0) {
    printf("type=%u instance=%u parent=%u same=%d size=%u\n", event->Header.Class.Type, event->InstanceId,
           event->ParentInstanceId, memcmp(&event->ParentGuid, &transfers, sizeof(GUID)) == 0, event->MofLength);
  }
}

int main(int argc, char **argv) {
  struct {
    EVENT_TRACE_PROPERTIES properties;
    char name[64];
    char file[512];
  } session;
  memset(&session, 0, sizeof session);
  if (argc != 3) {
    return 2;
  }
  session.properties.Wnode.BufferSize = sizeof session;
  session.properties.Wnode.Flags = WNODE_FLAG_TRACED_GUID;
  session.properties.LogFileMode = EVENT_TRACE_FILE_MODE_SEQUENTIAL;
  session.properties.LoggerNameOffset = (ULONG)(session.name - (char *)&session);
  session.properties.LogFileNameOffset = (ULONG)(session.file - (char *)&session);
  snprintf(session.file, sizeof session.file, "%s", argv[1]);
  TRACEHANDLE handle = 0, registration = 0;
  TRACE_GUID_REGISTRATION classes[1] = {{&transfers, NULL}};
  EXPECT(StartTraceA(&handle, "OpenEtwMessages", &session.properties), ERROR_SUCCESS);
  EXPECT(RegisterTraceGuidsA(request, NULL, &control, 1, classes, NULL, NULL, &registration), ERROR_SUCCESS);
  EXPECT(EnableTrace(TRUE, 0x30, 4, &control, handle), ERROR_SUCCESS);
  EXPECT(logger != 0, 1);

  INT32 number = 42;
  EXPECT(TraceMessage(logger, TRACE_MESSAGE_GUID | TRACE_MESSAGE_TIMESTAMP | TRACE_MESSAGE_SYSTEMINFO, &sources, 10,
                      &number, sizeof number, NULL),
         ERROR_SUCCESS);
  EXPECT(TraceMessage(logger, TRACE_MESSAGE_GUID, &sources, 11, "text", (SIZE_T)5, &number, sizeof number, NULL),
         ERROR_SUCCESS);
  EXPECT(TraceMessage(logger, TRACE_MESSAGE_GUID, NULL, 10, NULL), ERROR_INVALID_PARAMETER);
  EXPECT(TraceMessage(logger, TRACE_MESSAGE_COMPONENTID, &sources, 10, NULL), ERROR_NOT_SUPPORTED);
  EXPECT(TraceMessage(0, TRACE_MESSAGE_GUID, &sources, 10, NULL), ERROR_INVALID_HANDLE);

  EVENT_INSTANCE_INFO outer, inner;
  EXPECT(CreateTraceInstanceId(classes[0].RegHandle, &outer), ERROR_SUCCESS);
  EXPECT(CreateTraceInstanceId(classes[0].RegHandle, &inner), ERROR_SUCCESS);
  EXPECT(CreateTraceInstanceId(NULL, &inner), ERROR_INVALID_PARAMETER);
  struct {
    EVENT_INSTANCE_HEADER header;
    UINT32 number;
  } event;
  memset(&event, 0, sizeof event);
  event.header.Size = sizeof event;
  event.header.Flags = WNODE_FLAG_TRACED_GUID;
  event.header.Class.Type = EVENT_TRACE_TYPE_START;
  event.number = 9;
  EXPECT(TraceEventInstance(logger, &event.header, &outer, NULL), ERROR_SUCCESS);
  event.header.Class.Type = EVENT_TRACE_TYPE_END;
  event.header.Size = sizeof event.header;
  EXPECT(TraceEventInstance(logger, &event.header, &inner, &outer), ERROR_SUCCESS);
  EXPECT(TraceEventInstance(logger, &event.header, NULL, NULL), ERROR_INVALID_PARAMETER);

  TRACE_GUID_PROPERTIES place[64];
  PTRACE_GUID_PROPERTIES places[64];
  ULONG count = 0, found = 0;
  for (int index = 0; index < 64; index++) {
    places[index] = &place[index];
  }
  EXPECT(EnumerateTraceGuids(places, 64, &count), ERROR_SUCCESS);
  for (ULONG index = 0; index < count; index++) {
    if (memcmp(&place[index].Guid, &control, sizeof(GUID)) == 0) {
      found++;
      EXPECT(place[index].IsEnable, TRUE);
      EXPECT(place[index].EnableLevel, 4);
      EXPECT(place[index].EnableFlags, 0x30);
    }
  }
  EXPECT(found, 1);
  EXPECT(EnumerateTraceGuids(NULL, 64, &count), ERROR_INVALID_PARAMETER);
  EXPECT(UnregisterTraceGuids(registration), ERROR_SUCCESS);
  EXPECT(StopTraceA(handle, NULL, &session.properties), ERROR_SUCCESS);

  EVENT_TRACE_LOGFILEA logfile;
  for (int pass = 0; pass < 2; pass++) {
    memset(&logfile, 0, sizeof logfile);
    logfile.LogFileName = session.file;
    logfile.Context = argv[2];
    if (pass == 0) {
      logfile.ProcessTraceMode = PROCESS_TRACE_MODE_EVENT_RECORD;
      logfile.EventRecordCallback = on_record;
    } else {
      logfile.EventCallback = on_event;
    }
    TRACEHANDLE trace = OpenTraceA(&logfile);
    EXPECT(trace != INVALID_PROCESSTRACE_HANDLE, 1);
    EXPECT(ProcessTrace(&trace, 1, NULL, NULL), ERROR_SUCCESS);
    EXPECT(CloseTrace(trace), ERROR_SUCCESS);
  }
  return failures != 0;
}
