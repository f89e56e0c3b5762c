/* Private sessions: no other process sees them, and their handles say that they are private. */
#include <windows.h>
#include <evntcons.h>
#include <evntprov.h>
#include <evntrace.h>
#include "expect.h"

#define PRIVATE (EVENT_TRACE_PRIVATE_LOGGER_MODE | EVENT_TRACE_PRIVATE_IN_PROC)

static const GUID Provider = {0x3970f9cf, 0x2c0c, 0x4f11, {0xb1, 0xcc, 0xe3, 0xa1, 0xe9, 0x95, 0x88, 0x76}};

struct Session {
  EVENT_TRACE_PROPERTIES properties;
  char name[64];
  char file[512];
};

static void Prepare(struct Session *session, ULONG mode) {
  memset(session, 0, sizeof *session);
  session->properties.Wnode.BufferSize = sizeof *session;
  session->properties.Wnode.Flags = WNODE_FLAG_TRACED_GUID;
  session->properties.LogFileMode = mode;
  session->properties.LoggerNameOffset = (ULONG)((char *)session->name - (char *)session);
  session->properties.LogFileNameOffset = (ULONG)((char *)session->file - (char *)session);
}

static VOID WINAPI OnEvent(PEVENT_RECORD event) {
  if (memcmp(&event->EventHeader.ProviderId, &Provider, sizeof(GUID)) == 0) {
    ++*(ULONG *)event->UserContext;
  }
}

int main(int argc, char **argv) {
  struct Session session;
  EVENT_TRACE_LOGFILEA log;
  EVENT_DESCRIPTOR descriptor;
  TRACEHANDLE handle = 0, trace;
  REGHANDLE registration = 0;
  ULONG events = 0, count = 77;
  if (argc != 2) {
    return 2;
  }
  EventDescCreate(&descriptor, 5, 0, 0, TRACE_LEVEL_WARNING, 0, 0, 0);
  EXPECT(EventRegister(&Provider, NULL, NULL, &registration), ERROR_SUCCESS);

  Prepare(&session, EVENT_TRACE_FILE_MODE_SEQUENTIAL | PRIVATE);
  EXPECT(ControlTraceA(0, "Own", &session.properties, EVENT_TRACE_CONTROL_QUERY), ERROR_WMI_INSTANCE_NOT_FOUND);
  strncpy(session.file, argv[1], sizeof session.file - 1);
  session.properties.BufferSize = 1;
  EXPECT(StartTraceA(&handle, "Own", &session.properties), ERROR_SUCCESS);
  EXPECT(session.properties.BufferSize, 4);
  EXPECT(StartTraceA(&handle, "Own", &session.properties), ERROR_ALREADY_EXISTS);
  EXPECT(EnableTraceEx2(handle, &Provider, EVENT_CONTROL_CODE_ENABLE_PROVIDER, TRACE_LEVEL_WARNING, 0, 0, 1000, NULL),
         ERROR_SUCCESS);
  for (int index = 0; index < 10; index++) {
    EXPECT(EventWrite(registration, &descriptor, 0, NULL), ERROR_SUCCESS);
  }

  /* Without the mode and the handle, no session of this name is found, and no list has it. */
  Prepare(&session, 0);
  EXPECT(ControlTraceA(0, "Own", &session.properties, EVENT_TRACE_CONTROL_QUERY), ERROR_WMI_INSTANCE_NOT_FOUND);
  EXPECT(QueryAllTracesA(NULL, 0, &count), ERROR_SUCCESS);
  EXPECT(count, 0);
  EXPECT(ControlTraceA(handle, NULL, &session.properties, EVENT_TRACE_CONTROL_QUERY), ERROR_SUCCESS);
  EXPECT(session.properties.LogFileMode & PRIVATE, PRIVATE);
  EXPECT(strcmp(session.name, "Own") || strcmp(session.file, argv[1]), 0);
  Prepare(&session, PRIVATE);
  EXPECT(ControlTraceA(0, "Own", &session.properties, EVENT_TRACE_CONTROL_FLUSH), ERROR_SUCCESS);
  EXPECT(EnableTraceEx2(handle, &Provider, EVENT_CONTROL_CODE_DISABLE_PROVIDER, 0, 0, 0, 1000, NULL), ERROR_SUCCESS);
  EXPECT(EventEnabled(registration, &descriptor), FALSE);
  EXPECT(ControlTraceA(handle, NULL, &session.properties, EVENT_TRACE_CONTROL_STOP), ERROR_SUCCESS);
  EXPECT(ControlTraceA(handle, NULL, &session.properties, EVENT_TRACE_CONTROL_STOP), ERROR_WMI_INSTANCE_NOT_FOUND);

  memset(&log, 0, sizeof log);
  log.LogFileName = argv[1];
  log.ProcessTraceMode = PROCESS_TRACE_MODE_EVENT_RECORD;
  log.EventRecordCallback = OnEvent;
  log.Context = &events;
  trace = OpenTraceA(&log);
  EXPECT(trace == INVALID_PROCESSTRACE_HANDLE, FALSE);
  EXPECT(ProcessTrace(&trace, 1, NULL, NULL), ERROR_SUCCESS);
  EXPECT(CloseTrace(trace), ERROR_SUCCESS);
  EXPECT(events, 10);

  /* Sessions in the processes of a provider are not there, nor are private ones in real time. */
  Prepare(&session, EVENT_TRACE_FILE_MODE_SEQUENTIAL | EVENT_TRACE_PRIVATE_LOGGER_MODE);
  strncpy(session.file, argv[1], sizeof session.file - 1);
  EXPECT(StartTraceA(&handle, "Own", &session.properties), ERROR_NOT_SUPPORTED);
  Prepare(&session, EVENT_TRACE_REAL_TIME_MODE | PRIVATE);
  EXPECT(StartTraceA(&handle, "Own", &session.properties), ERROR_INVALID_PARAMETER);
  EXPECT(EventUnregister(registration), ERROR_SUCCESS);
  printf("private: %d failures\n", failures);
  return failures != 0;
}
